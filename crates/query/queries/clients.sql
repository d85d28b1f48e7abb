-- The clients with most queries.
-- $top = 20: how many
SELECT src AS client, count(*) AS queries, count(*) * 1.0 / sum(count(*)) OVER () AS share
FROM queries
GROUP BY src
ORDER BY queries DESC, client
LIMIT $top

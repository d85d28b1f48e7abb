-- The names that are asked for most, in lower case.
-- $top = 20: how many
SELECT lower(qname) AS name, count(*) AS queries, count(DISTINCT src) AS clients
FROM queries
WHERE qname IS NOT NULL
GROUP BY 1
ORDER BY queries DESC, name
LIMIT $top

-- Answers by response code. Answers without a query have no row.
SELECT rcode_name(rcode) AS rcode, count(*) AS answers
FROM queries
WHERE rcode IS NOT NULL
GROUP BY queries.rcode
ORDER BY answers DESC, rcode

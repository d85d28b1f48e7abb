-- RSSAC002 rcode-volume: answers of each UTC day by response code. Answers without a query have no row.
SELECT date_trunc('day', res_time) AS day, rcode, count(*) AS answers
FROM queries
WHERE rcode IS NOT NULL
GROUP BY 1, rcode
ORDER BY 1, rcode

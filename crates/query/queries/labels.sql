-- Queries by the number of labels of the name, without the root's.
SELECT labels, count(*) AS queries
FROM queries
WHERE labels IS NOT NULL
GROUP BY labels
ORDER BY labels

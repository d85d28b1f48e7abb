-- Queries without an answer, by type and transport.
SELECT type_name(qtype) AS type,
       CASE prot WHEN 6 THEN 'TCP' ELSE 'UDP' END AS transport,
       count(*) AS queries
FROM queries
WHERE rcode IS NULL
GROUP BY qtype, prot
ORDER BY queries DESC, type, transport

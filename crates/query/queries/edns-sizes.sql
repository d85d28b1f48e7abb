-- Queries with EDNS by the UDP size that they give, and how many of them have DO.
SELECT edns_udp, count(*) AS queries, count(*) FILTER (WHERE edns_do) AS with_do
FROM queries
WHERE edns_udp IS NOT NULL
GROUP BY edns_udp
ORDER BY queries DESC, edns_udp

-- The networks with most queries: clients of /24, and of /48 for IPv6.
-- $top = 20: how many
SELECT ip_prefix(src, 24, 48) AS network, count(DISTINCT src) AS clients, count(*) AS queries
FROM queries
GROUP BY 1
ORDER BY queries DESC, network
LIMIT $top

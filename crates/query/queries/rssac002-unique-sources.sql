-- RSSAC002 unique-sources: clients of each UTC day, those of IPv6 also as networks of /64.
SELECT date_trunc('day', time) AS day,
       count(DISTINCT src) FILTER (WHERE ipv = 4) AS "num-sources-ipv4",
       count(DISTINCT src) FILTER (WHERE ipv = 6) AS "num-sources-ipv6",
       count(DISTINCT ip_prefix(src, 64)) FILTER (WHERE ipv = 6) AS "num-sources-ipv6-aggregate"
FROM queries
GROUP BY 1
ORDER BY 1

-- RSSAC002 traffic-volume: queries and answers of each UTC day by transport and version of IP. Answers without a query have no row.
SELECT date_trunc('day', time) AS day,
       count(*) FILTER (WHERE prot = 17 AND ipv = 4) AS "dns-udp-queries-received-ipv4",
       count(*) FILTER (WHERE prot = 17 AND ipv = 6) AS "dns-udp-queries-received-ipv6",
       count(*) FILTER (WHERE prot = 6 AND ipv = 4) AS "dns-tcp-queries-received-ipv4",
       count(*) FILTER (WHERE prot = 6 AND ipv = 6) AS "dns-tcp-queries-received-ipv6",
       count(*) FILTER (WHERE prot = 17 AND ipv = 4 AND res_len IS NOT NULL) AS "dns-udp-responses-sent-ipv4",
       count(*) FILTER (WHERE prot = 17 AND ipv = 6 AND res_len IS NOT NULL) AS "dns-udp-responses-sent-ipv6",
       count(*) FILTER (WHERE prot = 6 AND ipv = 4 AND res_len IS NOT NULL) AS "dns-tcp-responses-sent-ipv4",
       count(*) FILTER (WHERE prot = 6 AND ipv = 6 AND res_len IS NOT NULL) AS "dns-tcp-responses-sent-ipv6"
FROM queries
GROUP BY 1
ORDER BY 1

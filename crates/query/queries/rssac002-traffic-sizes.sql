-- RSSAC002 traffic-sizes: messages of each UTC day by transport and size, in bins of 16 octets; the last bin of queries begins at
-- 288 octets, that of answers at 4096.
WITH messages AS (
  SELECT date_trunc('day', time) AS day, prot, 'request' AS message, least(req_len, 288) AS size FROM queries
  UNION ALL
  SELECT date_trunc('day', res_time), prot, 'response', least(res_len, 4096) FROM queries WHERE res_len IS NOT NULL
)
SELECT day,
       CASE prot WHEN 6 THEN 'tcp' ELSE 'udp' END || '-' || message || '-sizes' AS metric,
       size - size % 16 AS from_octets,
       count(*) AS messages
FROM messages
GROUP BY day, prot, message, size - size % 16
ORDER BY day, metric, from_octets

-- RSSAC002 traffic-sizes: messages of each UTC day by transport and size, in bins of 16 octets; the last bin of queries begins at
-- 288 octets, that of answers at 4096.
WITH sizes AS (
  SELECT day_ns, prot, 'request' AS message, least(req_len, 288) AS size, n
  FROM (SELECT time_ns - time_ns % 86400000000000 AS day_ns, prot, req_len, count(*) AS n
        FROM queries GROUP BY 1, 2, 3) AS requests
  UNION ALL
  SELECT day_ns, prot, 'response', least(res_len, 4096), n
  FROM (SELECT res_time_ns - res_time_ns % 86400000000000 AS day_ns, prot, res_len, count(*) AS n
        FROM queries WHERE res_len IS NOT NULL GROUP BY 1, 2, 3) AS responses
)
SELECT to_timestamp_nanos(day_ns) AS day,
       CASE prot WHEN 6 THEN 'tcp-' ELSE 'udp-' END || message || '-sizes' AS metric,
       size - size % 16 AS from_octets,
       CAST(sum(n) AS BIGINT) AS messages
FROM sizes
GROUP BY day_ns, prot, message, size - size % 16
ORDER BY day, metric, from_octets

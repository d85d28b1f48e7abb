-- Sizes of queries in octets of DNS, by transport: mean, quantiles and maximum.
WITH sizes AS (
  SELECT prot, req_len AS size, count(*) AS n FROM queries WHERE req_len IS NOT NULL GROUP BY prot, req_len
), summed AS (
  SELECT prot, size, n,
         sum(n) OVER (PARTITION BY prot ORDER BY size) AS upto,
         sum(n) OVER (PARTITION BY prot) AS total
  FROM sizes
)
SELECT CASE prot WHEN 6 THEN 'TCP' ELSE 'UDP' END AS transport,
       max(total) AS count,
       CAST(sum(n * size) AS DOUBLE) / max(total) AS mean,
       min(size) FILTER (WHERE upto >= 0.5 * total) AS p50,
       min(size) FILTER (WHERE upto >= 0.9 * total) AS p90,
       min(size) FILTER (WHERE upto >= 0.99 * total) AS p99,
       max(size) AS max
FROM summed
GROUP BY prot
ORDER BY count DESC

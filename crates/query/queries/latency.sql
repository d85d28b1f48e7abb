-- From query to answer, as captured, in microseconds: by transport, exactly.
WITH latencies AS (
  SELECT prot, proc_time_ns, count(*) AS n FROM queries WHERE proc_time_ns IS NOT NULL GROUP BY prot, proc_time_ns
), summed AS (
  SELECT prot, proc_time_ns, n,
         sum(n) OVER (PARTITION BY prot ORDER BY proc_time_ns) AS upto,
         sum(n) OVER (PARTITION BY prot) AS total
  FROM latencies
)
SELECT CASE prot WHEN 6 THEN 'TCP' ELSE 'UDP' END AS transport,
       max(total) AS count,
       sum(CAST(n AS DOUBLE) * proc_time_ns) / max(total) / 1e3 AS mean_us,
       min(proc_time_ns) FILTER (WHERE upto >= 0.5 * total) / 1e3 AS p50_us,
       min(proc_time_ns) FILTER (WHERE upto >= 0.9 * total) / 1e3 AS p90_us,
       min(proc_time_ns) FILTER (WHERE upto >= 0.99 * total) / 1e3 AS p99_us,
       min(proc_time_ns) FILTER (WHERE upto >= 0.999 * total) / 1e3 AS p999_us,
       max(proc_time_ns) / 1e3 AS max_us
FROM summed
GROUP BY prot
ORDER BY count DESC

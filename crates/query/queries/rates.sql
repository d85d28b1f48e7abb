-- Queries of each second: mean over the seconds that have one, 95th percentile, maximum.
WITH seconds AS (
  SELECT date_trunc('second', time) AS second, count(*) AS n FROM queries GROUP BY 1
), ranked AS (
  SELECT n, row_number() OVER (ORDER BY n) AS rank, count(*) OVER () AS total FROM seconds
)
SELECT max(total) AS seconds,
       avg(n) AS mean,
       min(n) FILTER (WHERE rank >= 0.95 * total) AS p95,
       max(n) AS max
FROM ranked

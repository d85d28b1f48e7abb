-- Medians of a figure over the valid repeats of each cell, with the least and the most.
-- $metric = latency_p50: the figure, as docs/metrics.md names it
SELECT run, server, family, zone_size, rate, metric, unit,
       count(*) AS repeats, median(value) AS median, min(value) AS least, max(value) AS most
FROM metrics JOIN trials USING (run, trial)
WHERE metric = $metric AND valid
GROUP BY run, server, family, zone_size, rate, metric, unit
ORDER BY run, server, family, zone_size, rate

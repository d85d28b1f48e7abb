-- A figure of each cell by week: median, least and most of the valid trials. Trials of different machines are apart.
-- $metric = latency_p99: the figure, as docs/metrics.md names it
SELECT date_trunc('week', trials.started) AS week, trials.experiment, cpu, server, version, family, zone_size, rate,
       count(DISTINCT trials.run) AS runs, count(*) AS trials, median(value) AS median, min(value) AS least, max(value) AS most
FROM metrics JOIN trials USING (run, trial) JOIN runs USING (run)
WHERE metric = $metric AND valid
GROUP BY 1, trials.experiment, cpu, server, version, family, zone_size, rate
ORDER BY trials.experiment, server, family, zone_size, rate, cpu, week, version

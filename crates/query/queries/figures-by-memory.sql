-- A figure of each cell beside the memory of the machine that it was measured on, the quickest memory first: do memory latency and bandwidth decide, as
-- ISC-TN-2008-1, section 2, says? Give it runs of several machines.
-- $metric = capacity_qps: the figure, as docs/metrics.md names it
SELECT trials.run, cpu, round(memory_latency_ns, 1) AS memory_latency_ns, round(memory_bandwidth_mb_s) AS memory_bandwidth_mb_s,
       trials.experiment, server, family, zone_size, rate, count(*) AS trials, median(value) AS median, min(value) AS least, max(value) AS most
FROM metrics JOIN trials USING (run, trial) JOIN runs USING (run)
WHERE metric = $metric AND valid
GROUP BY trials.run, cpu, memory_latency_ns, memory_bandwidth_mb_s, trials.experiment, server, family, zone_size, rate
ORDER BY trials.experiment, server, family, zone_size, rate, memory_latency_ns NULLS LAST, trials.run

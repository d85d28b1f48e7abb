-- Trials of each run: how many are valid, failed, were skipped, or have warnings.
SELECT run,
       min(started) AS started,
       count(*) AS trials,
       count(*) FILTER (WHERE valid) AS valid,
       count(*) FILTER (WHERE error IS NOT NULL) AS failed,
       count(*) FILTER (WHERE skipped IS NOT NULL) AS skipped,
       count(*) FILTER (WHERE warnings IS NOT NULL) AS with_warnings
FROM trials
GROUP BY run
ORDER BY started, run

-- The 20 trials whose worst second falls furthest below their median second, by answers.
SELECT run, trial, server, min(value) AS least, median(value) AS median, max(value) AS most
FROM series JOIN trials USING (run, trial)
WHERE metric = 'answered_qps'
GROUP BY run, trial, server
ORDER BY least / nullif(median, 0), run, trial
LIMIT 20

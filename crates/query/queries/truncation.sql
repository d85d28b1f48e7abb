-- Truncated answers over UDP by the query's EDNS, and how many were asked for again over TCP (same client, server and question)
-- within ten seconds.
WITH events AS (
  SELECT CASE WHEN edns_udp IS NULL THEN 'without EDNS' WHEN edns_do THEN 'with DO' ELSE 'with EDNS' END AS edns,
         CASE WHEN prot = 6 THEN 'retry' WHEN tc THEN 'truncated' ELSE 'answer' END AS event,
         CASE WHEN prot = 6 THEN time_ns ELSE res_time_ns END AS moment,
         src, dst, lower(qname) AS qname, qtype, qclass
  FROM queries
  WHERE prot = 6 OR res_len IS NOT NULL
), follows AS (
  SELECT edns, event, moment,
         lag(edns) OVER before AS edns_before, lag(event) OVER before AS event_before, lag(moment) OVER before AS moment_before
  FROM events
  WHERE event <> 'answer' AND qtype IS NOT NULL
  WINDOW before AS (PARTITION BY src, dst, qname, qtype, qclass ORDER BY moment)
), retried AS (
  SELECT edns_before AS edns, count(*) AS retried
  FROM follows
  WHERE event = 'retry' AND event_before = 'truncated' AND moment - moment_before <= 10000000000
  GROUP BY edns_before
)
SELECT edns,
       count(*) FILTER (WHERE event <> 'retry') AS answers,
       count(*) FILTER (WHERE event = 'truncated') AS truncated,
       coalesce(max(retried), 0) AS retried
FROM events LEFT JOIN retried USING (edns)
WHERE event <> 'retry'
GROUP BY edns
ORDER BY answers DESC, edns

-- Chapter 6 of RZAIA: truncated answers over UDP and queries over TCP in each time slot, in percent (figures 6.1 to 6.9, 6.11).
-- $minutes = 60: length of a slot
SELECT to_timestamp_nanos(time_ns - time_ns % (60000000000 * $minutes)) AS slot,
       count(*) AS queries,
       100.0 * count(*) FILTER (WHERE prot = 6) / count(*) AS over_tcp,
       100.0 * count(*) FILTER (WHERE prot = 17 AND tc) / nullif(count(*) FILTER (WHERE prot = 17 AND tc IS NOT NULL), 0) AS truncated,
       100.0 * count(*) FILTER (WHERE edns_do) / count(*) AS with_do,
       100.0 * count(*) FILTER (WHERE edns_do AND edns_udp <= 512) / count(*) AS with_do_and_512
FROM queries
GROUP BY 1
ORDER BY 1

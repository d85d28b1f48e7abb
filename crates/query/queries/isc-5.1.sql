-- Section 5.1 of ISC-TN-2008-1: the share of each type of query, and how many of its queries failed, in percent.
SELECT type_name(qtype) AS type,
       100.0 * count(*) / sum(count(*)) OVER () AS of_all,
       100.0 * count(*) FILTER (WHERE rcode <> 0) / count(*) AS failed,
       100.0 * count(*) FILTER (WHERE rcode = 3) / count(*) AS nxdomain
FROM queries
WHERE qtype IS NOT NULL
GROUP BY qtype
ORDER BY of_all DESC, type

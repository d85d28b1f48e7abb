-- The names with most queries over TCP, and how many of their answers over UDP were truncated.
-- $top = 10: how many
SELECT lower(qname) AS name,
       type_name(qtype) AS type,
       count(*) FILTER (WHERE prot = 17 AND tc) AS truncated,
       count(*) FILTER (WHERE prot = 6) AS over_tcp
FROM queries
WHERE qname IS NOT NULL
GROUP BY 1, queries.qtype
HAVING count(*) FILTER (WHERE prot = 6) > 0
ORDER BY over_tcp DESC, truncated DESC, name, type
LIMIT $top

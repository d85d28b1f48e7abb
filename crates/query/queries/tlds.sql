-- The last labels that are asked for most, and how many of their queries got NXDOMAIN.
-- $top = 20: how many
SELECT tld(qname) AS tld, count(*) AS queries, count(*) FILTER (WHERE rcode = 3) AS nxdomain
FROM queries
WHERE qname IS NOT NULL
GROUP BY 1
ORDER BY queries DESC, tld
LIMIT $top

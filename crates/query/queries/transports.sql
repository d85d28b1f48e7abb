-- Queries by transport and version of IP, and how many over UDP and IPv4 have DF.
SELECT CASE prot WHEN 6 THEN 'TCP' ELSE 'UDP' END AS transport,
       ipv AS ip_version,
       count(*) AS queries,
       count(*) FILTER (WHERE req_ip_df) AS df
FROM queries
GROUP BY prot, ipv
ORDER BY queries DESC

-- UDP checksums of queries: right, absent, bad, offloaded (left to the sender's interface), or unknown.
SELECT req_checksum AS checksum, count(*) AS queries
FROM queries
WHERE req_checksum IS NOT NULL
GROUP BY req_checksum
ORDER BY queries DESC, checksum

-- Queries by type, and how many of them failed (another code than NOERROR) or have no answer; none: without a question.
SELECT CASE
         WHEN qtype IS NULL THEN 'none'
         WHEN qclass = 1 THEN type_name(qtype)
         ELSE type_name(qtype) || ' ' || class_name(qclass)
       END AS type,
       count(*) AS queries,
       count(*) FILTER (WHERE rcode <> 0) AS failed,
       count(*) FILTER (WHERE rcode IS NULL) AS unanswered
FROM queries
GROUP BY qtype, qclass
ORDER BY queries DESC, type

-- Answers over UDP with more than 512, 1232 and 1452 octets.
SELECT count(*) AS answers,
       count(*) FILTER (WHERE res_len > 512) AS above_512,
       count(*) FILTER (WHERE res_len > 1232) AS above_1232,
       count(*) FILTER (WHERE res_len > 1452) AS above_1452
FROM queries
WHERE prot = 17 AND res_len IS NOT NULL

-- Queries by opcode.
SELECT opcode_name(opcode) AS opcode, count(*) AS queries
FROM queries
GROUP BY queries.opcode
ORDER BY queries DESC, opcode

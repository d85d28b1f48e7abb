-- Queries with EDNS, with DO, with RD; answers with EDNS, with AA, with TC.
SELECT count(*) AS queries,
       count(edns_udp) AS edns,
       count(*) FILTER (WHERE edns_do) AS "do",
       count(*) FILTER (WHERE rd) AS rd,
       count(rcode) AS answers,
       count(res_edns_udp) AS answers_with_edns,
       count(*) FILTER (WHERE aa) AS authoritative,
       count(*) FILTER (WHERE tc) AS truncated
FROM queries

-- rivet:description: Step 1, a filter. The lines that were shipped in 1995 and 1996.
SELECT l_orderkey, l_extendedprice, l_discount, l_shipdate
FROM lineitem
WHERE l_shipdate >= DATE '1995-01-01' AND l_shipdate < DATE '1997-01-01'

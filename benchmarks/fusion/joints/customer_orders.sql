-- rivet:description: Step 2, a join. Each order with its customer's nation.
SELECT o_orderkey, c_nationkey
FROM orders
JOIN customer ON c_custkey = o_custkey

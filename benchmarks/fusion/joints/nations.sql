-- rivet:description: Step 3, a join. Each nation with its region.
SELECT n_nationkey, n_name, r_name
FROM nation
JOIN region ON r_regionkey = n_regionkey

-- rivet:description: Step 4, all joined. Each shipped line with the nation and region it was sold to.
SELECT l_extendedprice, l_discount, l_shipdate, n_name, r_name
FROM shipped_lines
JOIN customer_orders ON o_orderkey = l_orderkey
JOIN nations ON n_nationkey = c_nationkey

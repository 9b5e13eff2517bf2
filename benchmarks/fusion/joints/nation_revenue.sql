-- rivet:description: Step 6, an aggregate. The revenue of each nation and year.
SELECT
  n_name AS nation,
  year(l_shipdate) AS ship_year,
  count(*) AS lines,
  sum(l_extendedprice * (1 - l_discount)) AS revenue
FROM european_sales
GROUP BY n_name, year(l_shipdate)

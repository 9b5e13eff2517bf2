-- rivet:description: Step 5, a filter. One region out of five.
SELECT * FROM sales WHERE r_name = 'EUROPE'

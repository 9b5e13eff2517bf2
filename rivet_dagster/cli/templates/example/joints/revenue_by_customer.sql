-- rivet:description: What each customer has paid.
-- rivet:catalog: warehouse
-- rivet:assert: not_null(customer)
-- rivet:assert: unique(customer)
-- rivet:assert: expression(sql='revenue >= 0', severity=warn, name=no_negative_revenue)
SELECT customer, sum(amount) AS revenue
FROM paid_orders
GROUP BY customer

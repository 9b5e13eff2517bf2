-- rivet:description: Orders that have been paid.
SELECT * FROM orders WHERE paid_at IS NOT NULL

-- a customer has a name
select c.customer_id from {{ ref('customers') }} c
join {{ ref('stg_customers') }} s on s.customer_id = c.customer_id
where c.name is null or length(s.name) = 0

with orders as (
    select
        customer_id,
        min(order_date) as first_order,
        max(order_date) as most_recent_order,
        count(order_id) as number_of_orders
    from {{ ref('stg_orders') }}
    group by customer_id
),

payments as (
    select orders.customer_id, sum(amount) as total_amount
    from {{ ref('stg_payments') }} as payments
    left join {{ ref('stg_orders') }} as orders using (order_id)
    group by orders.customer_id
)

select
    customers.customer_id,
    customers.first_name,
    customers.last_name,
    orders.first_order,
    orders.most_recent_order,
    coalesce(orders.number_of_orders, 0) as number_of_orders,
    payments.total_amount as customer_lifetime_value
from {{ ref('stg_customers') }} as customers
left join orders using (customer_id)
left join payments using (customer_id)

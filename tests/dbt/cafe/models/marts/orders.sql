{% set methods = var('payment_methods') %}

with order_payments as (
    select
        order_id,
        {% for method in methods -%}
        sum(case when payment_method = '{{ method }}' then amount else 0 end) as {{ method }}_amount,
        {% endfor -%}
        sum(amount) as total_amount
    from {{ ref('stg_payments') }}
    group by order_id
)

select
    orders.order_id,
    orders.customer_id,
    orders.order_date,
    orders.status,
    {% for method in methods -%}
    order_payments.{{ method }}_amount,
    {% endfor -%}
    order_payments.total_amount as amount
from {{ ref('stg_orders') }} as orders
left join order_payments using (order_id)

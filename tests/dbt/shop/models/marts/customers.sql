{%- set methods = var('methods') -%}
with orders as (
    select * from {{ ref('stg_orders') }}
),
paid as (
    select
        customer_id,
        {%- for method in methods %}
        sum(case when method = '{{ method }}' then amount_cents else 0 end) as {{ method }}_cents,
        {%- endfor %}
        count(*) as orders,
        max(ordered_at) as last_order
    from orders
    where customer_id is not null
    group by customer_id
)
select
    {{ tools.key(['c.customer_id', 'c.name']) }} as customer_key,
    c.customer_id,
    c.name,
    '{{ var("currency") }}' as currency,
    {% for method in methods -%}
    coalesce(p.{{ method }}_cents, 0) as {{ method }}_cents,
    {% endfor -%}
    coalesce(p.orders, 0) as orders,
    p.last_order
from {{ ref('stg_customers') }} c
left join paid p on c.customer_id = p.customer_id

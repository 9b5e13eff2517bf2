{{ config(materialized='view') }}
select order_id, customer_id, amount from {{ ref('orders') }} where status in ('placed', 'shipped')

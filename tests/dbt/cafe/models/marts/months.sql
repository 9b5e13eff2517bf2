{{ config(materialized='ephemeral') }}
select date_trunc('month', order_date) as month, amount from {{ ref('orders') }}

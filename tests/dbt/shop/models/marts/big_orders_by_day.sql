{{ config(materialized='table', alias='big_days') }}
select {{ dbt.date_trunc('day', 'ordered_at') }} as day, count(*) as orders, sum(amount_cents) as cents
from {{ ref('big_orders') }}
group by 1

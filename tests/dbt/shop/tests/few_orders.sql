{{ config(severity='warn', error_if='> 10') }}
select * from {{ ref('orders_so_far') }} where amount_cents > 1000

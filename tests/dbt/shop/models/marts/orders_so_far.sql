{{ config(
    materialized='incremental',
    incremental_strategy='append',
) }}
select order_id, customer_id, ordered_at, amount_cents
from {{ ref('stg_orders') }}
{% if is_incremental() %}
where order_id > (select max(order_id) from {{ this }})
{% endif %}

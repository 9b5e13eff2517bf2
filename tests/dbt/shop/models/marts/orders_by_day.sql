{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by=['day'], file_format='parquet') }}
select count(*) as orders, sum(amount_cents) as cents, cast(ordered_at as date) as day
from {{ ref('stg_orders') }}
{% if is_incremental() %}
where cast(ordered_at as date) >= (select max(day) from {{ this }})
{% endif %}
group by cast(ordered_at as date)

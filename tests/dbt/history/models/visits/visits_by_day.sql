{{ config(incremental_strategy='insert_overwrite', partition_by='day') }}
select id, city, n, day from {{ ref('visits') }}
{% if is_incremental() %}
where day >= (select max(day) from {{ this }})
{% endif %}

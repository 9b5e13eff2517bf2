{{ config(incremental_strategy='append') }}
select * from {{ ref('visits') }}
{% if is_incremental() %}
where id not in (select id from {{ this }})
{% endif %}

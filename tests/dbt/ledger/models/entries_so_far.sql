{{ config(materialized='incremental', incremental_strategy='append') }}
select * from {{ ref('stg_entries') }}
{% if is_incremental() %}
where entry_id > (select max(entry_id) from {{ this }})
{% endif %}

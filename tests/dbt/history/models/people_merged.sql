{{ config(materialized='incremental', incremental_strategy='merge', unique_key='id') }}
select id, name, city from {{ ref('people') }}
{% if is_incremental() %}
where changed_at > '2024-01-31'
{% endif %}

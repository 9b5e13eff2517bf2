{{ config(materialized='incremental', incremental_strategy='merge', unique_key='account_id') }}
select account_id, sum(amount) as balance, max(booked_on) as last_booked_on
from {{ ref('stg_entries') }}
{% if is_incremental() %}
where account_id in (
    select account_id from {{ ref('stg_entries') }} where booked_on > (select max(last_booked_on) from {{ this }})
)
{% endif %}
group by account_id

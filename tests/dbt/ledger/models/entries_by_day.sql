{{ config(materialized='incremental', incremental_strategy='insert_overwrite', partition_by='booked_on') }}
select count(*) as entries, sum(amount) as amount, booked_on
from {{ ref('stg_entries') }}
{% if is_incremental() %}
where booked_on >= (select max(booked_on) from {{ this }})
{% endif %}
group by booked_on

{{ config(incremental_strategy='insert_overwrite', partition_by=['day', 'city']) }}
select id, n, day, city from {{ ref('visits') }}

{{ config(
    incremental_strategy='microbatch', event_time='day', begin='2024-01-01', batch_size='year', partition_by='day'
) }}
select id, n, day from {{ ref('visits') }}

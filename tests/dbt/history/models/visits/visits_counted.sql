{{ config(incremental_strategy='merge', unique_key='id', merge_update_columns=['n']) }}
select id, city, n from {{ ref('visits') }}

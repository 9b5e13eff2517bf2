{{ config(materialized='incremental', incremental_strategy='insert_overwrite') }}
select method, count(*) as orders from {{ ref('stg_orders') }} group by method

{{ config(materialized='ephemeral') }}
select * from {{ ref('stg_orders') }} where amount_cents >= {{ var('lowest') }} * 100

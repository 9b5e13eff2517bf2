{{ config(alias='customers_stage', tags=['pii']) }}

{# what is left of a customer #}
select
    id as customer_id,
    name,
    born,
    coalesce(vip, false) as is_vip,
    score
from {{ ref('raw_customers') }}

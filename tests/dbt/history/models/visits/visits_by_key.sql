{{ config(incremental_strategy='merge', unique_key=['day', 'city']) }}
select day, city, sum(n) as n, count(*) as visits
from {{ ref('visits') }}
{% if is_incremental() %}
where day >= (select max(day) from {{ this }})
{% endif %}
group by day, city

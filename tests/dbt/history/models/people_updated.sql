select id, max(dbt_updated_at) as last_change, count(distinct dbt_scd_id) as versions
from {{ ref('people_by_time') }}
group by id

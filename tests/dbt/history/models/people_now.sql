select id, name, city, dbt_valid_from as since
from {{ ref('people_by_time') }}
where dbt_valid_to is null

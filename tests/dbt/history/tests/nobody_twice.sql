select id from {{ ref('people_by_time') }} where dbt_valid_to is null group by id having count(*) > 1

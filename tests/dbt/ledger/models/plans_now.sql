select plan, count(*) as accounts
from {{ ref('accounts_by_time') }}
where dbt_valid_to is null
group by plan

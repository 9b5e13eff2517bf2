select id as visit_id, customer_id, at, {{ dbt.date_trunc('day', 'at') }} as day
from {{ source('crm', 'visits') }}
where at >= date '{{ var("since") }}'

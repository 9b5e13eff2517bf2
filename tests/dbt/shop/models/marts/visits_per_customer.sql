select c.name, count(v.visit_id) as visits, min(v.day) as first_day
from {{ ref('customers') }} c left join {{ ref('stg_visits') }} v on v.customer_id = c.customer_id
group by c.name

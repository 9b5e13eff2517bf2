select month, sum(amount) as revenue, count(*) as orders from {{ ref('months') }} group by month

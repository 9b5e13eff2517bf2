{{ config(materialized='table') }}
select a.day, a.city, a.n, k.visits, s.id as latest
from {{ ref('visits_by_day_and_city') }} a
left join {{ ref('visits_by_key') }} k on k.day = a.day and k.city = a.city
left join (select city, max(id) as id from {{ ref('visits_synced') }} group by city) s on s.city = a.city

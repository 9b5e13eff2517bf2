with days as (
    {{ handy.days(var('since'), var('until')) }}
)

select days.day, count(events.id) as events
from days
left join {{ ref('events') }} as events on events.day = days.day
group by days.day

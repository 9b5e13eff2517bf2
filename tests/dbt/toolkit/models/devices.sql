select
    visitor,
    {{ handy.spread('device', ['Phone', 'Desk', 'Tablet'], 'seconds', prefix='on_') }},
    {{ handy.ratio('sum(seconds)', 'count(seconds)') }} as seconds_per_event
from {{ ref('events') }}
group by visitor

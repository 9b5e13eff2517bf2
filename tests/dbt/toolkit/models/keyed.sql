select
    {{ handy.hashed_key(['part', 'id']) }} as event_key,
    {{ handy.hashed_key(['visitor', 'seconds']) }} as visit_key,
    *
from {{ ref('events') }}

select a.id, a.price as old_price, b.price as new_price, l.price as latest
from {{ ref('prices', v=1) }} a
join {{ ref('prices', version=2) }} b on a.id = b.id
join {{ ref('prices') }} l on a.id = l.id

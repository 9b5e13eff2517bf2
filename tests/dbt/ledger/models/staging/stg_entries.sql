select id as entry_id, account_id, booked_on, cast(amount as decimal(12, 2)) as amount
from {{ ref('entries') }}

select
    id as payment_id,
    order_id,
    payment_method,
    {{ cents_to_euros('amount') }} as amount
from {{ ref('raw_payments') }}

with source as (
    select * from {{ ref('raw_orders') }}
),
renamed as (
    select
        id as order_id,
        customer_id,
        ordered_at,
        {{ cents('amount') }} as amount_cents,
        method,
        note
    from source
)
select * from renamed

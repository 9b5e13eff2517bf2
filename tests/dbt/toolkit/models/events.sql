{{ handy.union_of([ref('clicks'), ref('orders')], ['id', 'visitor', 'device', 'day', 'seconds']) }}

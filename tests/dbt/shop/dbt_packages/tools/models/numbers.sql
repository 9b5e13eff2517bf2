select 1 as n, 'one{{ var("suffix") }}' as name union all select 2, 'two' union all select 3, 'three'

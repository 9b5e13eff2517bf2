select 1 as id, 10.5 as price

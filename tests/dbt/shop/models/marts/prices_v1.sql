select 1 as id, 10 as price

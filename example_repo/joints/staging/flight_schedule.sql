-- rivet:description: One row for each scheduled flight, with a key, a date and only the columns that are read.
-- rivet:owners: [team:flight-data]
-- rivet:tags: [staging]
SELECT
  concat_ws(
    '-', date_format(make_date(year, month, day), 'yyyyMMdd'), carrier, CAST(flight AS STRING), origin
  ) AS flight_id,
  make_date(year, month, day) AS flight_date,
  month,
  hour AS sched_hour,
  time_hour,
  carrier,
  flight,
  tailnum,
  origin,
  dest,
  distance,
  dep_time,
  dep_delay,
  arr_delay,
  air_time
FROM flights

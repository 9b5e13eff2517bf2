-- rivet:description: Routes on the map, with the great circle beside the distance that the timetable lists.
-- rivet:owners: [team:flight-data]
WITH mapped AS (
  SELECT
    routes.*,
    there.name AS dest_name,
    here.lat AS origin_lat,
    here.lon AS origin_lon,
    there.lat AS dest_lat,
    there.lon AS dest_lon,
    great_circles.miles AS great_circle
  FROM routes
  JOIN airports AS here ON here.faa = routes.origin
  LEFT JOIN airports AS there ON there.faa = routes.dest
  LEFT JOIN great_circles ON great_circles.origin = routes.origin AND great_circles.dest = routes.dest
)

SELECT
  origin,
  dest,
  dest_name,
  origin_lat,
  origin_lon,
  dest_lat,
  dest_lon,
  flights,
  listed_miles,
  round(great_circle, 1) AS great_circle_miles,
  round(listed_miles - great_circle, 1) AS detour_miles,
  round(60 * listed_miles / usual_air_minutes, 1) AS usual_mph
FROM mapped

# rivet:description: The great circle of each route in miles, where both of its airports are on the map.
# rivet:owners: [team:flight-data]
# rivet:assert: unique(origin, dest)
"""Trigonometry in Python: its last digits are the same whichever engine runs the queries."""

from __future__ import annotations

from math import asin, cos, radians, sin, sqrt
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from rivet_dagster import MaterializedRef

RADIUS = 3958.8  # the earth's mean radius in miles

SCHEMA = pa.schema([("origin", pa.string()), ("dest", pa.string()), ("miles", pa.float64())])


def transform(routes: MaterializedRef, airports: MaterializedRef) -> pa.Table:
    places = {airport["faa"]: airport for airport in airports.to_arrow().to_pylist()}
    pairs = routes.to_arrow().select(["origin", "dest"]).to_pylist()
    mapped = [pair for pair in pairs if pair["origin"] in places and pair["dest"] in places]
    rows = [pair | {"miles": haversine(places[pair["origin"]], places[pair["dest"]])} for pair in mapped]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def haversine(here: dict[str, Any], there: dict[str, Any]) -> float:
    north = sin(radians(there["lat"] - here["lat"]) / 2) ** 2
    east = sin(radians(there["lon"] - here["lon"]) / 2) ** 2
    return 2 * RADIUS * asin(sqrt(north + cos(radians(here["lat"])) * cos(radians(there["lat"])) * east))

# rivet:description: Days on which a busy route collected far more delay than usual, by the median and its deviation.
# rivet:owners: [flights@example.org]
# rivet:assert: unique(origin, dest, flight_date)
# rivet:assert: expression(name=late_beyond_usual, sql='late_minutes > usual_late_minutes')
"""Robust outliers: a mean and a standard deviation would be distorted by the outliers themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from rivet_dagster import MaterializedRef

MIN_DAYS = 200  # the median of fewer days is not reliable
MIN_USUAL_ARRIVALS = 5  # with fewer in a day, one late flight is an outlier
MIN_DEVIATIONS = 10

SCHEMA = pa.schema(
    [
        ("origin", pa.string()),
        ("dest", pa.string()),
        ("flight_date", pa.date32()),
        ("arrivals", pa.int64()),
        ("late_minutes", pa.int64()),
        ("usual_late_minutes", pa.float64()),
        ("deviations", pa.float64()),
    ]
)


def transform(route_days: MaterializedRef) -> pa.Table:
    days = route_days.to_arrow().to_pandas()
    route = [days["origin"], days["dest"]]

    days["usual_late_minutes"] = days["late_minutes"].groupby(route).transform("median")
    above_usual = days["late_minutes"] - days["usual_late_minutes"]
    spread = above_usual.abs().groupby(route).transform("median")
    days["deviations"] = above_usual / spread.where(spread > 0)  # without spread any deviation would be an outlier

    arrivals = days["arrivals"].groupby(route)
    busy = (arrivals.transform("size") >= MIN_DAYS) & (arrivals.transform("median") >= MIN_USUAL_ARRIVALS)
    outliers = days[busy & (days["deviations"] >= MIN_DEVIATIONS)]
    return pa.Table.from_pandas(outliers[SCHEMA.names], schema=SCHEMA, preserve_index=False)

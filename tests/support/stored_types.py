"""Rows with values at the borders of each type that engines store alike."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa

NOON = dt.datetime(2024, 7, 1, 12, 30, 0, 123456)
STRUCT = pa.struct([("a", pa.int64()), ("B c", pa.list_(pa.string()))])
TABLE = pa.table({
    "n8": pa.array([-128, 127, None], pa.int8()),
    "n64": pa.array([-(2**63), 2**63 - 1, None], pa.int64()),
    "f": pa.array([float("-inf"), -0.0, None], pa.float32()),
    "dec": pa.array([Decimal("-" + "9" * 28 + "." + "9" * 10), Decimal("0E-10"), None], pa.decimal128(38, 10)),
    "small": pa.array([Decimal("12.50"), Decimal("-0.01"), None], pa.decimal128(4, 2)),
    'Name with, `quotes` "and" ü': pa.array(["it's", "", "ü\n"]),
    "raw": pa.array([b"\x00\xff", b"", None], pa.binary()),
    "yes": pa.array([True, False, None]),
    "day": pa.array([dt.date(1, 1, 1), dt.date(9999, 12, 31), None]),
    "at": pa.array([NOON, dt.datetime(1000, 1, 1), None], pa.timestamp("us", "UTC")),
    "local": pa.array([NOON, dt.datetime(1, 1, 1), None], pa.timestamp("us")),
    "list": pa.array([[1, None], [], None], pa.list_(pa.int32())),
    "map": pa.array([[("k", Decimal("1.500"))], [], None], pa.map_(pa.string(), pa.decimal128(9, 3))),
    "inner": pa.array([{"a": 1, "B c": ["x", None]}, {"a": None, "B c": None}, None], STRUCT),
    "deep": pa.array([[{"a": 2, "B c": []}], None, []], pa.list_(STRUCT)),
})  # fmt: skip

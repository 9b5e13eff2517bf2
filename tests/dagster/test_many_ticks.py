"""Sensors that are evaluated for months: what they keep does not grow with the number of ticks."""

import gc
import os
import threading
from pathlib import Path

import dagster as dg
import pytest
from support.folders import MANIFEST, sink, source
from support.sensors import Ticker, sensor_of
from support.torture import examples

TICKS = examples(30, 720)
"""A month of hourly ticks in ``make torture``."""

SENSORS = {
    "landing": {"type": "files", "source": "orders", "target": 'key:"out"'},
    "moved": {"type": "source_changed", "sources": ["orders", "rates"], "target": 'key:"rated"'},
    "after": {"type": "after_success", "monitored": 'key:"out"', "target": 'key:"rated"'},
}


@pytest.fixture
def root(folder) -> Path:
    project = folder({
        "data/rates.csv": "rate\n1\n",
        "sources/orders.yaml": source("landing", "id INT", options={"format": "csv"}),
        "sources/rates.yaml": source("rates.csv", "rate INT"),
        "sinks/out.yaml": sink("out", "orders"),
        "sinks/rated.yaml": sink("rated", "rates"),
        "rivet.yaml": {**MANIFEST, "dagster": {"sensors": SENSORS}},
    })  # fmt: skip
    (project.root / "data/landing").mkdir()
    return project.root


def kept(root: Path, ticker: Ticker) -> dict[str, int]:
    """Return what a process that evaluates a sensor has and leaves behind."""
    ticker.runs.clear()
    gc.collect()
    return {
        "cursor": len(ticker.cursor or ""),
        "files": sum(len(names) for _, _, names in os.walk(root / ".rivet")),
        "descriptors": len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0,
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
    }


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("name", SENSORS)
def test_what_a_sensor_keeps_does_not_grow(root, name):
    sensor = sensor_of(root, name)
    watched, rates = root / "data/landing/orders.csv", root / "data/rates.csv"
    measured, requested = [], 0
    with dg.DagsterInstance.ephemeral() as instance:
        ticker = Ticker(sensor, instance)
        for tick in range(2 * TICKS):
            if tick % 5 == 0:
                for path in (watched, rates):
                    path.write_text(f"id\n{tick}\n")
                    os.utime(path, ns=(10**9 * (tick + 1), 10**9 * (tick + 1)))
                instance.report_runless_asset_event(dg.AssetMaterialization("out"))
            requested += len(ticker.tick())
            if (tick + 1) % TICKS == 0:
                measured.append(kept(root, ticker))
    assert requested >= TICKS // 5
    first, second = measured
    assert second["cursor"] <= first["cursor"] + 8  # a number or a time in it may be a few digits longer
    assert second["objects"] < first["objects"] + TICKS  # less than one object for each tick
    # Threads that earlier tests of this process have left open and close files meanwhile.
    for what in ("files", "descriptors", "threads"):
        assert second[what] < first[what] + TICKS // 5, what

"""The start of an engine before the run that needs it."""

import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from rivet_dagster.cli.run import command
from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.errors import RivetError
from rivet_dagster.model.profile import EngineSpec

LOCAL = EngineSpec("spark", "pyspark", options={"master": "local[2]"})
SERVER = EngineSpec("spark", "pyspark", options={"remote": "local"})
CLUSTER = EngineSpec("spark", "pyspark", options={"master": "yarn"})
GROUPS = (FusedGroup(name="orders", engine="spark", joints=("orders",), exit="orders", inputs=(), sql="SELECT 1"),)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what is called: the import of packages, and the engines whose sessions are opened and closed."""
    calls: list[str] = []

    def session(name: str) -> SimpleNamespace:
        calls.append(name)
        if name == "broken":
            raise RivetError("RVT-502", "Spark did not start")
        return SimpleNamespace(close=lambda: calls.append("closed"))

    def engine(name: str) -> SimpleNamespace:
        return SimpleNamespace(import_packages=lambda: calls.append("imports"), session=lambda: session(name))

    monkeypatch.setattr(command, "Runtime", lambda assembly, root: SimpleNamespace(engine=engine))
    return calls


def start(*engines: EngineSpec, groups: tuple[FusedGroup, ...] = GROUPS) -> None:
    command.start_early(CompiledAssembly(profile="default", engines=engines, fused_groups=groups), Path("."))
    for thread in threading.enumerate():
        if thread.name == command.THREAD:
            thread.join()


@pytest.mark.parametrize("spec", [LOCAL, SERVER])
def test_the_one_engine_on_this_machine_starts(spec, started):
    start(spec)
    assert started == ["imports", "spark", "closed"]


def test_nothing_else_starts(started):
    start(CLUSTER)
    start(LOCAL, EngineSpec("other", "pyspark"))
    start(LOCAL, groups=())
    assert started == []


def test_an_error_is_left_to_the_run(started, monkeypatch):
    unexpected: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", unexpected.append)
    start(EngineSpec("broken", "pyspark"))
    assert started == ["imports", "broken"]
    assert unexpected == []

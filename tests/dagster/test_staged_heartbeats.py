"""Heartbeats of what a run has staged, in the thread that sends them until the run has ended."""

import time
from types import SimpleNamespace

import pytest
from support.tables import catalog, fill

from rivet_dagster.definitions.runs import staged_heartbeats
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.results import StagedTable

ERRORS = (OSError("timeout"), RivetError("RVT-404", "no"), KeyError("of a client"))


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_heartbeats_go_on_after_an_error_of_storage_until_the_run_has_ended(tmp_path, monkeypatch, error):
    lake = catalog(tmp_path, "lake")
    version = fill(lake.begin("orders"), [1]).stage("run/orders").version
    staged = StagedTable("orders", "lake", "orders", version, "run/orders")
    keep_alive, errors, sent = lake.keep_alive, iter([error, error]), []

    def fails_twice(*arguments):
        if (failure := next(errors, None)) is not None:
            raise failure
        sent.append(keep_alive(*arguments))
        return sent[-1]

    monkeypatch.setattr(lake, "keep_alive", fails_twice)
    monkeypatch.setattr(staged_heartbeats, "SECONDS", 0.01)
    run = SimpleNamespace(is_finished=False)
    executor = SimpleNamespace(executor_def=SimpleNamespace(name="in_process"))
    instance = SimpleNamespace(get_run_by_id=lambda run_id: run)
    context = SimpleNamespace(run_id="run-1", instance=instance, job_def=executor)
    staged_heartbeats.keep_staged(context, SimpleNamespace(catalog=lambda name: lake), [staged])
    wait(lambda: len(sent) >= 2)
    assert set(sent) == {True}
    run.is_finished = True
    wait(lambda: "run-1" not in staged_heartbeats._KEPT)


def wait(is_true) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)

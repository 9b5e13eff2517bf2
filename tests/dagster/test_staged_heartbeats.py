"""Heartbeats of what a run has staged, in the thread that sends them until the run has ended."""

import time
from types import SimpleNamespace

import pytest
from support.tables import catalog, fill

from rivet_dagster.catalogs.capabilities.staging import StagesForRuns
from rivet_dagster.catalogs.versions.heartbeat import DEAD_AFTER
from rivet_dagster.definitions.runs import staged_heartbeats
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.results import StagedResult

ERRORS = (OSError("timeout"), RivetError("RVT-404", "no"), KeyError("of a client"))


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_heartbeats_go_on_after_an_error_of_storage_until_the_run_has_ended(tmp_path, monkeypatch, error):
    lake = catalog(tmp_path, "lake")
    version = fill(lake.begin("orders"), [1]).stage("run/orders").version
    staged = StagedResult("orders", "lake", "orders", version, "run/orders")
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
    wait(lambda: "run-1" not in staged_heartbeats._HEARTBEATS)


class Lake(StagesForRuns):
    """A catalog in which the heartbeat of a table takes the ``seconds`` of its name; ``now`` is a list of the time."""

    def __init__(self, now, seconds):
        self.now, self.seconds = now, seconds
        self.sent, self.late = {}, []

    def keep_alive(self, table, version, ahead=0.0):
        last, lasts = self.sent.get(table, (self.now[0], 0.0))
        self.late += [table] if self.now[0] > last + DEAD_AFTER + lasts else []
        self.now[0] += self.seconds(table)
        self.sent[table] = self.now[0], ahead
        return True


Lake.__abstractmethods__ = frozenset()


def beat(monkeypatch, lake, tables):
    """Add ``tables`` one by one, with a round of heartbeats every 10 s meanwhile, then send five rounds."""
    now = lake.now
    monkeypatch.setattr(staged_heartbeats.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(staged_heartbeats, "SECONDS", 10.0)
    monkeypatch.setattr(staged_heartbeats, "_THREADS", 1)  # so that the clock goes on by what each of them takes
    run = SimpleNamespace(is_finished=False)
    context = SimpleNamespace(
        run_id="run-2",
        instance=SimpleNamespace(get_run_by_id=lambda run_id: run),
        job_def=SimpleNamespace(executor_def=SimpleNamespace(name="in_process")),
    )
    heartbeats, next_round = staged_heartbeats._Heartbeats(context), 10.0
    for number in range(tables):
        staged = StagedResult(f"t{number}", "lake", f"t{number}", "1", "run")
        heartbeats.add(SimpleNamespace(catalog=lambda name: lake), [staged])
        now[0] += 1.0
        if now[0] >= next_round:
            heartbeats._beat(heartbeats._tables)
            next_round = now[0] + 10.0
    for _ in range(5):
        now[0] += 10.0
        heartbeats._beat(heartbeats._tables)
    run.is_finished = True
    heartbeats._wakes.set()


@pytest.mark.parametrize(("tables", "seconds"), [(400, 0.3), (3, 0.3), (40, 20.0)])
def test_no_heartbeat_ends_before_the_next_round_comes_to_its_table(monkeypatch, tables, seconds):
    lake = Lake([0.0], lambda table: seconds)
    beat(monkeypatch, lake, tables)
    assert len(lake.sent) == tables
    assert lake.late == []
    assert max(ahead for _, ahead in lake.sent.values()) == pytest.approx(2 * tables * seconds if tables > 3 else 0.0)


def test_one_slow_heartbeat_does_not_keep_the_versions_of_a_killed_run_for_hours(monkeypatch):
    lake = Lake([0.0], lambda table: 30.0 if table == "t200" else 0.1)
    beat(monkeypatch, lake, 400)
    assert lake.late == []
    assert max(ahead for _, ahead in lake.sent.values()) == pytest.approx(2 * (30.0 + 399 * 0.1))


def test_steps_that_are_processes_do_not_renew_all_earlier_rows_each(monkeypatch):
    """One of them does every quarter of an hour, so that no heartbeat, sent an hour ahead, ends before the run does."""
    now, looked = [1e9], []
    lake, runtime = Lake(now, lambda table: 0.0), SimpleNamespace(catalog=lambda name: lake)
    monkeypatch.setattr(staged_heartbeats.time, "time", lambda: now[0])
    run = SimpleNamespace(is_finished=False, tags={})
    instance = SimpleNamespace(get_run_by_id=lambda _: run, add_run_tags=lambda _, tags: run.tags.update(tags))
    context = SimpleNamespace(
        run_id="run-3",
        instance=instance,
        job_def=SimpleNamespace(executor_def=SimpleNamespace(name="multiprocess")),
    )
    staged, sent = [], []
    keep_alive = lake.keep_alive
    monkeypatch.setattr(lake, "keep_alive", lambda table, *more: sent.append(table) or keep_alive(table, *more))
    for number in range(200):
        staged_heartbeats.keep_earlier(context, runtime, lambda n=number: looked.append(n) or list(staged))
        staged.append(StagedResult(f"t{number}", "lake", f"t{number}", "1", "run"))
        staged_heartbeats.keep_staged(context, runtime, staged[-1:])
        staged_heartbeats._HEARTBEATS.pop("run-3")._wakes.set()  # the next step is in another process
        now[0] += 100
    assert looked == [0, *range(9, 200, 9)]
    assert len(sent) == 200 + sum(looked)
    assert lake.late == []
    run.is_finished = True


def test_a_long_step_renews_earlier_rows_while_it_runs(monkeypatch):
    now, lake = [1e9], Lake([0.0], lambda table: 0.0)
    monkeypatch.setattr(staged_heartbeats.time, "time", lambda: now[0])
    run = SimpleNamespace(is_finished=False, tags={staged_heartbeats.ROUND: str(now[0] - 1)})
    instance = SimpleNamespace(get_run_by_id=lambda _: run, add_run_tags=lambda _, tags: run.tags.update(tags))
    executor = SimpleNamespace(executor_def=SimpleNamespace(name="multiprocess"))
    monkeypatch.setattr(staged_heartbeats, "SECONDS", 0.01)
    monkeypatch.setattr(staged_heartbeats, "ROUND_SECONDS", 0.1)
    earlier = [StagedResult("t", "lake", "t", "1", "run")]
    monkeypatch.setattr(staged_heartbeats.time, "time", lambda: now[0] - 1)
    context = SimpleNamespace(run_id="run-4", instance=instance, job_def=executor)
    staged_heartbeats.keep_earlier(context, SimpleNamespace(catalog=lambda name: lake), lambda: earlier)
    assert lake.sent == {}
    monkeypatch.setattr(staged_heartbeats.time, "time", lambda: now[0] + 1)
    wait(lambda: "t" in lake.sent)
    assert lake.sent["t"][1] == staged_heartbeats.AHEAD_SECONDS
    run.is_finished = True
    wait(lambda: "run-4" not in staged_heartbeats._HEARTBEATS)


def wait(is_true) -> None:
    deadline = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_catalog_that_renews_all_at_once_is_asked_once_a_round(monkeypatch):
    """What it does not know any more is left out of the next round; an error of it is none of the thread's."""
    asked = []

    class Together(Lake):
        def keep_all_alive(self, versions, ahead=0.0):
            asked.append(set(versions))
            if len(asked) == 4:
                raise OSError("timeout")
            return versions - {"2"}

    lake = Together([0.0], lambda table: 1.0)
    run = SimpleNamespace(is_finished=False)
    executor = SimpleNamespace(executor_def=SimpleNamespace(name="in_process"))
    instance = SimpleNamespace(get_run_by_id=lambda run_id: run)
    monkeypatch.setattr(staged_heartbeats, "SECONDS", 1e6)
    context = SimpleNamespace(run_id="run-4", instance=instance, job_def=executor)
    heartbeats = staged_heartbeats._Heartbeats(context)
    tables = [StagedResult(f"t{number}", "lake", f"t{number}", str(number), "run") for number in range(4)]
    heartbeats.add(SimpleNamespace(catalog=lambda name: lake), tables)
    for _ in range(4):
        heartbeats._beat(heartbeats._tables)
    assert asked == [{"0", "1", "2", "3"}, *[{"0", "1", "3"}] * 4]
    assert lake.sent == {}
    run.is_finished = True
    heartbeats._wakes.set()

"""The executor that runs groups in threads of one process, on steps that need no engine."""

import os
import signal
import threading
import time
import uuid

import dagster as dg
import pytest

from rivet_dagster.definitions.resources import steps_in_threads
from rivet_dagster.definitions.resources.engines import ENGINE_TAG
from rivet_dagster.definitions.resources.rivet_executor import _threads
from rivet_dagster.definitions.resources.steps_in_threads import execute_here
from rivet_dagster.definitions.runs.failure import raise_if_interrupted

SECONDS = 30.0


class Recorder:
    """Records when each step runs, and how many of them at once."""

    def __init__(self) -> None:
        self.spans: dict[str, tuple[float, float]] = {}
        self.threads: dict[str, str] = {}
        self.most = self.now = 0
        self._lock = threading.Lock()

    def run(self, name: str, work) -> None:
        """Run ``work`` and record it."""
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)
        started = time.monotonic()
        try:
            work()
        finally:
            with self._lock:
                self.now -= 1
                self.spans[name] = started, time.monotonic()
                self.threads[name] = threading.current_thread().name


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def step(recorder, name, work=lambda: time.sleep(0.05), engine="a", deps=(), **fields):
    tags = {ENGINE_TAG: engine} if engine else {}

    @dg.asset(name=name, op_tags=tags, deps=list(deps), **fields)
    def asset(context: dg.AssetExecutionContext) -> None:
        recorder.run(name, lambda: work(context) if work.__code__.co_argcount else work())

    return asset


def failing() -> None:
    raise ValueError("broken")


def job_of(*assets, limits=(("a", 4),), fail_fast=True) -> dg.JobDefinition:
    jobs = [dg.define_asset_job("everything")]
    definitions = dg.Definitions(assets=assets, jobs=jobs, executor=_threads(tuple(limits), fail_fast))
    return definitions.resolve_job_def("everything")


def run(job, instance, **tags) -> tuple[bool, list[dg.DagsterEvent]]:
    run_id = str(uuid.uuid4())
    success = execute_here(job, instance, run_id, tags, {})
    events = [entry.dagster_event for entry in instance.all_logs(run_id) if entry.dagster_event is not None]
    return success, events


def of_kind(events, kind: str) -> list[str]:
    return [event.step_key for event in events if event.event_type_value == kind]


def test_as_many_steps_of_an_engine_as_its_limit_allows_run_at_once(recorder, instance):
    together = threading.Barrier(3, timeout=SECONDS)  # six steps, three at a time: each waits for two others
    job = job_of(*(step(recorder, f"s{n}", lambda: together.wait()) for n in range(6)), limits=[("a", 3)])
    success, events = run(job, instance)
    assert success
    assert recorder.most == 3
    assert sorted(of_kind(events, "STEP_SUCCESS")) == [f"s{n}" for n in range(6)]
    # A step that waits for its turn has not begun.
    running = most = 0
    for event in events:
        running += {"STEP_START": 1, "STEP_SUCCESS": -1}.get(event.event_type_value, 0)
        most = max(most, running)
    assert most == 3


def test_engines_have_separate_limits(recorder, instance):
    together = threading.Barrier(3, timeout=SECONDS)  # two of a and one of b
    of_a = [step(recorder, f"a{n}", lambda: together.wait(), "a") for n in range(4)]
    of_b = [step(recorder, f"b{n}", lambda: together.wait(), "b") for n in range(2)]
    assert run(job_of(*of_a, *of_b, limits=[("a", 2), ("b", 1)]), instance)[0]
    assert recorder.most == 3
    (_, first), (second, _) = sorted(recorder.spans[name] for name in ("b0", "b1"))
    assert first <= second


def test_a_limit_of_one_serializes_in_the_main_thread(recorder, instance):
    assert run(job_of(*(step(recorder, f"s{n}") for n in range(4)), limits=[("a", 1)]), instance)[0]
    assert recorder.most == 1
    assert set(recorder.threads.values()) == {threading.main_thread().name}


def test_other_steps_run_in_the_main_thread_beside_groups(recorder, instance):
    together = threading.Barrier(2, timeout=SECONDS)

    @dg.asset
    async def coroutine() -> None:
        recorder.run("coroutine", lambda: None)

    plain = step(recorder, "plain", lambda: together.wait(), engine=None)
    group = step(recorder, "group", lambda: together.wait())
    assert run(job_of(plain, group, coroutine), instance)[0]
    assert {name: thread == "MainThread" for name, thread in recorder.threads.items()} == {
        "plain": True, "coroutine": True, "group": False,
    }  # fmt: skip


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("fail_fast", [True, False])
def test_after_a_failure_running_steps_finish_and_others_start_only_without_fail_fast(
    recorder, instance, limit, fail_fast
):
    begun, failed = threading.Event(), threading.Event()

    def fails() -> None:
        assert limit == 1 or begun.wait(SECONDS)
        failing()

    def outlives() -> None:
        begun.set()
        assert limit == 1 or failed.wait(SECONDS)

    @dg.failure_hook
    def tell(_: dg.HookContext) -> None:
        failed.set()

    assets = [
        step(recorder, "bad", fails, hooks={tell}),
        step(recorder, "first", outlives),
        step(recorder, "later", deps=["first"]),
        step(recorder, "reader", deps=["bad"]),
    ]
    success, events = run(job_of(*assets, limits=[("a", limit)], fail_fast=fail_fast), instance)
    assert not success
    assert of_kind(events, "STEP_FAILURE") == ["bad"]
    expected = {"first", "later"} if not fail_fast else ({"first"} if limit == 2 else set())
    assert set(of_kind(events, "STEP_SUCCESS")) == expected
    assert set(of_kind(events, "STEP_START")) == expected | {"bad"}
    assert events[-1].event_type_value == "PIPELINE_FAILURE"


def test_a_step_that_is_tried_again_has_not_failed_and_goes_on_after_a_failure(recorder, instance):
    tries: list[str] = []
    failed = threading.Event()

    def second_time() -> None:
        tries.append("x")
        if len(tries) == 1:
            raise dg.RetryRequested(max_retries=1, seconds_to_wait=0.3)

    def fails_when_retried() -> None:
        while not tries:
            time.sleep(0.01)
        failed.set()
        failing()

    assets = [step(recorder, "again", second_time), step(recorder, "after", deps=["again"])]
    success, events = run(job_of(*assets), instance)
    assert success
    assert len(tries) == 2
    tries.clear()
    assets += [step(recorder, "bad", fails_when_retried)]
    success, events = run(job_of(*assets), instance)
    assert not success
    assert (of_kind(events, "STEP_RESTARTED"), of_kind(events, "STEP_SUCCESS")) == (["again"], ["again"])


@pytest.mark.nightly
def test_the_pool_of_a_step_is_heeded_and_freed(recorder, tmp_path):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        instance.event_log_storage.set_concurrency_slots("small", 1)
        bad = step(recorder, "bad", failing, pool="small")
        job = job_of(bad, *(step(recorder, f"s{n}", pool="small") for n in range(3)), fail_fast=False)
        success, events = run(job, instance)
        assert not success
        assert recorder.most == 1
        assert len(of_kind(events, "STEP_SUCCESS")) == 3
        assert instance.event_log_storage.get_concurrency_info("small").active_slot_count == 0


def test_a_job_runs_again_from_a_failure_with_the_steps_that_were_left_out(recorder, tmp_path):
    with dg.instance_for_test(temp_dir=str(tmp_path)) as instance:
        job = job_of(step(recorder, "a_bad", failing), step(recorder, "left_out"), limits=[("a", 1)])
        run_id = str(uuid.uuid4())
        assert not execute_here(job, instance, run_id, {}, {})
        assert set(recorder.spans) == {"a_bad"}
        parent = instance.get_run_by_id(run_id)
        from dagster._core.execution.plan.state import KnownExecutionState

        steps, _ = KnownExecutionState.build_resume_retry_reexecution(instance, parent)
        assert sorted(steps) == ["a_bad", "left_out"]


def interrupt_soon(condition) -> None:
    def watch() -> None:
        while not condition():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=watch, daemon=True).start()


def heeding(context: dg.AssetExecutionContext) -> None:
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        raise_if_interrupted(context.run.run_id)
        time.sleep(0.02)


def test_an_interrupt_stops_all_threads_and_starts_nothing_more(recorder, instance):
    job = job_of(*(step(recorder, f"s{n}", heeding) for n in range(4)), step(recorder, "after", deps=["s0"]))
    interrupt_soon(lambda: recorder.now == 4)
    started = time.monotonic()
    success, events = run(job, instance)
    assert time.monotonic() - started < SECONDS / 2
    assert not success
    assert sorted(of_kind(events, "STEP_FAILURE")) == ["s0", "s1", "s2", "s3"]
    errors = {e.step_failure_data.error.cls_name for e in events if e.event_type_value == "STEP_FAILURE"}
    assert errors == {"DagsterExecutionInterruptedError"}
    assert events[-1].job_failure_data.error.cls_name == "DagsterExecutionInterruptedError"
    assert "after" not in recorder.spans


def sleeping() -> None:
    # In short sleeps: a signal that comes just before a sleep does not end it.
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        time.sleep(0.02)


def test_an_interrupt_of_the_main_thread_stops_the_others_too(recorder, instance):
    job = job_of(step(recorder, "plain", sleeping, engine=None), step(recorder, "group", heeding))
    interrupt_soon(lambda: recorder.now == 2)
    started = time.monotonic()
    success, events = run(job, instance)
    assert time.monotonic() - started < SECONDS / 2
    assert not success
    assert sorted(of_kind(events, "STEP_FAILURE")) == ["group", "plain"]


def test_an_interrupt_does_not_wait_for_ever_for_code_that_does_not_heed_it(recorder, instance, monkeypatch):
    monkeypatch.setattr(steps_in_threads, "GRACE_SECONDS", 0.3)
    ends = threading.Event()
    job = job_of(step(recorder, "deaf", lambda: ends.wait(SECONDS)), step(recorder, "other", heeding))
    interrupt_soon(lambda: recorder.now == 2)
    started = time.monotonic()
    success, events = run(job, instance)
    assert time.monotonic() - started < SECONDS / 2
    ends.set()
    assert not success
    assert of_kind(events, "STEP_FAILURE") == ["other"]
    assert events[-1].job_failure_data.error.cls_name == "DagsterExecutionInterruptedError"


def test_hooks_resources_and_io_managers_serve_all_threads(recorder, instance):
    together = threading.Barrier(4, timeout=SECONDS)
    told: list[str] = []

    @dg.success_hook
    def tell(context: dg.HookContext) -> None:
        told.append(str(context.step_key))

    @dg.op(tags={ENGINE_TAG: "a"}, required_resource_keys={"number"})
    def one(context: dg.OpExecutionContext) -> int:
        together.wait()
        return context.resources.number

    @dg.op(tags={ENGINE_TAG: "a"})
    def total(context: dg.OpExecutionContext, numbers: list) -> None:
        context.add_output_metadata({"total": sum(numbers)})

    @dg.job(
        hooks={tell},
        executor_def=_threads((("a", 4),), True),
        resource_defs={"number": dg.ResourceDefinition.hardcoded_resource(7), "io_manager": dg.mem_io_manager},
    )
    def sums() -> None:
        total([one.alias(f"one_{n}")() for n in range(4)])

    success, events = run(sums, instance)
    assert success
    assert sorted(told) == ["one_0", "one_1", "one_2", "one_3", "total"]
    (output,) = [e for e in events if e.event_type_value == "STEP_OUTPUT" and e.step_key == "total"]
    assert output.step_output_data.metadata["total"].value == 28

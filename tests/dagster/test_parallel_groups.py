"""Groups that run at once on one Spark: within the limit of each engine, and sharing its processors evenly."""

import threading
import time
import uuid
from collections import defaultdict

import pytest
from support.folders import PROFILES
from support.slow import sleeping

from rivet_dagster import load_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.rivet_executor import one_process_executor
from rivet_dagster.definitions.resources.steps_in_threads import execute_here

SLOW = f"SELECT id, {sleeping('1500L + id')} AS slept FROM range(0, 1, 1, 1)"
PYTHON = """# rivet:engine: {engine}
import time

import pyarrow as pa


def transform() -> pa.Table:
    time.sleep(1.5)
    return pa.table({{"id": [{n}]}})
"""
SECONDS = 60.0


def engines(**limits: int) -> dict:
    """Return a profile with engines on one Spark application, by name with their limits."""
    spark = PROFILES["default"]["engines"][0]
    declared = [{**spark, "name": name, "concurrency_limit": limit} for name, limit in limits.items()]
    return {"default": {**PROFILES["default"], "engines": declared, "default_engine": "spark"}}


def groups(engine: str, count: int) -> dict[str, str]:
    head = f"-- rivet:eager: true\n-- rivet:engine: {engine}\n"
    return {f"joints/{engine}_{n}.sql": f"{head}{SLOW}" for n in range(count)}


def most_at_once(spans) -> int:
    """Return how many of these intervals have an instant in common."""
    edges = sorted(edge for start, end in spans for edge in ((start, 1), (end, -1)))
    now = most = 0
    for _, change in edges:
        now += change
        most = max(most, now)
    return most


@pytest.fixture
def spans(project, instance):
    """Return a function that runs a project; it returns the intervals of its steps by engine."""

    def spans(files) -> dict[str, list[tuple[float, float]]]:
        root = project(files).root
        executor = one_process_executor(RivetProject.load(root))
        job = load_definitions(root, executor=executor).resolve_job_def("all")
        run_id = str(uuid.uuid4())
        assert execute_here(job, instance, run_id, {}, {})
        times: dict[str, dict[str, float]] = defaultdict(dict)
        for entry in instance.all_logs(run_id):
            if entry.step_key and entry.dagster_event:
                times[entry.step_key][entry.dagster_event.event_type_value] = entry.timestamp
        found = defaultdict(list)
        for step, at in times.items():
            found[step.rpartition("_")[0]].append((at["STEP_START"], at["STEP_SUCCESS"]))
        return found

    return spans


@pytest.fixture
def context(application):
    session = application.session()
    yield session.spark.sparkContext
    session.close()


def jobs(context, since: int) -> list[tuple[int, int]]:
    """Return the intervals of the jobs that Spark began after the first ``since`` ones."""
    context._jsc.sc().listenerBus().waitUntilEmpty()
    store = context._jsc.sc().statusStore()
    found = store.jobsList(None)
    all_jobs = [found.apply(position) for position in range(found.size())]
    return [
        (job.submissionTime().get().getTime(), job.completionTime().get().getTime())
        for job in all_jobs
        if job.jobId() >= since
    ]


def begun_jobs(context) -> int:
    found = context._jsc.sc().statusStore().jobsList(None)
    return 1 + max((found.apply(position).jobId() for position in range(found.size())), default=-1)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(("limit", "count", "at_once"), [(1, 2, 1), (4, 4, 4)])
def test_as_many_groups_as_the_limit_allows_run_at_once(spans, context, limit, count, at_once):
    since = begun_jobs(context)
    found = spans({"profiles.yaml": engines(spark=limit), **groups("spark", count)})
    assert len(found["spark"]) == count
    assert most_at_once(found["spark"]) == at_once
    running = [(start, end) for start, end in jobs(context, since) if end - start > 1000]
    assert len(running) == count
    assert (most_at_once(running) > 1) is (at_once > 1)


@pytest.mark.nightly
def test_each_engine_has_a_limit_of_its_own(spans):
    found = spans({"profiles.yaml": engines(spark=2, other=1), **groups("spark", 3), **groups("other", 2)})
    assert {name: most_at_once(times) for name, times in found.items()} == {"spark": 2, "other": 1}
    assert most_at_once(found["spark"] + found["other"]) == 3


@pytest.mark.nightly
def test_groups_of_spark_and_duckdb_run_at_once_within_their_limits(spans):
    """Each sleeps in a Python joint, so that only the limits keep them apart."""
    declared = engines(spark=1)
    duck = {"name": "duck", "type": "duckdb", "catalogs": ["lake"], "concurrency_limit": 2}
    declared["default"]["engines"].append(duck)
    wanted = [("spark", 0), ("spark", 1), ("duck", 0), ("duck", 1), ("duck", 2), ("duck", 3)]
    files = {f"joints/{engine}_{n}.py": PYTHON.format(engine=engine, n=n) for engine, n in wanted}
    found = spans({"profiles.yaml": declared, **files})
    assert {engine: len(times) for engine, times in found.items()} == {"spark": 2, "duck": 4}
    assert {engine: most_at_once(times) for engine, times in found.items()} == {"spark": 1, "duck": 2}
    assert most_at_once(span for times in found.values() for span in times) == 3


def test_a_short_query_does_not_wait_for_all_tasks_of_a_long_one(application, context):
    tracker = context.statusTracker()
    many = 60
    slept = f"SELECT {sleeping('200L + id - id')} AS slept FROM range(0, {many}, 1, {many})"
    ended = threading.Event()

    def run() -> None:
        with application.session() as session:
            session.rows(f"SELECT count(slept) AS n FROM ({slept})")
        ended.set()

    def done() -> int:
        stages = [info for stage in tracker.getActiveStageIds() if (info := tracker.getStageInfo(stage))]
        return max((info.numCompletedTasks for info in stages if info.numTasks == many), default=0)

    threading.Thread(target=run).start()
    deadline = time.monotonic() + SECONDS
    while done() < 2:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with application.session() as session:
        short = f"SELECT {sleeping('20L + id')} AS slept FROM range(0, 4, 1, 4)"
        assert len(session.rows(short)) == 4
    assert 2 <= done() < many / 2
    assert ended.wait(SECONDS)
    assert context._jsc.sc().getSchedulingMode().toString() == "FAIR"

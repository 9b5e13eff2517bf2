"""The last step of runs that stage two Iceberg tables: on Nessie one commit, elsewhere one table after another."""

import itertools
import shutil
import signal
import threading
from collections.abc import Iterator

import pytest
import requests
from pyiceberg.table import StaticTable
from support.iceberg import declared
from support.iceberg_publications import (
    ERRORS,
    TABLES,
    publish,
    publish_killed_before_a_step,
    read_repeatedly,
    runtime,
    seen,
    stage,
    stage_all,
)
from support.iceberg_runs import NAMESPACE, Work, expire_heartbeats, heartbeats, written
from support.killing import PROCESSES, ended, start
from support.tables import refused
from support.torture import examples, some

from rivet_dagster.catalogs.iceberg import opened
from rivet_dagster.catalogs.iceberg.commits import committing
from rivet_dagster.catalogs.iceberg.nessie.server import NessieServer
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.results import StagedResult

RUNS = examples(3, 50)
OLD, NEW = {"orders": 1, "totals": 1}, {"orders": 2, "totals": 2}


@pytest.fixture
def nessie_options(iceberg_options):
    return iceberg_options("nessie")


class Branch:
    """A branch of the server, looked at without any code of ours."""

    def __init__(self, nessie, options) -> None:
        self.nessie, self.ref = nessie, options["ref"]

    def commits(self) -> list[str]:
        """Return the hashes of all commits, the first one first."""
        entries = self.nessie.call("GET", f"trees/{self.ref}/history", params={"max-records": "1000"})["logEntries"]
        return [entry["commitMeta"]["hash"] for entry in reversed(entries)]

    def tables(self, at: str = "") -> dict[str, dict]:
        """Return the contents of the tables at a commit, staging tables too."""
        entries = self.nessie.call("GET", f"trees/{self.ref}{at}/entries", params={"content": "true"})["entries"]
        tables = [entry for entry in entries if entry["type"] == "ICEBERG_TABLE"]
        return {entry["name"]["elements"][-1]: entry["content"] for entry in tables}

    def snapshots(self) -> list[dict[str, int]]:
        """Return what readers see after each commit, without those that change nothing for them."""
        states: list[dict[str, int]] = []
        for commit in self.commits():
            tables = self.tables(f"@{commit}")
            shown = {name: tables[name]["snapshotId"] for name in (*TABLES, ERRORS) if name in tables}
            state = {name: snapshot for name, snapshot in shown.items() if snapshot != -1}
            if state and state != (states[-1] if states else {}):
                states.append(state)
        return states

    def left(self) -> list[str]:
        """Return staging tables, and branches of runs."""
        tables = self.tables()
        metadata = {name: StaticTable.from_metadata(content["metadataLocation"]) for name, content in tables.items()}
        branches = [f"{name}/{ref}" for name, table in metadata.items() for ref in table.metadata.refs if ref != "main"]
        return [*(name for name in tables if "__rivet_" in name), *branches]


class Place:
    """A catalog whose files are in one folder, and how it was before a last step."""

    def __init__(self, root, options, nessie) -> None:
        self.root, self.options, self._nessie = root, options, nessie
        self.folder = root / options["catalog"]

    def save(self) -> None:
        """Remember the files, and the heads of the branch and of those of runs."""
        shutil.copytree(self.folder, self.root / "saved")
        if self._nessie is not None:
            self._heads = self._branches()

    def restore(self) -> None:
        """Have the files that were there, which name each other by absolute paths, and the heads."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.root / "saved", self.folder)
        if self._nessie is not None:
            now = self._branches()
            for name, head in now.items():
                if name not in self._heads:
                    self._nessie.call("DELETE", f"trees/{name}@{head['hash']}")
            for name, head in self._heads.items():
                at = {"type": "DETACHED", "hash": head["hash"]}
                if name in now:
                    self._nessie.call("PUT", f"trees/{name}@{now[name]['hash']}", json=at)
                else:
                    self._nessie.call("POST", "trees", params={"name": name, "type": "BRANCH"}, json=at)

    def _branches(self) -> dict[str, dict]:
        found = {each["name"]: each for each in self._nessie.call("GET", "trees")["references"]}
        prefixes = (self.options["ref"], "rivet_new_", "rivet_begin.")
        return {name: found[name] for name in found if name.startswith(prefixes)}


def test_each_run_is_one_commit(nessie, nessie_options, tmp_path):
    branch = Branch(nessie, nessie_options)
    run = runtime(nessie_options, tmp_path)
    versions = []
    for number in range(1, 4):
        staged = stage_all(run, number, f"run-{number}")
        assert seen(nessie_options, tmp_path) == ({} if number == 1 else dict.fromkeys(TABLES, number - 1))
        publication = publish(run, staged)
        assert publication.one_commit
        assert seen(nessie_options, tmp_path) == dict.fromkeys(TABLES, number)
        versions.append({name: int(version.version) for name, version in publication.published.items()})
        assert publish(run, staged) == publication
    states = branch.snapshots()
    assert [{name: state[name] for name in TABLES} for state in states] == versions
    assert len({state[ERRORS] for state in states}) == 3
    assert branch.left() == []
    assert heartbeats(tmp_path) == []
    assert [name for name in nessie.branches() if branch.ref in name] == [branch.ref]


@pytest.mark.nightly
def test_a_table_costs_the_same_requests_in_a_run_of_many(nessie_options, tmp_path, monkeypatch):
    """The branches of other runs, and of the tables of this one, are listed, and not asked one by one each time."""
    sent, call = [], NessieServer._call
    monkeypatch.setattr(opened, "RECENT", 1e9)
    own = threading.current_thread().name, "rivet-commit"

    def counted(server, *arguments, **more):
        if threading.current_thread().name in own:  # not heartbeats of what earlier tests have left
            sent.append(arguments)
        return call(server, *arguments, **more)

    monkeypatch.setattr(NessieServer, "_call", counted)

    def listings() -> int:
        return sum(path == "trees" or path.endswith("/entries") for method, path, *_ in sent if method == "GET")

    def costs(tables: int) -> tuple[float, float, int, int]:
        names = [f"of_{tables}_{number}" for number in range(tables)]
        run = runtime(nessie_options, tmp_path, *names)
        sent.clear()
        staged = [stage(run, name, 1, f"run-{tables}") for name in names]
        staging, listed = len(sent) / tables, listings()
        for _ in range(2):
            sent.clear()
            assert all(run.catalog("lake").keep_alive(table.table, table.version) for table in staged)
        beating = len(sent)
        sent.clear()
        publish(run, staged)
        assert listings() == 0
        return staging, len(sent) / tables, beating, listed

    few, many = costs(3), costs(12)
    assert few[2] == many[2] == 0
    assert few[3] == many[3]
    assert all(more <= less * 1.1 for less, more in zip(few, many, strict=True)), (few, many)


@pytest.mark.nightly
def test_readers_of_two_tables_never_see_one_without_the_other(nessie_options, tmp_path):
    run = runtime(nessie_options, tmp_path)
    publish(run, stage_all(run, 0, "run-0"))
    stop = PROCESSES.Event()
    here, there = PROCESSES.Pipe(duplex=False)
    reader = start(read_repeatedly, there, stop, nessie_options, tmp_path)
    there.close()
    assert here.recv() == "begun"
    for number in range(1, RUNS + 1):
        publish(run, [stage(run, table, number, f"run-{number}") for table in TABLES])
    stop.set()
    assert here.poll(60)
    polls, same, other = here.recv()
    assert ended(reader) == 0
    assert other == []
    assert polls > RUNS
    assert len(same) > 1
    assert same <= set(range(RUNS + 1))


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("kind", ["nessie", "hadoop"])
def test_a_kill_before_each_step_of_the_last_step(iceberg_options, request, tmp_path, kind):
    """Readers see all or nothing on Nessie; anywhere the next attempt finishes it, and a sweep removes what is left."""
    server = request.getfixturevalue("nessie") if kind == "nessie" else None
    place = Place(tmp_path, iceberg_options(kind), server)
    run = runtime(place.options, tmp_path)
    publish(run, stage_all(run, 1, "old"))
    staged = stage_all(run, 2, "new")
    place.save()
    steps, code = killed(place, staged, -1)
    assert (code, seen(place.options, tmp_path)) == (0, NEW)
    found = []
    matters = [at for at, step in enumerate(steps) if not step.endswith(".heartbeat") or step.startswith("delete")]
    assert len(matters) > 4
    for at in some(matters, 3):
        place.restore()
        for table in staged:
            assert run.catalog("lake").keep_alive(table.table, table.version)
        done, code = killed(place, staged, at)
        assert (code, len(done)) == (-signal.SIGKILL, at + 1)
        found.append(seen(place.options, tmp_path))
        assert run.catalog("lake").sweep() == ()  # it has only just died
        if len(found) % 2 and found[-1] == OLD:
            expire_heartbeats(place.folder)
            run.catalog("lake").sweep()
            assert seen(place.options, tmp_path) == OLD
            assert refused(publish, run, staged).code == "RVT-418"
        else:
            publication = publish(run, staged)
            assert set(publication.published) == set(TABLES)
            assert seen(place.options, tmp_path) == NEW
            assert {version.state for name in TABLES for version in run.catalog("lake").versions(name)} == {
                "current",
                "older",
            }
            expire_heartbeats(place.folder)
            run.catalog("lake").sweep()
        assert run.catalog("lake").building() == ()
        assert heartbeats(place.folder) == []
    torn = [state for state in found if state not in (OLD, NEW)]
    assert (torn == []) == (kind == "nessie")
    assert found == sorted(found, key=lambda state: sum(state.values()))
    assert (found[0], found[-1]) == (OLD, NEW)


def killed(place: Place, staged, at: int) -> tuple[list[str], int | None]:
    """Kill a last step before its step number ``at``; return its steps and its exit code."""
    test, child = PROCESSES.Pipe(duplex=False)
    process = start(publish_killed_before_a_step, child, place.options, place.root, staged, at)
    child.close()
    return [*received(test)], ended(process)


def received(connection) -> Iterator[str]:
    """Receive messages until the other end is closed."""
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


def test_of_two_runs_that_overlap_in_one_table_one_is_refused_whole(nessie_options, tmp_path):
    run = runtime(nessie_options, tmp_path, "orders", "totals", "other")
    publish(run, [*stage_all(run, 1, "old"), stage(run, "other", 1, "old")])
    first = stage_all(run, 2, "first")
    second = [stage(run, "totals", 3, "second"), stage(run, "other", 3, "second")]
    publish(run, second)
    error = refused(publish, run, first)
    assert error.code == "RVT-405"
    (diagnostic,) = error.diagnostics
    assert "'lake.shop.totals' has been published by another run since" in diagnostic.message
    assert "shop.orders' has" not in diagnostic.message
    assert all(f"{table.joint} ({table.version})" in diagnostic.message for table in first)
    assert seen(nessie_options, tmp_path) == {"orders": 1, "totals": 3}
    catalog = run.catalog("lake")
    states = {name: [version.state for version in catalog.versions(name)] for name in TABLES}
    assert states == {"orders": ["current", "withheld"], "totals": ["current", "older", "withheld"]}
    assert catalog.sweep() == ()
    with catalog.take_up("orders", first[0].version) as by_hand:
        by_hand.commit("by hand")
    assert seen(nessie_options, tmp_path) == {"orders": 2, "totals": 3}


@pytest.mark.nightly
def test_last_steps_at_the_same_moment(nessie, nessie_options, tmp_path):
    """Of two that publish the same tables one wins; what others stage, or publish beside, is no conflict."""
    run = runtime(nessie_options, tmp_path, "orders", "totals", "other")
    publish(run, [*stage_all(run, 0, "old"), stage(run, "other", 0, "old")])
    for number in range(1, examples(1, 5) + 1):
        tables = [stage_all(run, number, f"one-{number}"), stage_all(run, 100 + number, f"two-{number}")]
        tables.append([stage(run, "other", number, f"other-{number}")])
        outcomes: dict[str, str] = {}
        barrier = threading.Barrier(4)

        def work(name, staged, barrier=barrier, outcomes=outcomes) -> None:
            own = runtime(nessie_options, tmp_path, "orders", "totals", "other")
            barrier.wait()
            try:
                publish(own, staged)
                outcomes[name] = "published"
            except RivetError as error:
                outcomes[name] = error.code

        def stages(barrier=barrier, number=number) -> None:
            own = runtime(nessie_options, tmp_path, "orders", "totals", "other")
            barrier.wait()
            for table in TABLES:
                stage(own, table, 500, f"waits-{number}")

        threads = [
            threading.Thread(target=work, args=pair) for pair in zip(("one", "two", "other"), tables, strict=True)
        ]
        threads.append(threading.Thread(target=stages))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert outcomes["other"] == "published"
        assert sorted([outcomes["one"], outcomes["two"]]) == ["RVT-405", "published"]
        winner = number if outcomes["one"] == "published" else 100 + number
        assert seen(nessie_options, tmp_path) == dict.fromkeys(TABLES, winner)
    states = Branch(nessie, nessie_options).snapshots()
    changes = [[name for name in TABLES if new[name] != old[name]] for old, new in itertools.pairwise(states)]
    assert all(changed in ([], list(TABLES)) for changed in changes)


def test_an_answer_that_is_lost_is_looked_up(nessie_options, tmp_path, monkeypatch):
    run = runtime(nessie_options, tmp_path)
    publish(run, stage_all(run, 1, "old"))
    staged = stage_all(run, 2, "new")
    commit = NessieServer.commit
    lost = []

    def loses(server, branch, message, operations):
        made = commit(server, branch, message, operations)
        if message.startswith("Publish ") and not lost:
            lost.append(message)
            raise requests.ConnectionError("Connection aborted.")
        return made

    monkeypatch.setattr(NessieServer, "commit", loses)
    assert publish(run, staged).one_commit
    assert seen(nessie_options, tmp_path) == NEW
    assert lost == [f"Publish lake.{NAMESPACE}.orders, lake.{NAMESPACE}.totals"]


def test_a_request_that_is_sent_twice_is_published_once(nessie_options, tmp_path, monkeypatch):
    """Its second answer is a conflict, after which nothing may be deleted."""
    run = runtime(nessie_options, tmp_path)
    commit, twice = NessieServer.commit, []

    def sent_twice(server, branch, message, operations):
        commit(server, branch, message, operations)
        twice.append(message)
        return commit(server, branch, message, operations)

    for number in (1, 2):
        staged = stage_all(run, number, f"run-{number}")
        with monkeypatch.context() as patch:
            patch.setattr(NessieServer, "commit", sent_twice)
            assert publish(run, staged).one_commit
        assert seen(nessie_options, tmp_path) == dict.fromkeys(TABLES, number)
    with written(run.catalog("lake"), Work([1], 3, adds=True, identity="run-3/orders"), tmp_path) as alone:
        monkeypatch.setattr(NessieServer, "commit", sent_twice)
        alone.commit("run-3/orders")
    assert len(twice) == 3
    assert seen(nessie_options, tmp_path) == {"orders": 3, "totals": 2}


def test_a_commit_that_nobody_knows_of_is_told_and_its_next_attempt_publishes(nessie_options, tmp_path, monkeypatch):
    run = runtime(nessie_options, tmp_path)
    monkeypatch.setattr(committing, "_LOOKS", (0.0,))
    for number in (1, 2):
        staged, late = stage_all(run, number, f"run-{number}"), []

        def is_held(server, branch, message, operations, late=late, commit=NessieServer.commit):
            if message.startswith("Publish "):
                late.append(lambda: commit(server, branch, message, operations))
                raise requests.ReadTimeout("Read timed out.")
            return commit(server, branch, message, operations)

        with monkeypatch.context() as patch:
            patch.setattr(NessieServer, "commit", is_held)
            error = refused(publish, run, staged)
        assert error.code == "RVT-419"
        assert all(f"run-{number}/{table}" in str(error) for table in TABLES)
        if number == 2:
            late[0]()
            assert seen(nessie_options, tmp_path) == NEW
        publication = publish(run, staged)
        assert set(publication.published) == set(TABLES)
        assert seen(nessie_options, tmp_path) == dict.fromkeys(TABLES, number)


@pytest.mark.nightly
def test_a_publication_that_fails_leaves_no_files(nessie_options, tmp_path, monkeypatch):
    """Of what it had prepared for its commit."""
    run = runtime(nessie_options, tmp_path)
    publish(run, stage_all(run, 1, "old"))
    staged = stage_all(run, 2, "new")
    fast = stage(run, "totals", 3, "fast")
    commit, before, prepared = NessieServer.commit, files(tmp_path), set()

    def overtaken(server, branch, message, operations):
        if message.startswith("Publish ") and not prepared:
            prepared.update(files(tmp_path) - before)
            run.catalog("lake").take_up_staged("totals", fast.version).commit(fast.identity)
        return commit(server, branch, message, operations)

    monkeypatch.setattr(NessieServer, "commit", overtaken)
    assert refused(publish, run, staged).code == "RVT-405"
    assert prepared
    assert not prepared & files(tmp_path)
    assert seen(nessie_options, tmp_path) == {"orders": 1, "totals": 3}


def files(root) -> set[str]:
    return {str(path) for path in root.rglob("*") if path.suffix in (".avro", ".json")}


def test_a_last_step_that_is_tried_again_after_the_merge_of_its_environment_says_so(tmp_path):
    run = runtime(declared("hadoop", tmp_path / "lake"), tmp_path, environment="pr-7")
    base = run.base_catalog("lake")
    base.use_environment("pr-7", "default")
    staged = []
    for table in TABLES:
        identity = f"run/{table}"
        with written(run.catalog("lake"), Work([1], 1, table=table, identity=identity), tmp_path) as transaction:
            version = transaction.stage(identity)
        staged.append(StagedResult(table, "lake", table, version.version, identity))
    assert publish(run, staged).published.keys() == {*TABLES}
    assert publish(run, staged).published.keys() == {*TABLES}
    base.merge("pr-7")
    with pytest.raises(RivetError, match="'pr-7' has been merged"):
        publish(run, staged)

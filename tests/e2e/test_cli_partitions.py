"""Partitions on the command line: what a run covers, and errors."""

import json

import pytest
from support.folders import ProjectFolder, sink, source

from rivet_dagster.cli.main import main

DAILY = {"type": "daily", "column": "day", "start": "2024-01-01", "end": "2024-01-04"}
STATIC = {"type": "static", "column": "day", "values": ["2024-01-02"]}
SALES = {
    "data/orders.csv": "day,amount\n2024-01-01,1\n2024-01-02,2\n2024-01-02,4\n2024-01-03,8\n",
    "sources/orders.yaml": source("orders", "day STRING, amount INT", partitions=DAILY),
    "joints/names.sql": "-- rivet:eager: true\nSELECT 'eu' AS name",
    "joints/totals.sql": f"-- rivet:partitions: {DAILY}\nSELECT day, name, sum(amount) AS total FROM orders, names "
    "GROUP BY ALL",
    "sinks/report.yaml": sink("report", "totals", partitions=DAILY),
}
EACH = {"2024-01-01": 1, "2024-01-02": 6, "2024-01-03": 8}


@pytest.fixture
def cli(capfd, monkeypatch):
    """Return a function that runs a command in this process and returns its exit code, stdout and stderr."""
    for name in ("DAGSTER_HOME", "RIVET_PROFILE"):
        monkeypatch.delenv(name, raising=False)

    def cli(*arguments: object) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return code, out, err

    return cli


@pytest.fixture
def folder(tmp_path):
    """Return a function that writes a project that is compiled and never run."""
    return lambda files: ProjectFolder(tmp_path / "project", files)


def refused(cli, *arguments: object) -> dict:
    """Return the single error of a run that does not begin."""
    code, out, _ = cli("run", *arguments, "--format", "json")
    assert code == 10
    (error,) = json.loads(out)["errors"]
    return error


def totals(folder) -> dict[str, int]:
    return {row["day"]: row["total"] for row in folder.rows("report")}


def test_one_partition_and_what_it_needs(project, cli):
    sales = project(SALES)
    code, out, _ = cli("run", "-p", sales.root, "+report", "--partition", "2024-01-02", "--format", "json")
    assert code == 0
    report = json.loads(out)
    assert report["window"] == "2024-01-02"
    assert {group["name"]: group["status"] for group in report["groups"]} == {"names": "success", "report": "success"}
    assert totals(sales) == {"2024-01-02": EACH["2024-01-02"]}


def test_a_range(project, cli):
    sales = project(SALES)
    code, _, err = cli("run", "-p", sales.root, "--partition-range", "2024-01-02...2024-01-03")
    assert code == 0
    assert "2 of 2 groups succeeded for 2024-01-02...2024-01-03; " in err
    assert totals(sales) == {key: EACH[key] for key in ("2024-01-02", "2024-01-03")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "totals, report: say which partition to make; the first is 2024-01-01, the last 2024-01-03"),
        (("--partition", "2024-01-04"), "there is no partition '2024-01-04'; the first is 2024-01-01, the last"),
        (("--partition", "2024-1-2"), "did you mean '2024-01-02'"),
        (("--partition-range", "2024-01-03...2024-01-02"), "2024-01-03 comes after 2024-01-02"),
        (("--partition-range", "2024-01-03...2024-02-02"), "there is no partition '2024-02-02'"),
        (("names", "--partition", "2024-01-03"), "none of these joints has partitions"),
    ],
)
def test_partitions_that_cannot_be_run_are_an_error(folder, cli, arguments, message):
    error = refused(cli, "-p", folder(SALES).root, *arguments)
    assert error["code"] == "RVT-114"
    assert message in error["message"].replace("report, totals", "totals, report")


@pytest.mark.parametrize(
    "arguments", [("--partition-range", "2024-01-03"), ("--partition", "a", "--partition-range", "a...b")]
)
def test_malformed_options_are_an_error(folder, cli, arguments):
    assert refused(cli, "-p", folder(SALES).root, *arguments)["code"] == "RVT-110"


def test_joints_with_several_kinds_of_partitions_run_one_after_the_other(folder, cli):
    root = folder({**SALES, "sinks/other.yaml": sink("other", "orders", partitions=STATIC)}).root
    error = refused(cli, "-p", root, "--partition", "2024-01-02")
    assert error["code"] == "RVT-114"
    assert "other: static (2024-01-02)" in error["message"]
    assert "report, totals: daily from 2024-01-01 to 2024-01-04 UTC" in error["message"]


def test_partitions_in_the_future_are_an_error(folder, cli):
    late = {"type": "daily", "column": "day", "start": "2999-01-01"}
    root = folder({"sinks/out.yaml": sink("out", "a", partitions=late), "joints/a.sql": "SELECT '1' AS day"}).root
    assert "out: say which partition to make; there is none yet" in refused(cli, "-p", root, "out")["message"]

"""The report of a run for a reader."""

import pytest
from support.projects import compile_joints, sink, source

from rivet_dagster.cli.run.report import FAILED, SUCCESS, GroupReport, RunReport
from rivet_dagster.cli.run.text import show_report


@pytest.fixture
def lines(tmp_path, capsys, monkeypatch):
    """Return a function that returns the lines of the report on a run of these groups, each as its words."""
    monkeypatch.setenv("COLUMNS", "120")

    def lines(*groups):
        plan = compile_joints(source("raw"), *(sink(group.name, "raw") for group in groups)).raise_errors()
        success = all(group.status == SUCCESS for group in groups)
        show_report(RunReport(success, "r1", None, groups, (), (), seconds={"a": 2.26}), plan, tmp_path)
        return [line.split() for line in capsys.readouterr().err.splitlines()]

    return lines


def test_a_group_has_its_two_slowest_phases_as_far_as_two_digits_show_them(lines):
    phases = {"plan": 0.0049, "write": 0.005, "read": 1.5, "judge": 0.001}
    shown = lines(GroupReport("a", SUCCESS, phases, {"total": 1234}))
    assert shown[:2] == [
        ["group", "status", "rows", "seconds", "slowest", "phases"],
        ["a", "success", "1,234", "2.3", "read", "1.50,", "write", "0.01"],
    ]
    assert not any(line[:2] == ["slowest", "phases"] for line in shown)
    assert lines(GroupReport("a", SUCCESS, {"plan": 0.0049}))[1] == ["a", "success", "2.3"]


def test_a_run_of_several_groups_has_its_three_slowest_phases(lines):
    short = GroupReport("b", FAILED, {"read": 0.005, "write": 0.0049})
    shown = lines(GroupReport("a", SUCCESS, {"read": 1.5}), short)
    assert "slowest phases read of a 1.50 s, read of b 0.01 s".split() in shown
    assert "1 of 2 groups succeeded; Dagster run r1".split() in shown
    long = GroupReport("b", SUCCESS, {"read": 3, "write": 2, "plan": 1})
    shown = lines(GroupReport("a", SUCCESS, {"read": 1.5}), long)
    assert "slowest phases read of b 3.00 s, write of b 2.00 s, read of a 1.50 s".split() in shown

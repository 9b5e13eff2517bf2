"""Combinations of errors; test_bad_inputs.py has a case for each single error."""

from __future__ import annotations

import pytest
from support.projects import codes, compile_joints, python, sink, sql

from rivet_dagster.errors import RivetError


def test_a_single_upstream_is_passed_to_a_parameter_of_any_name():
    single, functions = python("model", "anything", upstream=["a"])
    assert codes(compile_joints(single, sql("a", "SELECT 1 AS x"), functions=functions)) == []


def test_all_errors_are_reported_at_once_and_nothing_is_planned():
    plan = compile_joints(sql("a", "SELECT 1; SELECT 2"), sink("out", "nowhere"), sink("empty"))
    assert sorted(codes(plan)) == ["RVT-207", "RVT-302", "RVT-304"]
    assert plan.fused_groups == ()
    with pytest.raises(RivetError) as caught:
        plan.raise_errors()
    for code in codes(plan):
        assert code in str(caught.value)

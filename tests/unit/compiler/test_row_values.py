"""``row_values: false`` of a profile and of joints: declaration, and effect on the plan."""

import json
from pathlib import Path

import pytest
from support.folders import PROFILES, ProjectFolder, sink, source

from rivet_dagster import CompiledAssembly, Joint, RivetError, compile_directory
from rivet_dagster.definitions.specs.samples_and_errors import BYTES, bounded

PYTHON = "# rivet:row_values: {}\ndef transform(paid):\n    return paid\n"
CHECKS = [{"type": "not_null", "columns": ["id"], "samples": 3}, {"type": "schema", "columns": {"id": "INT"}}]


@pytest.fixture
def compiled(tmp_path: Path):
    """Compile joints in each notation with this ``row_values``, except those called ``plain``; return them by name."""

    def compile(own: str, **profile: bool):
        key = {"row_values": json.loads(own)}
        files = {
            "profiles.yaml": {"default": {**PROFILES["default"], **profile}},
            "sources/orders.yaml": source("orders", "id INT", **key),
            "joints/paid.sql": f"-- rivet:row_values: {own}\nSELECT * FROM orders",
            "joints/made.py": PYTHON.format(own),
            "sinks/kept.yaml": sink("kept", "paid", assertions=CHECKS, **key),
            "sinks/plain.yaml": sink("plain", "made", assertions=CHECKS),
        }
        declared = [Joint(name="declared", type="sink", catalog="lake", table="t", upstream="made", **key)]
        plan = compile_directory(ProjectFolder(tmp_path, files).root, joints=declared).raise_errors()
        assert CompiledAssembly.from_json(plan.to_json()) == plan
        return {joint.name: joint for joint in plan.joints}

    return compile


OWN = ("orders", "paid", "made", "kept", "declared")


@pytest.mark.parametrize("own", ["true", "false"])
def test_a_joints_own_key_wins_over_the_profiles(compiled, own):
    joints = compiled(own, row_values=own == "false")
    assert {joints[name].row_values for name in OWN} == {own == "true"}
    assert joints["plain"].row_values is (own == "false")
    counts = {name: [check.samples for check in joints[name].checks] for name in ("kept", "plain")}
    assert counts[("kept", "plain")[own == "true"]] == [0, 10]  # samples of a schema check are not rows
    assert counts[("kept", "plain")[own == "false"]] == [3, 10]


def test_row_values_does_not_change_code_versions_and_is_true_by_default(compiled):
    versions = [{name: joint.code_version for name, joint in compiled(own).items()} for own in ("true", "false")]
    assert versions[0] == versions[1]
    assert compiled("true")["plain"].row_values is True


def test_other_values_are_errors_at_their_lines(tmp_path):
    profiles = {"default": {"row_values": "no", **PROFILES["default"]}}
    with pytest.raises(RivetError, match=r"RVT-104 profiles.yaml:2: .*`row_values` must be true or false, not a text"):
        compile_directory(ProjectFolder(tmp_path / "a", {"profiles.yaml": profiles}).root)
    folder = ProjectFolder(tmp_path / "b", {"joints/one.sql": "-- rivet:row_values: 0\nSELECT 1 AS id"})
    (found,) = compile_directory(folder.root).errors
    assert (found.code, found.file, found.line) == ("RVT-204", "joints/one.sql", 1)


def test_samples_are_truncated():
    rows = [{"id": number, "note": "é" * 500, "none": None} for number in range(100)]
    bounded_rows = bounded(rows)
    assert bounded_rows[0] == {"id": "0", "note": "é" * 197 + "...", "none": "NULL"}
    size = sum(len((name + text).encode()) for row in bounded_rows for name, text in row.items())
    assert BYTES - 500 < size <= BYTES
    assert [row["id"] for row in bounded_rows] == [str(number) for number in range(len(bounded_rows))]
    assert bounded([{"n" * 20_000: 1}]) == [{}]

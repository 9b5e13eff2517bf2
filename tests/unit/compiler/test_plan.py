"""The plan as data."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.projects import compile_joints, sink, source, sql

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import RivetError

HERE = Path(__file__).parent


def some_plan():
    return compile_joints(
        source("raw", columns=["id", {"net": "gross / 1.2"}], options={"schema": "id BIGINT, gross DOUBLE"}),
        sql("a", "SELECT id, net FROM raw", quality={"assertions": [{"type": "unique", "columns": "id"}]}),
        sink("out", "a", tags=["daily"], owners=["team:data"]),
    )


def test_a_plan_survives_json():
    plan = some_plan()
    assert CompiledAssembly.from_json(plan.to_json()) == plan


def test_a_failed_plan_survives_json_too():
    plan = compile_joints(sink("out", "nowhere"))
    assert CompiledAssembly.from_json(plan.to_json()) == plan


@pytest.mark.slow
def test_the_bytes_do_not_depend_on_the_hash_seed():
    paths = [str(HERE), str(HERE.parents[1])]
    code = f"import sys; sys.path[:0] = {paths!r}; from test_plan import some_plan; print(some_plan().to_json())"
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(outputs) == 1


def test_the_code_version_changes_only_with_the_logic():
    def version(text, **fields):
        return compile_joints(sql("a", text, **fields)).joint("a").code_version

    base = version("SELECT id, 'A' AS x FROM t")
    assert version("select ID,  'A' as x -- why\nfrom T;") == base
    assert version("SELECT id, 'A' AS x FROM t", description="new", group="g", owners=["team:x"]) == base
    assert version("SELECT id, 'a' AS x FROM t") != base
    assert version("SELECT id, 'A' AS y FROM t") != base


def test_schemas_propagate_from_sources_through_stars_and_joins():
    plan = compile_joints(
        source("raw", options={"schema": "id BIGINT, name STRING"}),
        source("far"),
        sql("a", "SELECT r.*, my_function(name) AS loud FROM raw r"),
        sql("b", "SELECT * FROM far"),
        sql("c", "SELECT a.id, CAST(b.x AS INT) AS x FROM a JOIN b ON a.id = b.id"),
    )
    known = {joint.name: joint for joint in plan.joints}
    assert [(f.name, f.type) for f in known["a"].schema] == [("id", "bigint"), ("name", "string"), ("loud", None)]
    assert known["a"].schema_confidence == "partial"
    assert (known["b"].schema, known["b"].schema_confidence) == (None, "none")
    assert [(f.name, f.type) for f in known["c"].schema] == [("id", "bigint"), ("x", "int")]
    assert known["c"].schema_confidence == "inferred"


def test_secrets_stay_references():
    assert "${" not in some_plan().to_json()


def test_an_unknown_joint_is_an_error():
    with pytest.raises(RivetError, match="RVT-306"):
        some_plan().joint("nope")

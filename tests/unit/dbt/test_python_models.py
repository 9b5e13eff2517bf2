"""Python models of dbt as Python joints: the function that they get runs them here on lists in place of tables."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
from support.dbt import model, notes, translated, write_dbt

from rivet_dagster.cli.main import main

OTHERS = {
    "models/orders.sql": "select 1 as id",
    "models/p_v1.sql": "select 1 as id",
    "models/p.yml": "models: [{name: p, latest_version: 1, versions: [{v: 1}]}]",
    "models/s.yml": "sources: [{name: crm, tables: [{name: visits}]}]",
}
TEXT = """import math


def model(dbt, session):
    dbt.config(materialized="incremental", incremental_strategy="append", tags=["x"], packages=["numpy"], factor=2)
    rows = dbt.ref("orders") + dbt.ref("shop", "p", v=1) + dbt.source("crm", "visits")
    return [row * dbt.config.get("factor") * (dbt.config.get("nothing") or 1) for row in rows] + [session]
"""


def test_a_python_model_runs_on_joints(tmp_path, monkeypatch):
    text = TEXT.replace("incremental", "table", 1).replace('incremental_strategy="append", ', "")
    result = translated(tmp_path, {**OTHERS, "models/m.py": text})
    entry = model(result, "m")
    assert (entry.status, entry.joint) == ("changed", "m")
    assert entry.reasons == (
        "its rows are those of model(dbt, session), which the function transform calls",
        "its packages are not installed by a run: numpy",
    )
    written = result.files["joints/m.py"]
    assert written.startswith(
        f"# rivet:tags: [x]\n# rivet:catalog: warehouse\n\n{text}\n\ndef transform(orders, p_v1, visits):\n"
    )

    class Rows(list):
        sparkSession = "the session"

    session = ModuleType("pyspark.sql")
    session.SparkSession = SimpleNamespace(active=lambda: "the active session")
    monkeypatch.setitem(sys.modules, "pyspark.sql", session)
    monkeypatch.setitem(sys.modules, "pyspark", ModuleType("pyspark"))
    names: dict = {}
    exec(written, names)
    joints = [SimpleNamespace(to_spark=lambda row=row: Rows([row])) for row in (1, 2, 3)]
    assert names["transform"](*joints) == [2, 4, 6, "the session"]


def test_it_compiles_with_its_checks(tmp_path):
    yml = "models: [{name: m, description: All., columns: [{name: id, data_tests: [unique]}]}]"
    old = write_dbt(tmp_path / "old", {**OTHERS, "models/m.py": TEXT, "models/m.yml": yml})
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "new")]) == 0
    written = (tmp_path / "new" / "joints" / "m.py").read_text()
    assert "# rivet:write_strategy: {mode: append, on_schema_change: ignore}\n" in written
    assert "# rivet:audit: {type: unique, columns: [id]}\n" in written


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def broken(", "Python cannot read it"),
        ("def other(dbt, session): pass", "it has no function model(dbt, session)"),
        ("def model(dbt): pass", "it has no function model(dbt, session)"),
        ("def model(dbt, session): return dbt.this", "models/m.py:1: dbt.this has no counterpart"),
        ("def model(dbt, session): return help_with(dbt)", "it uses dbt otherwise than by its attributes"),
        (
            "def model(dbt, session):\n    x = 'a'\n    return dbt.ref(x)",
            "models/m.py:3: names of relations must be constants",
        ),
        ("def model(dbt, session): return dbt.ref('nothing')", "ref('nothing') names no model"),
        ("def model(dbt, session): return dbt.source('crm')", "models/m.py:1: "),
        ("def model(dbt, session): return dbt.config.get(str(1))", "computes the name of a setting"),
        ("def model(dbt, session): pass\ndef transform(): pass", "it has a function transform"),
        ("def model(dbt, session):\n    dbt.config(materialized='view')", "a table or incremental, not 'view'"),
        (
            "def model(dbt, session):\n    dbt.config(materialized='incremental')\n    return dbt.is_incremental",
            "does not know whether its run is incremental",
        ),
    ],
)
def test_left_out(tmp_path, text, reason):
    entry = model(translated(tmp_path, {**OTHERS, "models/m.py": text}), "m")
    assert entry.status == "left_out"
    assert reason in " ".join(entry.reasons)


@pytest.mark.parametrize(
    ("text", "project", "is_there"),
    [
        ("def model(dbt, session):\n    dbt.config(enabled=False)", "name: shop", False),
        ("def model(dbt, session):\n    pass", "name: shop\nmodels: {shop: {+enabled: false}}", False),
        ("def model(dbt, session):\n    dbt.config(enabled=X)", "name: shop", True),
    ],
)
def test_disabled(tmp_path, text, project, is_there):
    result = translated(tmp_path, {"models/m.py": text}, project)
    assert [entry.name for entry in result.report.models] == (["m"] if is_there else [])
    assert [entry.name for entry in notes(result, "disabled")] == ([] if is_there else ["m"])

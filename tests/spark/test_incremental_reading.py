"""Rows that a template reads in the first and in later runs, compared with the same filter in Python."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from support.folders import WORKSPACE, Files, ProjectFolder, sink, source

from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.inputs import reference

EAGER = "-- rivet:eager: true\n"
NEW = "SELECT * FROM raw\n{% if is_incremental() %}\nWHERE at > {{ watermark_value }}\n{% endif %}"
KINDS: dict[str, tuple[list[Any], Callable[[str], Any]]] = {
    "tinyint": (["1", "2", "100"], int),
    "smallint": (["-1", "2", "300"], int),
    "int": (["1", "-5", "2147483647"], int),
    "bigint": (["1", "5", "7"], int),
    "float": (["0.1", "0.3", "0.2"], float),
    "double": (["0.1", "-0.3", "1e300"], float),
    "decimal(10,2)": (["1.50", "10.25", "9.75"], Decimal),
    "decimal(30,10)": (["1.5", "10.25", "9.75"], Decimal),
    "date": (["2026-01-31", "1999-12-31", "2026-03-29"], date.fromisoformat),
    "timestamp": (["2026-03-29T00:30:00Z", "2026-03-29T01:30:00.123456Z", "2026-10-25T00:30:00Z"], str),
    "timestamp_ntz": (["2026-03-29T02:30:00", "2026-03-29T01:30:00.123456", "2026-10-25T02:30:00"], str),
    "string": (["b", "it's", "ä"], str),
}
"""Values of each type as in CSV, unordered, and the function that makes them comparable."""


def csv(values: list[str]) -> str:
    return "id,at\n" + "".join(f"{number},{value}\n" for number, value in enumerate(values))


def reading(type_: str, values: list[str], rows: str = NEW, **strategy: Any) -> Files:
    """Return a source, a stored template, and the sink that the template refers to."""
    strategy = {"mode": "merge", "key_columns": ["id"], "watermark_column": "at", **strategy}
    return {
        "data/raw.csv": csv(values),
        "sources/raw.yaml": source("raw.csv", f"id INT, at {type_}"),
        "joints/rows.sql": EAGER + rows,
        "sinks/out.yaml": sink("out", "rows", write_strategy=strategy),
    }


def batch(folder: ProjectFolder) -> list[int]:
    """Return the ids that the template gives now."""
    folder.run("rows")
    return sorted(row["id"] for row in folder.rows("rows", WORKSPACE))


def failure(call, *arguments, **options) -> RivetError:
    with pytest.raises(RivetError) as caught:
        call(*arguments, **options)
    return caught.value


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("type_", KINDS)
def test_the_watermark_has_its_columns_type(project, type_):
    values, key = KINDS[type_]
    kind = "SELECT *{% if is_incremental() %}, typeof({{ watermark_value }}) AS kind{% endif %}"
    folder = project(reading(type_, values, NEW.replace("SELECT *", kind)))
    assert batch(folder) == [0, 1, 2]
    assert "kind" not in folder.table("rows", WORKSPACE).column_names
    folder.run("out")
    folder.write({"data/raw.csv": csv([*values, *sorted(values, key=key)[-2:]])})
    assert batch(folder) == []
    greatest = max(values, key=key)
    newer = {"date": "2027-01-01", "string": "ö", "tinyint": "101"}.get(type_)
    newer = newer or greatest.replace("2026", "2027") if "-" in greatest else newer or str(key(greatest) * 2)
    if type_ == "int":  # there is no greater one
        folder.write({"data/raw.csv": csv(values)})
        assert main(["-p", str(folder.root), "watermark", "set", "out", "1"]) == 0
        assert batch(folder) == [number for number, value in enumerate(values) if int(value) > 1]
    else:
        folder.write({"data/raw.csv": csv([*values, newer])})
        assert batch(folder) == [3]
    (found,) = {row["kind"] for row in folder.rows("rows", WORKSPACE)}
    expected = {"float": "double"}.get(type_, type_)  # the same number, exactly
    assert found.partition("(")[0] == expected.partition("(")[0]


def test_everything_is_read_without_a_target_or_a_watermark(project):
    folder = project(reading("INT", ["", ""]))
    assert batch(folder) == [0, 1]
    folder.run("out")
    folder.write({"data/raw.csv": csv(["", "", "1", "2"])})
    assert batch(folder) == [0, 1, 2, 3]  # the target has only NULLs
    folder.run("out")
    folder.write({"data/raw.csv": csv(["", "", "1", "2", "3"])})
    assert batch(folder) == [4]


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize(
    ("type_", "values", "lookback", "expected"),
    [
        ("TIMESTAMP", ["2026-03-29T00:59:00Z", "2026-03-29T01:00:01Z", "2026-03-29T03:00:00Z"], "2h", [1, 2]),
        ("TIMESTAMP_NTZ", ["2026-03-29T00:59:00", "2026-03-29T01:00:01", "2026-03-29T03:00:00"], "2h", [1, 2]),
        ("DATE", ["2026-02-26", "2026-02-27", "2026-03-01"], "3d", [1, 2]),
        ("INT", ["1", "91", "100"], 10, [1, 2]),
        ("DECIMAL(5, 1)", ["97.4", "97.6", "100.0"], 2.5, [1, 2]),
        ("DOUBLE", ["97.4", "97.6", "100.0"], 2.5, [1, 2]),
    ],
)
def test_lookback_is_subtracted_from_the_targets_watermark(project, capsys, type_, values, lookback, expected):
    folder = project(reading(type_, values, lookback=lookback))
    batch(folder)
    folder.run("out")
    assert batch(folder) == expected
    # A value set by hand is used without lookback.
    last = values[-1].replace("Z", "+00:00")
    assert main(["-p", str(folder.root), "watermark", "set", "out", last]) == 0
    assert batch(folder) == []


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize(
    ("type_", "strategy", "words"),
    [
        (
            "INT",
            {"lookback": "3d"},
            "`lookback` does not fit the watermark: int is moved back by a number, not by 3d",
        ),
        ("INT", {"lookback": 0.5}, "by a whole number, not by 0.5"),
        ("DATE", {"lookback": 3}, "date is moved back by a duration like 2h or 3d, not by 3"),
        ("DATE", {"lookback": "2h"}, "date is moved back by whole days, not by 2h"),
        ("STRING", {"lookback": "2h"}, "a text cannot be moved back"),
        ("BOOLEAN", {}, "the column 'at' is of type boolean, which no watermark can have"),
    ],
)
def test_an_invalid_watermark_publishes_nothing(project, type_, strategy, words):
    values = {"INT": "1", "DATE": "2026-01-01", "BOOLEAN": "true"}
    folder = project(reading(type_, [values.get(type_, "x")], **strategy))
    batch(folder)
    folder.run("out")
    before = folder.bytes_of("rows", WORKSPACE)
    error = failure(folder.run, "rows")
    assert (error.code, error.diagnostics[0].joint, error.diagnostics[0].file) == ("RVT-511", "out", "sinks/out.yaml")
    assert words in str(error)
    assert folder.bytes_of("rows", WORKSPACE) == before
    assert len(folder.versions("rows", WORKSPACE)) == 3


def test_a_target_without_the_watermark_column(project):
    folder = project(reading("INT", ["1"], "SELECT id FROM raw", watermark_column="id"))
    batch(folder)
    folder.run("out")
    folder.write(reading("INT", ["1"]))
    error = failure(folder.run, "rows")
    assert error.code == "RVT-511"
    assert "the target has no column 'at'; known: id" in str(error)


@pytest.mark.nightly
def test_nan_is_no_watermark(project):
    folder = project(reading("DOUBLE", ["1.0", "NaN"]))
    batch(folder)
    folder.run("out")
    assert "is NaN" in str(failure(folder.run, "rows"))


def test_a_watermark_set_by_hand_applies_until_the_next_publish(project, capsys):
    folder = project(reading("INT", ["1", "2", "3"]))
    batch(folder)
    folder.run("out")
    assert batch(folder) == []
    command = ["-p", str(folder.root), "watermark"]
    assert main([*command, "set", "out", "1"]) == 0
    assert batch(folder) == [1, 2]
    assert batch(folder) == [1, 2]
    folder.run("out")
    folder.write({"data/raw.csv": csv(["1", "2", "3", "4"])})
    assert batch(folder) == [3]
    assert main([*command, "reset", "out"]) == 0
    assert batch(folder) == [0, 1, 2, 3]
    capsys.readouterr()
    assert main([*command, "list"]) == 0
    assert capsys.readouterr().out == "out: at int, in the target 3, set for the next run NULL\n"


def test_a_watermark_set_for_a_column_of_another_type_is_an_error(project):
    folder = project(reading("STRING", ["a"]))
    batch(folder)
    folder.run("out")
    (version,) = [name for name in folder.versions("out") if not name.endswith(".json")]
    assert main(["-p", str(folder.root), "watermark", "set", "out", "b"]) == 0
    override = (folder.root / f"lake/.rivet/out/{version}.watermark").read_text()
    folder.write(reading("INT", ["1"], "SELECT * FROM raw"))
    folder.run("rows")
    folder.write({"sinks/out.yaml": sink("out", "rows")})
    folder.run("out")
    folder.write(reading("INT", ["1"]))
    (version,) = [name for name in folder.versions("out")[-3:] if not name.endswith(".json")]
    (folder.root / f"lake/.rivet/out/{version}.watermark").write_text(override)
    assert "RVT-511 sinks/out.yaml:1: joint out: the watermark that was set does not fit its column: 'b'" in str(
        failure(folder.run, "rows")
    )


def test_this_means_the_published_rows_of_the_target(project):
    unseen = "SELECT * FROM raw{% if is_incremental() %} WHERE id NOT IN (SELECT id FROM {{ this }}){% endif %}"
    folder = project(reading("INT", ["1", "2"], unseen))
    assert batch(folder) == [0, 1]
    folder.run("out")
    folder.write({"data/raw.csv": csv(["1", "2", "1"])})
    assert batch(folder) == [2]


def test_a_fused_template_is_incremental_in_partial_and_full_runs(project, sql_executions):
    files = dict(reading("INT", ["1", "2", "3"]))
    files["joints/rows.sql"] = NEW
    folder = project(files)
    assert folder.assembly.group("out").joints == ("raw", "rows", "out")
    assert folder.run("out", ["rows"]).counted == {"rows": 3}
    folder.run("out")
    folder.write({"data/raw.csv": csv(["1", "2", "3", "4"])})
    sql_executions.since()
    assert folder.run("out", ["rows"]).counted == {"rows": 1}
    assert sql_executions.since() == 1  # the watermark comes from the footers
    # A view is not part of a run of the sink.
    assert reference(folder.runtime, "rows").to_arrow().num_rows == 4
    assert vars(folder.run("out").rows) == {"inserted": 1, "updated": 0, "deleted": 0, "total": 4}
    assert folder.rows("out") == [{"id": number, "at": number + 1} for number in range(4)]
    assert folder.run("out", ["rows"]).counted == {"rows": 0}


def test_a_watermark_that_footers_do_not_have_is_queried(project, sql_executions):
    folder = project(reading("DOUBLE", ["1.0", "2.0"]))
    batch(folder)
    folder.run("out")
    sql_executions.since()
    assert batch(folder) == []
    assert sql_executions.since() == 2


def test_all_joints_of_a_run_have_the_same_start_time(project):
    files = dict(reading("INT", ["1"], "SELECT id, {{ run_started_at }} AS at FROM raw"))
    files["joints/rows.sql"] = (
        "SELECT id, {{ run_started_at }} AS first, '{{ ref('raw') }}' AS source FROM {{ ref('raw') }}"
    )
    files["joints/more.sql"] = EAGER + "SELECT *, {{ run_started_at }} AS second, current_timestamp() AS now FROM rows"
    files["sinks/out.yaml"] = sink("out", "more")
    folder = project(files)
    before = datetime.now(UTC)
    folder.run("more")
    (row,) = folder.rows("more", WORKSPACE)
    assert before <= row["first"] == row["second"] <= row["now"] <= datetime.now(UTC)
    assert row["source"] == "raw"
    view = reference(folder.runtime, "rows").to_arrow().to_pylist()[0]["first"]
    assert row["first"] < view < datetime.now(UTC) + timedelta(seconds=1)


def test_the_strategy_and_the_query_have_the_same_start_time(project):
    files = dict(reading("INT", ["1"], "SELECT id, {{ run_started_at }} AS seen FROM raw"))
    files["joints/rows.sql"] = files["joints/rows.sql"].removeprefix(EAGER)
    files["sinks/out.yaml"] = sink("out", "rows", write_strategy={"mode": "scd2", "key_columns": ["id"]})
    folder = project(files)
    folder.run("out")
    (row,) = folder.rows("out")
    assert row["valid_from"] == row["seen"]


@pytest.mark.parametrize(
    ("values", "line"),
    [(["x"], 10), (["x", "y"], 6)],
)
def test_an_error_of_the_engine_has_its_line(project, values, line):
    text = """SELECT id, at,
{% if not is_incremental() %}
  1 AS one,
{% else %}

  missing_later() AS one,
{% endif %}

{# not yet #}
  missing_at_first() AS two
FROM {{ ref('raw') }}"""
    folder = project(reading("STRING", ["x"], "SELECT *, 1 AS one, 2 AS two FROM raw"))
    if len(values) > 1:
        batch(folder)
        folder.run("out")
    folder.write(reading("STRING", values, text.replace("missing_at_first()", "2") if len(values) > 1 else text))
    (found,) = failure(folder.run, "rows").diagnostics
    assert (found.code, found.joint, found.file, found.line) == ("RVT-503", "rows", "joints/rows.sql", line + 1)


def test_the_named_one_of_several_sinks_is_used(project):
    files = dict(reading("INT", ["1", "2"], NEW.replace("()", "('out')").replace("_value", "_value('out')")))
    files["sinks/all.yaml"] = sink("all", "rows")
    folder = project(files)
    folder.run("rows")
    folder.run("all")
    assert batch(folder) == [0, 1]
    folder.run("out")
    assert batch(folder) == []

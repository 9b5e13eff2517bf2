"""Samples of violating rows, whose long values the engine cuts."""

import pytest
from support.folders import ProjectFolder, sink

from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.execution.quality.verdicts import judge

NESTED = {
    "texts": "array('a', '{}')",
    "counts": "map('{}', 1)",
    "place": "named_struct('city', '{}', 'zip code', 1)",
    "plain": "'{}'",
}


@pytest.mark.parametrize("letters", [1, 50_000])
def test_values_of_nested_types_are_whole_if_they_are_short_and_else_the_beginning_of_their_text(
    tmp_path, session: PySparkSession, letters: int
) -> None:
    files = {
        "sources/rows.yaml": {"type": "source", "catalog": "raw", "table": "rows"},
        "sinks/out.yaml": sink("out", "rows", assertions=[{"type": "not_null", "columns": ["other"]}]),
    }
    (compiled,) = ProjectFolder(tmp_path, files).assembly.joint("out").checks
    columns = ", ".join(f"{sql.format('x' * letters)} AS {name}" for name, sql in NESTED.items())
    session.register("out", session.query(f"SELECT {columns}, 7 AS id, CAST(NULL AS INT) AS other"))
    (result,) = judge("out", [compiled], session, None, lambda name: pytest.fail(name))
    (sample,) = result.samples
    whole = {"texts": ["a", "x"], "counts": {"x": 1}, "place": {"city": "x", "zip code": 1}, "plain": "x"}
    cut = {"texts": "[a, ", "counts": "{", "place": "{", "plain": ""}
    expected = whole if letters == 1 else {name: f"{text}{'x' * letters}"[:10_000] for name, text in cut.items()}
    assert dict(sample) == {**expected, "id": 7, "other": None}
    assert [*sample] == [*NESTED, "id", "other"]

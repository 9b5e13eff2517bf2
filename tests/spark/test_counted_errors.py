"""The errors of a version, counted by site with samples of each, whatever their number."""

import json

import pyarrow as pa
import pytest
from support.error_tables import COLUMNS, SCHEMA

from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.execution.quality import row_errors
from rivet_dagster.execution.quality.row_errors import SAMPLES, counted_errors
from rivet_dagster.execution.results import RowErrorCounts
from rivet_dagster.model.relations import ArrowRows

MANY, FEW, ALIKE = 400, 3, 300


def error(line: int, row: int, version: str = "v2") -> dict:
    given = dict.fromkeys(COLUMNS, "x") | {"line": line, "file": None, "found_at": None, "version": version}
    return given | {"row": json.dumps({"id": row})}


def errors() -> pa.Table:
    found = [error(1, number) for number in range(MANY)]
    found += [error(2, number) for number in range(FEW)]
    found += [error(3, 7)] * ALIKE
    found += [error(1, number, "v1") for number in range(50)]
    return pa.Table.from_pylist(found, SCHEMA)


def counted(session: PySparkSession) -> RowErrorCounts:
    table = errors()
    frame = session.load(ArrowRows(table.schema, table.to_reader))
    return counted_errors(session, frame, "orders__errors", "v2", len(table))


def test_sites_are_counted_with_samples_of_each(quick_session: PySparkSession) -> None:
    few = counted(quick_session)
    assert (few.count, few.total) == (MANY + FEW + ALIKE, MANY + FEW + ALIKE + 50)
    assert {site.line: site.count for site in few.sites} == {1: MANY, 2: FEW, 3: ALIKE}
    of_line = {site.line: [sample["id"] for sample in site.samples] for site in few.sites}
    by_text = sorted(range(MANY), key=lambda number: json.dumps({"id": number}))
    assert of_line[1] == by_text[:SAMPLES]
    assert (of_line[2], of_line[3]) == ([*range(FEW)], [7] * SAMPLES)


@pytest.mark.parametrize("many", [50, MANY - 1])
def test_samples_of_many_errors_are_taken_from_some_of_them(
    quick_session: PySparkSession, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Also where all errors of a site are of equal rows, of which all or none are left."""
    few = counted(quick_session)
    monkeypatch.setattr(row_errors, "_FEW", 0)
    monkeypatch.setattr(row_errors, "_MANY", many)
    monkeypatch.setattr(row_errors, "_SORTED", 20)
    queries: list[str] = []
    asked = quick_session.rows

    def rows(sql: str, *arguments: object) -> object:
        queries.append(sql)
        return asked(sql, *arguments)

    monkeypatch.setattr(quick_session, "rows", rows)
    found = counted(quick_session)
    assert not any("COALESCE" in query for query in queries)
    assert sum("pmod" in query for query in queries) == 1
    assert (found.count, found.total) == (few.count, few.total)
    assert [(site.line, site.count) for site in found.sites] == [(site.line, site.count) for site in few.sites]
    for site, one in zip(found.sites, few.sites, strict=True):
        assert len(site.samples) == min(site.count, SAMPLES)
        if site.line != 1:
            assert site.samples == one.samples
    if many == MANY - 1:
        assert found.sites[0].samples != few.sites[0].samples

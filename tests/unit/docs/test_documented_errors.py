"""The queries of docs/errors.md: what the page says to be refused is refused, and what it advises is not."""

import re
from pathlib import Path

import pytest

from rivet_dagster.model.row_errors import ERROR_COLUMNS, NotSeparable
from rivet_dagster.sql.row_errors.error_query import QueryLocation
from rivet_dagster.sql.row_errors.separation import separate

PAGE = (Path(__file__).parents[3] / "docs/errors.md").read_text()


def rows_of(heading: str) -> list[list[str]]:
    """Return the rows of the first table behind a heading, without its header."""
    table = re.findall(r"(?:^\|.*\n)+", PAGE.partition(f"\n## {heading}\n")[2], re.MULTILINE)[0]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]]


def queries(cell: str) -> list[str]:
    return [code for code in re.findall(r"`([^`]+)`", cell) if code.startswith("SELECT ")]


REFUSED = rows_of("What is refused")


@pytest.mark.parametrize("row", REFUSED, ids=lambda row: row[0].partition(":")[0])
def test_the_refused_query_is_refused_and_what_replaces_it_is_not(row):
    refused, advised = row
    (query,) = queries(refused)
    assert isinstance(separate(query, QueryLocation("j")), NotSeparable)
    assert queries(advised) or "`on_error: fail`" in advised
    for query in queries(advised):
        assert not isinstance(separate(query, QueryLocation("j")), NotSeparable), query


def test_the_table_of_refusals_is_found():
    assert len(REFUSED) >= 15


def test_the_columns_of_an_error_table_are_listed_in_their_order():
    names = [name for row in rows_of("The error table") for name in re.findall(r"`(\w+)`", row[0])]
    assert names == sorted(ERROR_COLUMNS, key=names.index)
    assert set(names) == set(ERROR_COLUMNS)

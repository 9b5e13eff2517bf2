"""A source is looked up once in a run of a group, for the rows that are read and for the position that is recorded."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from support.tables import catalog

from rivet_dagster.catalogs.filesystem.sources import table_files
from rivet_dagster.execution.reading.sources import CurrentSource
from rivet_dagster.model.inputs import FilesPosition, UnknownPosition


@pytest.fixture
def lake(tmp_path: Path):
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/orders.csv").write_text("id\n1\n")
    return catalog(tmp_path, "lake")


@pytest.fixture
def listed(monkeypatch) -> list[str]:
    """The tables whose roots are looked up."""
    tables, roots = [], table_files.roots
    monkeypatch.setattr(
        table_files, "roots", lambda tree, table, format: tables.append(table) or roots(tree, table, format)
    )
    return tables


def source(lake, table: str = "orders.csv") -> CurrentSource:
    joint = SimpleNamespace(name="orders", catalog="lake", table=table, options={}, landing=False, file=None, line=None)
    return CurrentSource(SimpleNamespace(catalog=lambda name: lake), joint)


def test_relation_and_position_are_of_one_look(lake, listed):
    orders = source(lake)
    assert orders.position() == FilesPosition(lake.data_version("orders.csv", {}))
    listed.clear()
    relation = orders.relation()
    assert listed == []
    assert relation == lake.relation("orders.csv", {})


def test_rows_alone_take_one_look_and_a_later_position_is_that_of_then(lake, listed):
    orders = source(lake)
    assert orders.relation() is orders.relation()
    assert listed == ["orders.csv"]
    before = lake.data_version("orders.csv", {})
    (Path(lake.location.folder) / "orders.csv").write_text("id\n1\n2\n")
    assert orders.position() == FilesPosition(lake.data_version("orders.csv", {})) != FilesPosition(before)


def test_the_position_of_what_is_not_there_is_unknown(lake):
    assert source(lake, "nowhere.csv").position() == UnknownPosition()

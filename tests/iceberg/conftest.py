"""Fixtures: Iceberg catalogs of several kinds, and sessions of the one Spark that reach them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.iceberg import KINDS, declared, need_iceberg, session_with
from support.iceberg_runs import lake

from rivet_dagster.catalogs.iceberg.settings.connection import connect_catalog
from rivet_dagster.engines.pyspark import PySparkEngine
from rivet_dagster.engines.pyspark.session import PySparkSession

Declared = Mapping[str, Any]


@pytest.fixture
def iceberg_options(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], dict[str, Any]]:
    """Return a function that declares a catalog without tables, of one of ``KINDS``; its server starts when needed."""

    def options(kind: str) -> dict[str, Any]:
        servers = {"rest": "iceberg_rest", "postgres": "postgres", "nessie": "nessie"}
        needed = {kind: request.getfixturevalue(servers[kind])} if kind in servers else {}
        return declared(kind, tmp_path / kind, **needed)

    return options


@pytest.fixture(params=KINDS)
def each_kind(request: pytest.FixtureRequest, iceberg_options: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return the options of a catalog without tables, of each kind in turn."""
    return iceberg_options(request.param)


@pytest.fixture
def iceberg_session(application: PySparkEngine, tmp_path: Path) -> Iterator[Callable[..., PySparkSession]]:
    """Return a function that begins a session with Iceberg catalogs, ``iceberg_session(lake=options)``."""
    need_iceberg()
    with ExitStack() as sessions:
        yield lambda **catalogs: sessions.enter_context(session_with(catalogs, tmp_path))


@pytest.fixture
def place(tmp_path: Path) -> SimpleNamespace:
    """Return a catalog of folders, as we and as others open it."""
    options = declared("hadoop", tmp_path / "lake")
    plain = connect_catalog("plain", options, tmp_path)
    return SimpleNamespace(root=tmp_path, options=options, plain=plain, catalog=lake(options, tmp_path))

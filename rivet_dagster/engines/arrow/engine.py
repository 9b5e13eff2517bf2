"""The engine ``arrow``, and what it has in common with other engines that run no SQL of Spark's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from rivet_dagster.engines.contract import Engine
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.model.finding import Finding, in_order
from rivet_dagster.model.plugins import Wrong
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.relations import ArrowRows, Files, Kinds
from rivet_dagster.model.session_needs import SessionNeeds
from rivet_dagster.sql.plain_queries import PLAIN

if TYPE_CHECKING:
    from rivet_dagster.engines.arrow.session import ArrowSession


class ArrowEngine(Engine):
    """pyarrow in this process, which runs Python joints and copies. It has no options."""

    type: ClassVar[str] = "arrow"
    options: ClassVar[frozenset[str]] = frozenset()
    reads: ClassVar[Kinds] = frozenset({Files, ArrowRows})
    writes: ClassVar[Kinds] = frozenset({Files})
    dialect: ClassVar[str] = "arrow"

    @classmethod
    def sql_support(cls, spec: EngineSpec) -> str | None:
        """Return the list of plain queries."""
        return PLAIN

    @classmethod
    def refuses_table(
        cls, catalog: CatalogSpec, format: str | None, joint_options: Mapping[str, Any], is_written: bool
    ) -> Iterable[Wrong]:
        """Return RVT-328 for files of another format than Parquet."""
        if not is_written and format not in (None, "parquet"):
            message = f"reads Parquet, and no files of the format {format}"
            yield Wrong("RVT-328", "catalog", message, "Read the source on another engine, such as Spark or DuckDB.")

    @classmethod
    def on_this_machine(cls, spec: EngineSpec) -> bool:
        """Return True: it is a part of the process."""
        return True

    def __init__(
        self,
        spec: EngineSpec,
        connect: Callable[[], Any] | None = None,
        check_interrupt: Callable[[], None] | None = None,
        needs: Sequence[SessionNeeds] = (),
    ) -> None:
        refuse_wrong_options(type(self), f"engine '{spec.name}'", spec.options)
        self.name = spec.name
        self._check_interrupt = check_interrupt

    def session(self) -> ArrowSession:
        """Begin a session."""
        from rivet_dagster.engines.arrow.session import ArrowSession

        return ArrowSession(self._check_interrupt)

    def examine(self) -> Iterable[Finding]:
        """Return the version of pyarrow."""
        from importlib.metadata import version

        yield in_order(f"engine {self.name}", f"pyarrow {version('pyarrow')}")

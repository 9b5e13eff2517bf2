"""Sessions on Sail, which do by themselves what Sail does otherwise than Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rivet_dagster.engines.arrow_values import nullable
from rivet_dagster.engines.contract import Progress, WriteMode, cannot_read, cannot_write
from rivet_dagster.engines.pyspark.relations.files import refuse_unstorable
from rivet_dagster.engines.pyspark.results import arrow_schema
from rivet_dagster.engines.pyspark.sail.files import read_files, write
from rivet_dagster.engines.pyspark.sail.messages import line_of, sail_error
from rivet_dagster.engines.pyspark.session import PySparkSession
from rivet_dagster.engines.translated_queries import translate_query
from rivet_dagster.errors import RivetError
from rivet_dagster.model.relations import ArrowRows, Files, Relation
from rivet_dagster.model.storage import Projection
from rivet_dagster.sql.generated_statements import GeneratedStatement

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from rivet_dagster.engines.kept_translations import KeptTranslations

_OF_SOURCE = "Correct the source's `options`, `columns` or `filter`, or its files."


class SailSession(PySparkSession):
    """A session on Sail: views whose names differ in letter case alone are one, as in Spark."""

    queries_at_once = 1

    kept: KeptTranslations | None = None
    """The translations of earlier processes."""

    def load(self, relation: Relation, projection: Projection | None = None) -> DataFrame:
        """Return a frame that reads ``relation`` in place. Raises RVT-519 for what Sail reads otherwise than Spark."""
        if isinstance(relation, ArrowRows):
            return super().load(relation, projection)
        if not isinstance(relation, Files):
            raise cannot_read("pyspark on Sail", relation)
        return self._run(lambda: self._adapter.analyzed(read_files(self.spark, relation, projection)), None, _OF_SOURCE)

    def load_separated(self, relation: Relation, projection: Projection | None = None) -> None:
        """Return None: errors of rows are not separated."""
        return None

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> DataFrame:
        """Return the lazy result of ``sql``, which is translated. Raises RVT-329."""
        with _at_line_of(sql):
            return super().query(self._with_sparks_rows(sql, parameters), parameters)

    def rows(
        self, sql: str, parameters: Mapping[str, Any] | None = None, timeout: float | None = None
    ) -> list[dict[str, Any]]:
        """Return rows as dictionaries; timestamps have a time zone. Raises RVT-329."""
        with _at_line_of(sql):
            return super().rows(self._with_sparks_rows(sql, parameters), parameters, timeout)

    def observe(self, frame: DataFrame, conditions: Sequence[str]) -> None:
        """Return None: Sail observes nothing in a write."""
        return

    def write(
        self,
        frame: DataFrame,
        target: Relation,
        progress: Callable[[Progress], None] | None = None,
        split_by: str | None = None,
        mode: WriteMode = "append",
    ) -> None:
        """Write the rows into files. Raises RVT-316 for columns of the same name."""
        if not isinstance(target, Files) or mode != "append":
            raise cannot_write("pyspark on Sail", target)

        def act() -> None:
            refuse_unstorable(frame)
            write(frame, target, split_by)

        self._run(act, progress=progress)

    def union_by_name(self, frames: Sequence[DataFrame]) -> DataFrame:
        """Return all rows of ``frames``. Raises RVT-503 for other columns than those of the first."""
        first, *others = [[name.lower() for name in frame.columns] for frame in frames]
        for names in others:
            if sorted(names) != sorted(first):
                message = f"a union by name of the columns {', '.join(first)} with {', '.join(names)}"
                raise RivetError("RVT-503", message)
        return super().union_by_name(frames)

    def to_arrow(self, frame: DataFrame) -> pa.Table:
        """Return all rows with the types of the schema, or of the rows where that has none.

        Sail's schema of a UNION has the type of its first query alone, which is none of a NULL.
        """
        import pyarrow as pa

        def collect() -> pa.Table:
            declared = nullable(arrow_schema(frame.schema))
            batches = list(self._adapter.batches(frame))
            if not batches:
                return declared.empty_table()
            given = nullable(batches[0].schema)
            fields = [
                own if pa.types.is_null(field.type) else field for field, own in zip(declared, given, strict=True)
            ]
            rows = pa.Table.from_batches(batches)
            return rows.cast(given).cast(pa.schema(fields))

        rows: pa.Table = self._run(collect)
        return rows

    def expect_few_rows(self) -> None:
        """Do nothing: Sail computes a query of few rows at once."""
        return

    def _with_sparks_rows(self, sql: str, parameters: Mapping[str, Any] | None) -> str:
        """Return a query that has Spark's rows on Sail. Raises RVT-329 where that is not proven."""
        if isinstance(sql, GeneratedStatement):
            return sql
        tables = {self._names[key]: self.columns(frame) for key, frame in self._views.frames().items()}
        try:
            return translate_query(sql, "Sail", tables, parameters or {}, self.kept)
        except RivetError:
            # Where it names what does not exist, no other SQL would help: then that is the error.
            super().query(sql, parameters)
            raise

    def _bind(self, name: str, frame: DataFrame) -> None:
        super()._bind(self._names.setdefault(name.lower(), name), frame)

    def _unbind(self, name: str) -> None:
        super()._unbind(self._names.pop(name.lower(), name))

    def _error(self, error: Exception, remediation: str | None) -> RivetError | None:
        return sail_error(error, remediation)


@contextmanager
def _at_line_of(sql: str) -> Iterator[None]:
    """Give errors in the block the line of ``sql`` that Sail tells by the numbers of its bytes."""
    try:
        yield
    except RivetError as error:
        first = error.diagnostics[0]
        line = line_of(sql, first.message) if first.line is None else None
        if line is None:
            raise
        message = re.sub(r" at \d+:\d+", "", first.message)
        raise RivetError(first.code, message, line=line, remediation=first.remediation) from error.__cause__

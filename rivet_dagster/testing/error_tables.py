"""The tests of the conformance suite of catalogs that publish error tables; others skip them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest

from rivet_dagster.catalogs.capabilities.targets import HasErrorTables, HasTargets, HasVersions, VersionTransaction
from rivet_dagster.catalogs.parquet_rows import no_errors
from rivet_dagster.engines.contract import EngineSession
from rivet_dagster.errors import NotFound, RivetError
from rivet_dagster.model.relations import Relation
from rivet_dagster.model.row_errors import ERROR_COLUMNS, ERROR_TYPES, SUFFIX
from rivet_dagster.model.storage import Published
from rivet_dagster.model.write_plan import Append, ReplaceAll
from rivet_dagster.testing.tables import TABLE, fill, rows_of, write

ERRORS = f"{TABLE}{SUFFIX}"

COLUMNS = [*ERROR_TYPES.items()]


class ErrorTableConformance:
    """The tests of ``HasErrorTables``."""

    @pytest.fixture
    def with_errors(self, catalog: HasTargets) -> HasErrorTables:
        """The catalog of a test, if it has the capability."""
        if not isinstance(catalog, HasErrorTables):
            pytest.skip("it has no error tables")
        return catalog

    def test_errors_are_seen_when_the_version_is_committed(
        self, with_errors: HasErrorTables, session: EngineSession
    ) -> None:
        """Not before: readers see the old rows and the old errors until then."""
        old = _publish(with_errors, session, 1, ["one"])
        with with_errors.begin(TABLE, session) as transaction:
            fill(transaction, session, ReplaceAll(), [(2, "b", 2)])
            stored = transaction.write_errors(ERRORS, session.from_value(errors(["two", "three"])))
            assert (read_errors(session, stored.relation), stored.statistics.rows) == (["three", "two"], 2)
            assert errors_seen(with_errors, session) == ["one"]
            new = transaction.commit("two")
        assert errors_seen(with_errors, session) == ["three", "two"]
        assert _of(with_errors, session, new) == ["three", "two"]
        if with_errors.keeps_versions:
            assert _of(with_errors, session, old) == ["one"]
        assert rows_of(with_errors, session) == [(2, "b", 2)]
        assert new.statistics.rows == 1

    def test_an_error_table_is_described_without_an_engine(
        self, with_errors: HasErrorTables, session: EngineSession
    ) -> None:
        """It can be read by its own name, as a source of another project is."""
        _publish(with_errors, session, 1, ["one"])
        columns = with_errors.columns(ERRORS, {})
        if columns is not None:
            assert [(field.name, field.type or kind) for field, (_, kind) in zip(columns, COLUMNS, strict=True)] == (
                COLUMNS
            )
        assert session.columns(session.load(with_errors.relation(ERRORS, {}))) == tuple(COLUMNS)
        data_version = with_errors.data_version(ERRORS, {})
        assert with_errors.data_version(ERRORS, {}) == data_version
        _publish(with_errors, session, 1, ["two"])
        assert with_errors.data_version(ERRORS, {}) != data_version
        assert with_errors.current(ERRORS) is None

    def test_aborted_errors_leave_nothing(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """Neither for a new table nor for one that has errors."""
        for before in (None, ["one"]):
            transaction = with_errors.begin(TABLE, session)
            fill(transaction, session, ReplaceAll(), [(2, "b", 2)])
            transaction.write_errors(ERRORS, session.from_value(errors(["two"])))
            transaction.abort()
            assert errors_seen(with_errors, session) == before
            _publish(with_errors, session, 1, ["one"])

    def test_an_error_table_without_rows(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """It has the columns of error tables, whether an engine has written it or not."""
        for frame in (None, session.from_value(errors([]))):
            with with_errors.begin(TABLE, session) as transaction:
                fill(transaction, session, ReplaceAll(), [(1, "a", 1)])
                stored = transaction.write_errors(ERRORS, frame)
                assert stored.statistics.rows == 0
                published = transaction.commit("run")
            assert session.columns(session.load(with_errors.relation(ERRORS, {}))) == tuple(COLUMNS)
            assert errors_seen(with_errors, session) == _of(with_errors, session, published) == []

    def test_errors_of_several_calls_are_one_table(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """What has been written can be read to compute the next ones."""
        with with_errors.begin(TABLE, session) as transaction:
            fill(transaction, session, ReplaceAll(), [(1, "a", 1)])
            first = transaction.write_errors(ERRORS, session.from_value(errors(["one"])))
            whole = transaction.write_errors(ERRORS, session.load(first.relation))
            assert (whole.statistics.rows, read_errors(session, first.relation)) == (2, ["one"])
            transaction.commit("run")
        assert errors_seen(with_errors, session) == ["one", "one"]

    def test_a_version_without_error_table_has_none(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """Readers find no table, and the older version keeps its own."""
        first = _publish(with_errors, session, 1, ["one"])
        second = write(with_errors, session, ReplaceAll(), [(2, "b", 2)], "two")
        assert with_errors.errors_of(second) is None
        assert errors_seen(with_errors, session) is None
        if with_errors.keeps_versions:
            assert _of(with_errors, session, first) == ["one"]
        _publish(with_errors, session, 3, ["three"])
        assert errors_seen(with_errors, session) == ["three"]

    def test_an_error_table_of_another_name(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """The old name is free then."""
        _publish(with_errors, session, 1, ["one"])
        _publish(with_errors, session, 2, ["two"], "rejected")
        assert [errors_seen(with_errors, session, name) for name in (ERRORS, "rejected")] == [None, ["two"]]

    def test_a_reader_of_errors_finishes_with_them(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """After another version has been published."""
        if not with_errors.keeps_versions:
            pytest.skip("it keeps the current version alone")
        _publish(with_errors, session, 1, ["one"])
        frame = session.load(with_errors.relation(ERRORS, {}))
        _publish(with_errors, session, 2, ["two"])
        assert _messages(session.to_arrow(frame)) == ["one"]

    def test_who_is_overtaken_publishes_no_errors(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """Rows and errors are those of the other run."""
        with with_errors.begin(TABLE, session) as slow:
            fill(slow, session, Append(), [(1, "a", 1)])
            slow.write_errors(ERRORS, session.from_value(errors(["slow"])))
            _publish(with_errors, session, 2, ["fast"])
            with pytest.raises(RivetError) as caught:
                slow.commit("slow")
        assert caught.value.code == "RVT-405"
        assert errors_seen(with_errors, session) == ["fast"]

    def test_another_table_is_no_error_table(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """Neither a published table, nor the table itself, nor the error table of another one."""
        _publish(with_errors, session, 1, ["one"])
        for name in (TABLE, "other", ERRORS):
            with pytest.raises(RivetError) as caught:
                _publish(with_errors, session, 1, ["two"], name, table="other")
            assert caught.value.code == "RVT-404"
        assert errors_seen(with_errors, session) == ["one"]
        assert with_errors.current("other") is None

    def test_the_errors_of_an_evicted_table_are_gone(self, with_errors: HasErrorTables, session: EngineSession) -> None:
        """With all of its versions."""
        published = _publish(with_errors, session, 1, ["one"])
        with_errors.evict(published)
        assert errors_seen(with_errors, session) is None
        with pytest.raises(RivetError) as caught:
            with_errors.errors_of(published)
        assert caught.value.code == "RVT-401"

    def test_an_older_version_comes_back_with_its_errors(
        self, with_errors: HasErrorTables, session: EngineSession
    ) -> None:
        """A rollback publishes both."""
        if not isinstance(with_errors, HasVersions) or not with_errors.keeps_versions:
            pytest.skip("it has no versions")
        first = _publish(with_errors, session, 1, ["one"])
        write(with_errors, session, ReplaceAll(), [(2, "b", 2)], "two")
        with with_errors.restage(TABLE, first.version) as transaction:
            transaction.commit("rollback")
        assert (rows_of(with_errors, session), errors_seen(with_errors, session)) == ([(1, "a", 1)], ["one"])

    def test_a_withheld_version_is_published_with_its_errors(
        self, with_errors: HasErrorTables, session: EngineSession
    ) -> None:
        """They are not seen before."""
        if not isinstance(with_errors, HasVersions):
            pytest.skip("it has no versions")
        _publish(with_errors, session, 1, ["one"])
        with with_errors.begin(TABLE, session) as transaction:
            assert isinstance(transaction, VersionTransaction)
            fill(transaction, session, ReplaceAll(), [(2, "b", 2)])
            transaction.write_errors(ERRORS, session.from_value(errors(["two"])))
            transaction.withhold("run")
        assert errors_seen(with_errors, session) == ["one"]
        with with_errors.take_up(TABLE, transaction.version) as taken_up:
            taken_up.commit("by hand")
        assert (rows_of(with_errors, session), errors_seen(with_errors, session)) == ([(2, "b", 2)], ["two"])


def _publish(
    catalog: HasErrorTables,
    session: EngineSession,
    number: int,
    messages: Sequence[str],
    name: str = ERRORS,
    table: str = TABLE,
) -> Published:
    """Publish one row and these errors."""
    with catalog.begin(table, session) as transaction:
        fill(transaction, session, ReplaceAll(), [(number, "a", number)])
        transaction.write_errors(name, session.from_value(errors(messages)))
        return transaction.commit(f"run {number}")


def errors(messages: Sequence[str]) -> pa.Table:
    """Return errors with these messages; a file, a line and a key are not always known."""
    schema = no_errors().schema
    rows = [dict.fromkeys(ERROR_COLUMNS[:3], "x") | {"message": message} for message in messages]
    return pa.Table.from_pylist(rows, schema)


def errors_seen(catalog: HasErrorTables, session: EngineSession, name: str = ERRORS) -> list[str] | None:
    """Return the messages that readers of the error table see; None if there is no such table."""
    try:
        return read_errors(session, catalog.relation(name, {}))
    except NotFound:
        return None


def _of(catalog: HasErrorTables, session: EngineSession, published: Published) -> list[str] | None:
    relation = catalog.errors_of(published)
    return None if relation is None else read_errors(session, relation)


def read_errors(session: EngineSession, relation: Relation) -> list[str]:
    """Return the messages of errors, in order."""
    return _messages(session.to_arrow(session.load(relation)))


def _messages(table: pa.Table) -> list[str]:
    return sorted(table["message"].to_pylist())

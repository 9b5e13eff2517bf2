"""What others change of a table, or of what a run has staged, between the beginning of a version and its commit."""

import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from support.iceberg_publications import publish, runtime, stage
from support.iceberg_runs import APPEND, NAMESPACE, TABLE, Work, expire_heartbeats, run, written
from support.tables import refused
from support.torture import TORTURE

from rivet_dagster.catalogs.iceberg.hadoop.hadoop_catalog import HadoopCatalog

NAME = (NAMESPACE, TABLE)
OLD = Work([1, 2], 1, identity="old/orders", options={"partitioned_by": ["id"]})
APPENDED = Work([3], 2, plan=APPEND, identity="new/orders", options=OLD.options)
ADDED = Work([3], 2, adds=True, identity="new/orders", options=OLD.options)


def adds_a_column(plain) -> None:
    with plain.load_table(NAME).update_schema() as schema:
        schema.add_column("gdpr_class", StringType())


def adds_a_column_for_a_moment(plain) -> None:
    """Add a column, whose id is then taken, and drop it."""
    adds_a_column(plain)
    with plain.load_table(NAME).update_schema() as schema:
        schema.delete_column("gdpr_class")


def renames_a_column(plain) -> None:
    with plain.load_table(NAME).update_schema() as schema:
        schema.rename_column("net", "net_amount")


def changes_the_partitions(plain) -> None:
    """Partition by another column, whose values have the same type."""
    with plain.load_table(NAME).update_spec() as spec:
        spec.remove_field("id")
        spec.add_field("net", IdentityTransform(), "by_net")


def makes_the_table_anew(plain) -> None:
    """Drop the table and make another one of that name, without rows."""
    schema = plain.load_table(NAME).schema()
    plain.drop_table(NAME)
    plain.create_table(NAME, schema)


CHANGES = [
    adds_a_column, adds_a_column_for_a_moment, renames_a_column, changes_the_partitions, makes_the_table_anew
]  # fmt: skip
STEPS = ["written", "committing"]


def seen(place) -> tuple:
    """Return the columns, the partitions and the rows of the table."""
    found = place.plain.load_table(NAME)
    rows = sorted(tuple(row.values()) for row in found.scan().to_arrow().to_pylist())
    fields = [(field.field_id, field.name) for field in found.schema().fields]
    return found.metadata.table_uuid, fields, [str(field) for field in found.spec().fields], rows


def changing_at(place, monkeypatch, step: str, change) -> list:
    """Have somebody change the table at a step of a run; return a list that then has the table as it is left."""
    left = []

    def happens() -> None:
        if not left:
            change(place.plain)
            left.append(seen(place))

    if step == "written":
        happens()
        return left
    commit = HadoopCatalog.commit_table

    def commit_table(catalog, table, requirements, updates):
        refs = [update.ref_name for update in updates if update.action == "set-snapshot-ref"]
        if table.name()[-1] == TABLE and "main" in refs:
            happens()
        return commit(catalog, table, requirements, updates)

    monkeypatch.setattr(HadoopCatalog, "commit_table", commit_table)
    return left


@pytest.mark.nightly(but=6)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("work", [APPENDED, ADDED])
def test_a_table_that_somebody_changes_during_a_run_is_not_published(place, monkeypatch, work, change, step):
    """The run is told to compute its rows again; what the other one has changed stays."""
    run(place.catalog, OLD, place.root)
    transaction = written(place.catalog, work, place.root)
    left = changing_at(place, monkeypatch, step, change)
    error = refused(transaction.commit, work.identity)
    # The folder of a table that is dropped has the heartbeat.
    assert error.code == "RVT-405" or (error.code == "RVT-406" and change is makes_the_table_anew), error
    transaction.abort()
    assert left == [seen(place)]
    assert {*place.plain.load_table(NAME).metadata.refs} <= {"main"}
    assert [*place.plain.list_tables(NAMESPACE)] == [NAME]
    if work is APPENDED and change not in (renames_a_column, adds_a_column):
        run(place.catalog, work.having(options={}), place.root)
        ids = place.plain.load_table(NAME).scan(row_filter="id = 3").to_arrow()["id"].to_pylist()
        assert ids == [3]


@pytest.mark.parametrize("change", CHANGES if TORTURE else [renames_a_column, changes_the_partitions])
@pytest.mark.parametrize("adds", [False, True])
def test_nor_is_one_that_is_staged_for_the_last_step(place, change, adds):
    project = runtime(place.options, place.root, TABLE)
    publish(project, [stage(project, TABLE, 1, "old")])
    with place.plain.load_table(NAME).update_spec() as spec:
        spec.add_field("id", IdentityTransform(), "id")
    staged = [stage(project, TABLE, 2, "new", adds=adds)]
    change(place.plain)
    left = seen(place)
    assert refused(publish, project, staged).code in ("RVT-405", "RVT-418")
    assert seen(place) == left


@pytest.mark.parametrize("work", [APPENDED, ADDED])
@pytest.mark.parametrize("change", CHANGES if TORTURE else [adds_a_column, changes_the_partitions])
def test_nor_is_one_that_is_withheld(place, change, work):
    run(place.catalog, OLD, place.root)
    run(place.catalog, work.having(end="withhold"), place.root)
    change(place.plain)
    left = seen(place)
    for version in place.catalog.versions(TABLE):
        if version.state == "withheld":
            with place.catalog.take_up(TABLE, version.name) as transaction:
                assert refused(transaction.commit, "by hand").code == "RVT-405"
                transaction.withhold()
    assert seen(place) == left


def test_files_are_published_under_the_partitions_by_which_they_were_staged(place):
    """Though whoever publishes a withheld version does not declare them."""
    run(place.catalog, Work([1, 2], 7, identity="old/orders"), place.root)
    work = Work([5, 6], 100, identity="new/orders", options={"partitioned_by": ["net"]}, end="withhold")
    run(place.catalog, work, place.root)
    (version,) = [each.name for each in place.catalog.versions(TABLE) if each.state == "withheld"]
    with place.catalog.take_up(TABLE, version) as transaction:
        transaction.commit("by hand")
    found = place.plain.load_table(NAME)
    assert [field.name for field in found.spec().fields] == ["net"]
    assert sorted(found.scan(row_filter="net = 100").to_arrow()["id"].to_pylist()) == [5, 6]
    assert found.scan(row_filter="net = 7").to_arrow()["id"].to_pylist() == []


def test_a_table_that_somebody_makes_during_the_first_run_stays(place):
    transaction = written(place.catalog, Work([3], 2), place.root)
    place.plain.create_table(NAME, Schema(NestedField(1, "other", StringType())))
    left = seen(place)
    assert refused(transaction.commit, "run/orders").code == "RVT-405"
    transaction.abort()
    assert seen(place) == left


def test_not_nulls_and_identifier_fields_of_another_tool_stay(place):
    place.plain.create_namespace_if_not_exists(NAMESPACE)
    fields = [
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "net", IntegerType(), required=True),
        NestedField(3, "note", StringType()),
    ]
    place.plain.create_table(NAME, Schema(*fields, identifier_field_ids=[1]))
    run(place.catalog, ADDED.having(options={}), place.root)
    found = place.plain.load_table(NAME)
    wanted = {"id": ("long", True), "net": ("long", True), "more": ("long", False)}
    assert {field.name: (str(field.field_type), field.required) for field in found.schema().fields} == wanted
    assert found.schema().identifier_field_names() == {"id"}
    assert found.scan().to_arrow()["id"].to_pylist() == [3]


# What was judged


def unjudged(place, kind: str) -> None:
    """Append a row to what runs have staged, to branches or to staging tables."""
    for name in place.plain.list_tables(NAMESPACE):
        table = place.plain.load_table(name)
        row = pa.table({"id": [666], "net": [666]})
        row = row.append_column("more", row["net"]) if "more" in table.schema().column_names else row
        if "__rivet_" in name[-1] and kind == "staging table":
            table.append(row)
        for ref in table.metadata.refs.keys() - {"main"}:
            if kind == "branch":
                table.append(row, branch=ref)


@pytest.mark.parametrize("work", [APPENDED, ADDED, ADDED.having(adds=False, identity="first/orders")])
@pytest.mark.parametrize("end", ["commit", "withhold", "stage"])
def test_only_what_was_judged_is_published(place, work, end):
    is_first = work.identity == "first/orders"
    kind = "branch" if work is APPENDED else "staging table"
    if not is_first:
        run(place.catalog, OLD, place.root)
    transaction = written(place.catalog, work, place.root)
    publishes = transaction
    if end == "withhold":
        transaction.withhold(work.identity)
    elif end == "stage":
        transaction.stage(work.identity)
    unjudged(place, kind)
    if end == "withhold":
        publishes = place.catalog.take_up(TABLE, transaction.version)
    elif end == "stage":
        publishes = place.catalog.take_up_staged(TABLE, transaction.version, work.options)
    assert publishes.whole.statistics.rows == (3 if work is APPENDED else 1)
    assert refused(publishes.commit, work.identity).code == "RVT-407"
    publishes.abort()
    expire_heartbeats(place.root)
    place.catalog.sweep()
    assert place.plain.table_exists(NAME) != is_first
    assert is_first or [row[0] for row in seen(place)[-1]] == [1, 2]

"""Values of other Dagster assets: stored by the IO manager, and loaded by assets and joints."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs as classes.

import dagster as dg
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from support.folders import MANIFEST, WORKSPACE, in_order
from support.plain_assets import IO_MANAGER, READS, error_of, noting, only, returning, run, stored_rows

from rivet_dagster import MaterializedRef, load_definitions
from rivet_dagster.model.external_assets import external_table

ROWS = [{"id": 1, "name": "ada"}, {"id": 2, "name": None}]


def spark_frame(rows):
    return SparkSession.builder.getOrCreate().createDataFrame(rows)


def batches():
    table = pa.Table.from_pylist(ROWS)
    return pa.RecordBatchReader.from_batches(table.schema, iter(table.to_batches(max_chunksize=1)))


def broken_reader():
    """Return a reader that fails after half of its rows."""
    schema = pa.schema([("id", pa.int64())])

    def batches():
        yield pa.record_batch({"id": [1]}, schema)
        raise ValueError("the second batch is missing")

    return pa.RecordBatchReader.from_batches(schema, batches())


KINDS = {
    "a pyarrow table": lambda: pa.Table.from_pylist(ROWS),
    "a pyarrow reader": batches,
    "a pandas frame": lambda: pd.DataFrame(ROWS),
    "a polars frame": lambda: pl.DataFrame(ROWS),
    "a lazy polars frame": lambda: pl.DataFrame(ROWS).lazy(),
    "a Spark frame": lambda: spark_frame(ROWS),
}


@pytest.mark.nightly(but=1)
@pytest.mark.parametrize("value", KINDS.values(), ids=KINDS)
def test_returned_rows_are_read_by_assets_and_joints(project, instance, value):
    shop, seen = project(READS), []
    result = run(shop.root, instance, returning(value), noting(pa.Table, seen))
    assert result.success
    assert stored_rows(shop) == in_order(ROWS)
    assert in_order(seen[0].to_pylist()) == in_order(ROWS)
    assert shop.rows("report") == [{"id": 1, "name": "ADA"}, {"id": 2, "name": None}]
    (event,) = result.asset_materializations_for_node("shop__raw")
    facts = {key: value.value for key, value in event.metadata.items()}
    assert facts["dagster/row_count"] == 2
    assert facts["dagster/uri"] == (shop.root / WORKSPACE / external_table(["shop", "raw"])).as_uri()
    assert facts["rivet/bytes"] > 100
    assert [(c.name, c.type) for c in facts["dagster/column_schema"].columns] == [("id", "bigint"), ("name", "string")]


def test_a_chain_of_plain_assets_and_joints_passes_rows_on(project, instance):
    shop, seen = project(READS), []

    @dg.asset(ins={"rows": dg.AssetIn("names")}, io_manager_key=IO_MANAGER)
    def louder(rows: MaterializedRef):
        return rows

    @dg.asset(ins={"rows": dg.AssetIn("louder")}, io_manager_key=IO_MANAGER)
    def lazily(rows: DataFrame):
        return rows.selectExpr("id + 1 AS id", "name")

    shop.write({"joints/names.sql": "-- rivet:eager: true\nSELECT id, upper(name) AS name FROM raw"})
    reader = noting(pd.DataFrame, seen, ["lazily"])
    assert run(shop.root, instance, returning(pl.DataFrame(ROWS)), louder, lazily, reader).success
    assert in_order(seen[0].to_dict("records")) == [{"id": 2, "name": "ADA"}, {"id": 3, "name": None}]


def test_an_empty_result_has_columns(project, instance):
    shop, seen = project(READS), []
    empty = pa.table({"id": pa.array([], pa.int64()), "name": pa.array([], pa.string())})
    assert run(shop.root, instance, returning(empty), noting(pl.DataFrame, seen)).success
    assert dict(seen[0].schema) == {"id": pl.Int64, "name": pl.String}
    assert shop.rows("report") == []


@pytest.mark.parametrize(
    ("value", "code", "text"),
    [
        (lambda: 1, "RVT-505", "the asset returned a builtins.int"),
        (lambda: None, "RVT-505", "the asset returned nothing"),
        (lambda: pa.table({"a": [1], "A": [2]}), "RVT-316", "several columns are called a"),
        (lambda: pd.DataFrame({"a": [None, None]}), "RVT-503", "a: a column that is nothing but NULL"),
        (lambda: pd.DataFrame({"a": [1, "x"]}), "RVT-505", "could not be converted"),
        (lambda: pa.table({"a": pa.array([1], pa.decimal256(40))}), "RVT-505", "more than the 38 digits"),
        (lambda: broken_reader(), "RVT-505", "the second batch is missing"),
    ],
)
def test_values_that_cannot_be_stored_are_rejected_and_the_old_rows_stay(project, instance, value, code, text):
    shop = project({})
    run(shop.root, instance, returning(pl.DataFrame(ROWS)))
    versions = shop.versions(external_table(["shop", "raw"]), WORKSPACE)
    result = run(shop.root, instance, returning(value), raise_on_error=False)
    assert code in error_of(result)
    assert text in error_of(result)
    assert stored_rows(shop) == in_order(ROWS)
    assert shop.versions(external_table(["shop", "raw"]), WORKSPACE) == versions


def test_an_asset_annotated_with_none_stores_nothing(project, instance):
    @dg.asset(io_manager_key=IO_MANAGER)
    def silent() -> None: ...

    @dg.asset(io_manager_key=IO_MANAGER)
    def telling():
        return dg.MaterializeResult(metadata={"n": 1})

    shop = project({})
    assert run(shop.root, instance, silent, telling).success
    assert not (shop.root / WORKSPACE).exists()


def test_values_between_ops_are_not_stored(project, instance):
    @dg.op(out=dg.Out(io_manager_key=IO_MANAGER))
    def first():
        return pl.DataFrame(ROWS)

    @dg.job
    def ops():
        first()

    shop = project({})
    definitions = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(jobs=[ops]))
    result = definitions.resolve_job_def("ops").execute_in_process(instance=instance, raise_on_error=False)
    assert "RVT-412" in error_of(result)


def test_reading_an_asset_that_was_never_materialized_fails_with_its_key(project, instance):
    shop, seen = project(READS), []
    raw = returning(pl.DataFrame(ROWS))
    for selection in (only("reader"), only("report")):
        result = run(shop.root, instance, raw, noting(pa.Table, seen), selection=selection, raise_on_error=False)
        assert "RVT-401" in error_of(result)
        assert "the asset shop/raw has never been materialized" in error_of(result)


@pytest.mark.nightly(but=2)
@pytest.mark.parametrize("key", [["..", "..", "etc/x"], ["ümläut", "a b"], ["NAMES"], ["x" * 300], [".rivet"]])
def test_any_asset_key_has_a_table_in_the_workspace(project, instance, key):
    shop, seen = project({**READS, "joints/names.sql": "-- rivet:eager: true\nSELECT 7 AS n"}), []

    @dg.multi_asset(outs={"odd": dg.AssetOut(key=dg.AssetKey(key), io_manager_key=IO_MANAGER)})
    def odd():
        return pa.table({"n": [1]})

    chosen = dg.AssetSelection.assets(key, "reader", "names")
    assert run(shop.root, instance, odd, noting(pa.Table, seen, key), selection=chosen).success
    assert seen[0].to_pydict() == {"n": [1]}
    assert shop.rows("names", WORKSPACE) == [{"n": 7}]
    assert {path.name for path in (shop.root / WORKSPACE).iterdir()} == {".rivet", "names", external_table(key)}
    assert {path.name for path in shop.root.iterdir()} <= {
        ".rivet", "data", "joints", "profiles.yaml", "rivet.yaml", "sinks", "sources"
    }  # fmt: skip


@pytest.mark.nightly
def test_transforms_of_the_source_and_checks_on_it_work(project, instance):
    shop = project({
        **READS,
        "sources/raw.yaml": {
            "type": "source", "catalog": "dagster", "table": "shop/raw", "columns": {"id": "id * 10", "name": "name"},
            "filter": "id < 3", "quality": {"assertions": [{"type": "not_null", "columns": ["name"]}]},
        },
    })  # fmt: skip
    good = pa.table({"id": [1, 2, 3], "name": ["ada", "bob", None]})
    assert run(shop.root, instance, returning(good)).success
    assert shop.rows("report") == [{"id": 10, "name": "ADA"}, {"id": 20, "name": "BOB"}]
    bad = pa.table({"id": [1], "name": pa.array([None], pa.string())})
    result = run(shop.root, instance, returning(bad), raise_on_error=False)
    assert not result.success
    assert [e.passed for e in result.get_asset_check_evaluations()] == [False]
    assert shop.rows("report") == [{"id": 10, "name": "ADA"}, {"id": 20, "name": "BOB"}]
    # A run of the reader alone checks it, too.
    result = run(shop.root, instance, returning(bad), selection=only("names", "report"), raise_on_error=False)
    assert "RVT-507" in error_of(result)


def test_a_view_on_an_external_asset_with_a_limit(project, instance):
    shop, seen = project({**READS, "sources/raw.yaml": {**READS["sources/raw.yaml"], "limit": 1}}), []
    run(shop.root, instance, returning(pl.DataFrame(ROWS)), noting(pa.Table, seen, ["names"]))
    assert len(seen[0]) == 1
    assert len(shop.rows("report")) == 1


def test_a_custom_io_manager_key_and_a_key_prefix_work(project, instance):
    settings = {"io_manager_key": "shop_io", "key_prefix": "mine"}
    shop = project({**READS, "rivet.yaml": MANIFEST | {"dagster": settings}})

    @dg.asset(key=["shop", "raw"], io_manager_key="shop_io")
    def plain():
        return pl.DataFrame(ROWS)

    assert run(shop.root, instance, plain).success
    assert len(shop.rows("report")) == 2
    spec = load_definitions(shop.root).resolve_asset_graph().get(dg.AssetKey(["mine", "names"]))
    assert spec.parent_keys == {dg.AssetKey(["shop", "raw"])}


def test_external_assets_are_stored_in_the_declared_workspace(project, instance):
    shop = project({})
    profiles = (shop.root / "profiles.yaml").read_text()
    shop.write({"profiles.yaml": profiles + "  workspace: lake\n"})
    run(shop.root, instance, returning(pl.DataFrame(ROWS)))
    assert shop.rows(external_table(["shop", "raw"])) == in_order(ROWS)


def test_a_retry_stores_nothing_twice(project, instance):
    shop, tries = project({}), []

    @dg.multi_asset(
        outs={"one": dg.AssetOut(io_manager_key=IO_MANAGER), "two": dg.AssetOut(io_manager_key=IO_MANAGER)},
        retry_policy=dg.RetryPolicy(max_retries=1),
    )
    def both():
        tries.append(1)
        yield dg.Output(pl.DataFrame({"try": [len(tries)]}), "one")
        if len(tries) == 1:
            raise ValueError("not yet")
        yield dg.Output(pl.DataFrame({"try": [len(tries)]}), "two")

    assert run(shop.root, instance, both).success
    assert stored_rows(shop, ["one"]) == [{"try": 1}]
    assert stored_rows(shop, ["two"]) == [{"try": 2}]
    versions = [name for name in shop.versions(external_table(["one"]), WORKSPACE) if "." not in name]
    assert len(versions) == 1
    run(shop.root, instance, both)
    assert stored_rows(shop, ["one"]) == [{"try": 3}]

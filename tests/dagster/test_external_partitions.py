"""Partitions of other Dagster assets: stored separately, and read alone, several together or all."""

import dagster as dg
import pandas as pd
import pyarrow as pa
import pytest
from support.folders import WORKSPACE, sink, source
from support.plain_assets import DAYS, READS, daily, error_of, noting, only, returning, run

from rivet_dagster import compile_directory, load_definitions
from rivet_dagster.definitions.partitions import definition_text
from rivet_dagster.model.external_assets import Part, external_table

COLOURS = dg.StaticPartitionsDefinition(["red", "green"])
BOTH = dg.MultiPartitionsDefinition({"day": DAYS, "colour": COLOURS})
BY_DAY = {"type": "daily", "column": "day", "start": "2024-01-01", "end": "2024-01-05"}


def rows_of(seen):
    return sorted((row["day"], row["made"]) for row in seen[-1].to_pylist())


def link(shop, key, partitions=DAYS):
    return (shop.root / WORKSPACE / external_table(["shop", "raw"], Part(key, definition_text(partitions)))).resolve()


def test_each_partition_is_stored_and_replaced_separately(project, instance):
    shop, seen = project({}), []
    asset, reader = daily(), noting(pa.Table, seen)
    for day in ("2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04"):
        run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition=day)
    before = {day: link(shop, day) for day in ("2024-01-01", "2024-01-02", "2024-01-03")}
    run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition="2024-01-02")
    after = {day: link(shop, day) for day in before}
    assert [day for day in before if before[day] != after[day]] == ["2024-01-02"]
    run(shop.root, instance, asset, reader, selection=only("reader"))
    assert rows_of(seen) == [("2024-01-01", 1), ("2024-01-02", 2), ("2024-01-03", 1), ("2024-01-04", 1)]
    same = noting(pa.Table, seen, partitions_def=DAYS)
    run(shop.root, instance, asset, same, selection=only("reader"), partition="2024-01-03")
    assert rows_of(seen) == [("2024-01-03", 1)]


def test_a_partition_mapping_selects_several_partitions_and_a_missing_one_is_an_error(project, instance):
    shop, seen = project({}), []
    asset = daily()
    for day in ("2024-01-01", "2024-01-02"):
        run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition=day)

    def reader(mapping, metadata=None):
        @dg.asset(
            name="reader",
            partitions_def=DAYS,
            io_manager_key="memory",
            ins={"rows": dg.AssetIn(["shop", "raw"], partition_mapping=mapping, metadata=metadata)},
        )
        def reading(rows: pa.Table):
            seen.append(rows)

        return reading

    two_days = dg.TimeWindowPartitionMapping(start_offset=-1)
    run(shop.root, instance, asset, reader(two_days), selection=only("reader"), partition="2024-01-02")
    assert rows_of(seen) == [("2024-01-01", 1), ("2024-01-02", 1)]
    failed = run(
        shop.root, instance, asset, reader(two_days), selection=only("reader"), partition="2024-01-03",
        raise_on_error=False,
    )  # fmt: skip
    assert "RVT-401" in error_of(failed)
    assert "the asset shop/raw has never been materialized for 2024-01-03" in error_of(failed)
    every = dg.AllPartitionMapping()
    failed = run(
        shop.root,
        instance,
        asset,
        reader(every),
        selection=only("reader"),
        partition="2024-01-02",
        raise_on_error=False,
    )
    assert "has never been materialized for 2024-01-03, 2024-01-04" in error_of(failed)
    some = reader(every, metadata={"allow_missing_partitions": True})
    run(shop.root, instance, asset, some, selection=only("reader"), partition="2024-01-02")
    assert rows_of(seen) == [("2024-01-01", 1), ("2024-01-02", 1)]


@pytest.mark.parametrize(
    ("partitions", "keys"),
    [
        (BOTH, ["2024-01-01|red", "2024-01-01|green"]),
        (dg.StaticPartitionsDefinition(["a/../b", "A/../B", "a b", "x" * 300]), ["a/../b", "A/../B", "a b", "x" * 300]),
    ],
)
def test_partitions_of_any_keys(project, instance, partitions, keys):
    shop, seen = project({}), []
    asset, same = daily(partitions), noting(pa.Table, seen, partitions_def=partitions)
    for key in keys:
        name = dg.MultiPartitionKey(dict(zip(("day", "colour"), key.split("|"), strict=True))) if "|" in key else key
        run(shop.root, instance, asset, same, selection=only(["shop", "raw"], "reader"), partition=name)
        assert [row["made"] for row in seen[-1].to_pylist()] == [1]
    assert len({row["day"] for table in seen for row in table.to_pylist()}) == len(keys)
    names = [path.name for path in (shop.root / WORKSPACE).iterdir()]
    assert len(names) == len(keys) + 1
    assert all(len(name) < 200 for name in names)


def test_dynamic_partitions(project, instance):
    shop, seen = project({}), []
    partitions = dg.DynamicPartitionsDefinition(name="files")
    instance.add_dynamic_partitions("files", ["one", "two"])
    asset = daily(partitions)
    for key in ("one", "two"):
        run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition=key)
    run(shop.root, instance, asset, noting(pa.Table, seen), selection=only("reader"))
    assert rows_of(seen) == [("one", 1), ("two", 1)]


@pytest.mark.filterwarnings("ignore:Parameter `backfill_policy`:dagster.BetaWarning")
def test_one_value_for_several_partitions_is_rejected(project, instance):
    shop = project({})
    asset = daily(backfill_policy=dg.BackfillPolicy.single_run())
    tags = {"dagster/asset_partition_range_start": "2024-01-01", "dagster/asset_partition_range_end": "2024-01-03"}
    result = run(shop.root, instance, asset, selection=only(["shop", "raw"]), tags=tags, raise_on_error=False)
    assert "RVT-517" in error_of(result)
    assert "one value for 3 partitions" in error_of(result)
    assert "BackfillPolicy.multi_run()" in error_of(result)


JOINTS = {
    "sources/raw.yaml": READS["sources/raw.yaml"],
    "joints/made_by_day.sql": "SELECT day, made FROM raw",
    "sinks/report.yaml": sink("report", "made_by_day"),
}


def with_partitions(partitions):
    return {
        **JOINTS,
        "joints/made_by_day.yaml": {"type": "sql", "sql": "SELECT day, made FROM raw", "partitions": partitions},
        "sinks/report.yaml": sink("report", "made_by_day", partitions=partitions),
    }


@pytest.mark.nightly
def test_a_joint_reads_all_partitions_or_its_own_if_definitions_are_equal(project, instance):
    shop = project(JOINTS)
    asset = daily()
    for day in ("2024-01-01", "2024-01-02"):
        run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition=day)
    run(shop.root, instance, asset, selection=only("report", "made_by_day"))
    assert [row["day"] for row in shop.rows("report")] == ["2024-01-01", "2024-01-02"]

    files = with_partitions(BY_DAY)
    (shop.root / "joints/made_by_day.sql").unlink()
    del files["joints/made_by_day.sql"]
    shop.write(files)
    ours = only("report", "made_by_day")
    run(shop.root, instance, asset, selection=ours, partition="2024-01-02")
    result = run(
        shop.root,
        instance,
        asset,
        selection=only("report", "made_by_day"),
        partition="2024-01-03",
        raise_on_error=False,
    )
    assert "the asset shop/raw has never been materialized for 2024-01-03" in error_of(result)
    # A day that was stored under the earlier partitions definition still exists.
    longer = dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-09")
    run(shop.root, instance, daily(longer), selection=only(["shop", "raw"]), partition="2024-01-03")
    shop.write(with_partitions({**BY_DAY, "end": "2024-01-09"}) | {"joints/made_by_day.sql": "SELECT 1"})
    (shop.root / "joints/made_by_day.sql").unlink()
    run(shop.root, instance, daily(longer), selection=ours, partition="2024-01-01")
    assert [row["day"] for row in shop.rows("report")] == ["2024-01-01", "2024-01-02"]
    # With another start of days all rows are read, of which the run covers only some.
    shop.write(with_partitions({**BY_DAY, "start": "2023-12-31"}) | {"joints/made_by_day.sql": "SELECT 1"})
    (shop.root / "joints/made_by_day.sql").unlink()
    result = run(
        shop.root,
        instance,
        asset,
        selection=only("report", "made_by_day"),
        partition="2024-01-02",
        raise_on_error=False,
    )
    assert "RVT-512" in error_of(result)


def test_partitions_whose_columns_differ(project, instance):
    shop, seen = project(JOINTS), []
    found = {
        "2024-01-01": pa.table({"day": ["2024-01-01"], "made": pa.array([1], pa.int32())}),
        "2024-01-02": pa.table({"made": pa.array([2**40], pa.int64()), "day": ["2024-01-02"], "more": ["x"]}),
        "2024-01-03": pa.table({"day": ["2024-01-03"], "made": ["text"]}),
    }
    asset = daily(rows=found.__getitem__)
    for day in ("2024-01-01", "2024-01-02"):
        run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition=day)
    options = {"allow_missing_partitions": True}
    reader = noting(pd.DataFrame, seen, metadata=options)
    run(shop.root, instance, asset, reader, selection=only("reader", "report", "made_by_day"))
    assert shop.rows("report") == [{"day": "2024-01-01", "made": 1}, {"day": "2024-01-02", "made": 2**40}]
    assert seen[0].sort_values("day").to_dict("records") == [
        {"day": "2024-01-01", "made": 1, "more": None},
        {"day": "2024-01-02", "made": 2**40, "more": "x"},
    ]
    run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition="2024-01-03")
    for selection in (only("reader"), only("report", "made_by_day")):
        result = run(shop.root, instance, asset, reader, selection=selection, raise_on_error=False)
        assert "RVT-411" in error_of(result)
        assert "made is bigint in the table and string in the batch" in error_of(result)


def test_an_asset_that_gains_loses_or_changes_its_partitions(project, instance):
    shop, seen = project({}), []
    reader = noting(pa.Table, seen, metadata={"allow_missing_partitions": True})

    def made(asset, partition=None):
        run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition=partition)
        run(shop.root, instance, asset, reader, selection=only("reader"))
        return rows_of(seen)

    whole = returning(pa.table({"day": ["all"], "made": [0]}))
    assert made(whole) == [("all", 0)]
    assert made(daily(), "2024-01-02") == [("2024-01-02", 1)]
    assert made(daily(), "2024-01-03") == [("2024-01-02", 1), ("2024-01-03", 1)]
    longer = daily(dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-10"), rows=lambda day:
                   pa.table({"day": [day], "made": [9]}))  # fmt: skip
    assert made(longer, "2024-01-02") == [("2024-01-02", 9), ("2024-01-03", 1)]
    assert made(whole) == [("all", 0)]
    assert [path.name for path in (shop.root / WORKSPACE).iterdir() if path.name != ".rivet"] == [
        external_table(["shop", "raw"])
    ]


def test_introspection_returns_the_columns_of_an_external_asset(project, instance):
    shop = project(JOINTS)
    plan = compile_directory(shop.root, introspect=True)
    assert [(w.code, w.joint) for w in plan.warnings] == [("RVT-318", "raw")]
    run(shop.root, instance, daily(), selection=only(["shop", "raw"]), partition="2024-01-02")
    plan = compile_directory(shop.root, introspect=True)
    assert [(field.name, field.type) for field in plan.joint("report").schema] == [
        ("day", "string"),
        ("made", "bigint"),
    ]
    assert not plan.warnings


def test_the_jobs_over_everything_materialize_no_foreign_asset(project, instance):
    shop = project(JOINTS)
    definitions = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(assets=[daily()]))
    job = definitions.resolve_job_def("all")
    assert {key.to_user_string() for key in job.asset_layer.executable_asset_keys} == {"made_by_day", "report"}


def test_values_can_be_loaded_outside_of_a_run(project, instance):
    """As in a notebook: `Definitions.load_asset_value`, also of a partition of a joint."""
    regions = {"type": "static", "column": "region", "values": ["eu", "us"]}
    shop = project({
        "data/orders.csv": "region,n\neu,1\nus,2\n",
        "sources/orders.yaml": source("orders", "region STRING, n INT", partitions=regions),
        "sinks/sold.yaml": sink("sold", "orders", partitions=regions),
    })  # fmt: skip
    asset = daily()
    run(shop.root, instance, asset, selection=only(["shop", "raw"]), partition="2024-01-02")
    for region in ("eu", "us"):
        run(shop.root, instance, asset, selection=only("sold"), partition=region)
    definitions = dg.Definitions.merge(load_definitions(shop.root), dg.Definitions(assets=[asset]))

    def value(key, partition):
        found = definitions.load_asset_value(
            dg.AssetKey(key), python_type=pa.Table, instance=instance, partition_key=partition
        )
        return found.to_pylist()

    assert value(["shop", "raw"], "2024-01-02") == [{"day": "2024-01-02", "made": 1}]
    assert value(["sold"], "us") == [{"region": "us", "n": 2}]

"""What a switch changes of the partitions of a Hive table, without a metastore."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from rivet_dagster.catalogs.spark.hive_partitions import HivePartitions
from rivet_dagster.catalogs.spark.names import SparkTableName
from rivet_dagster.catalogs.spark.partitions import (
    Partition,
    VersionPartitions,
    is_text_of,
    plan_switch,
    unused_folders,
)
from rivet_dagster.errors import RivetError

EMPTY = Path("/empty")


def test_random_switches_leave_the_partitions_of_the_version_and_only_their_folders():
    """A model of the metastore gets each call; folders are those of the two newest versions."""
    random_ = random.Random(40)
    values = [(None,), ("a",), ("b/c",), ("ü",)]
    version, metastore, folders, older = VersionPartitions(("p",)), {}, set(), []
    for number in range(60):
        names = {
            f"{each}-{random_.randint(0, 2)}": value for each, value in enumerate(values) if random_.random() < 0.7
        }
        switch = plan_switch(version, names, Path(f"/v{number}"))
        before = dict(metastore)
        assert not {*switch.added} & before.keys()
        witness = switch.after.witness
        metastore |= dict.fromkeys(switch.added, EMPTY)
        assert witness is None or not witness.saw_switch(metastore.get(witness.values))
        moves = {each: partition.folder for each, partition in switch.folders.items()}
        metastore |= moves | dict.fromkeys(switch.emptied, EMPTY)
        assert witness is None or witness.saw_switch(metastore[witness.values])
        metastore = {each: folder for each, folder in metastore.items() if each not in switch.emptied}
        assert witness is None or witness.saw_switch(metastore.get(witness.values))
        # No folder is one of before: its files would be seen with those of another version.
        assert not set(moves.values()) & folders
        folders |= set(moves.values())
        version = VersionPartitions.from_json(switch.after.to_json())
        assert version == switch.after
        assert metastore == {each: partition.folder for each, partition in version.partitions.items()}
        assert version.partition_of == names
        assert (witness is None) == (before == metastore)
        older.append(version)
        if len(older) > 2:
            folders -= set(unused_folders(older.pop(0), older))
        assert folders == {partition.folder for each in older for partition in each.partitions.values()}


def test_partitions_that_are_taken_over_without_rows_stay_in_folders_of_their_own():
    there = {("1",): Partition(Path("/there/1")), ("2",): Partition(Path("/there/2"))}
    switch = plan_switch(VersionPartitions(("p",), there), {"f": ("1",)}, Path("/v")).keep_emptied(Path("/v"))
    assert (switch.added, set(switch.moved), switch.emptied) == ((), {("1",), ("2",)}, ())
    assert set(switch.after.partitions) == set(there)
    assert len({*there.values(), *switch.after.partitions.values()}) == 4
    none = plan_switch(VersionPartitions(("p",), there), {}, Path("/v")).keep_emptied(Path("/v"))
    assert none.after.witness is not None
    assert none.after.witness.after == none.after.partitions[none.after.witness.values].folder
    assert replace(none.after, witness=None).partition_of == {}


@pytest.mark.parametrize(
    ("type_", "texts", "others"),
    [
        ("int", ["0", "-7"], ["", "07", "-0", "1.0", "+1"]),
        ("date", ["2024-02-29"], ["2023-02-29", "2024-2-9", "20240229"]),
        ("timestamp", ["2024-01-31 00:00:00", "2024-01-31 00:00:00.000001"], ["2024-01-31", "2024-01-31 00:00:00.10"]),
        ("boolean", ["true"], ["TRUE", "1"]),
        ("string", ["07", " ", "a/b"], ["", "__HIVE_DEFAULT_PARTITION__"]),
        ("double", [], ["1.0"]),
    ],
)
def test_texts_are_those_that_spark_writes(type_, texts, others):
    assert all(is_text_of(type_, text) for text in texts)
    assert not any(is_text_of(type_, text) for text in others)


def test_spark_connect_does_not_reach_the_partitions():
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(RivetError, match=r"RVT-402 sales\.orders is PARTITIONED BY"):
        HivePartitions(remote, SparkTableName("sales", "orders"), ["day"])

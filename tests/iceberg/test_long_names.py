"""Names of tables and groups as long as joints may have them, without a JVM."""

import pytest
from support.iceberg import declared
from support.iceberg_runs import NAMESPACE, UPSERT, Work, expire_heartbeats, lake, run, written

from rivet_dagster.catalogs.iceberg.names import TableName, environment_of, identity_there, key_of, staging_of

LONGEST = "n" * 128
RUN = "9b2b6a5e-8c5f-4c7e-9d3b-2f1a4c5d6e7f"
WORK = Work([1, 2], 1, identity=f"{RUN}/{LONGEST}", table=LONGEST, errors=["bad"])


def test_names_of_staging_tables_fit_into_255_bytes():
    for table in (LONGEST, f"{LONGEST}__errors", "ü" * 120, "n" * 250):
        for key in (key_of(f"{RUN}/{LONGEST}"), key_of(identity_there("e" * 64))):
            names = [
                TableName("lake", ("shop",), table).staged(key, suffix).name for suffix in ("", "_batch", "_changes")
            ]
            assert max(len(name.encode()) for name in names) <= 255
            assert [staging_of(name) for name in names] == [key, f"{key}_batch", f"{key}_changes"]
            others = TableName("lake", ("shop",), f"{table[:-1]}x").staged(key).name
            assert others != names[0]
    assert environment_of(staging_of(names[1])) == "e" * 64


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["hadoop", "sqlite"])
def test_long_names_are_staged_published_withheld_and_swept(tmp_path, kind):
    catalog = lake(declared(kind, tmp_path / kind), tmp_path)
    run(catalog, WORK, tmp_path)
    run(catalog, WORK.having(identity=f"{RUN}-2/{LONGEST}", adds=True, errors=["worse"]), tmp_path)
    run(catalog, WORK.having(identity=f"{RUN}-3/{LONGEST}", adds=True, plan=UPSERT, net=3), tmp_path)
    assert catalog.current(LONGEST).statistics.rows == 2
    run(catalog, WORK.having(identity=f"{RUN}-4/{LONGEST}", end="withhold"), tmp_path)
    (withheld,) = [version for version in catalog.versions(LONGEST) if version.state == "withheld"]
    with catalog.take_up(LONGEST, withheld.name) as transaction:
        transaction.commit("by hand")

    catalog.use_environment("e" * 64, "default")
    there = catalog.in_environment("e" * 64)
    for work in (WORK, WORK.having(adds=True), WORK.having(table=LONGEST.replace("n", "m"))):
        run(there, work.having(identity=f"{RUN}-5/{LONGEST}"), tmp_path)
    catalog.merge("e" * 64)

    transaction = written(catalog, WORK.having(identity=f"{RUN}-6/{LONGEST}", adds=False), tmp_path)
    expire_heartbeats(tmp_path)
    swept = catalog.sweep()
    left = [name[-1] for name in catalog.access.catalog.list_tables(NAMESPACE) if staging_of(name[-1])]
    assert ([transaction.branch in name for name in swept], left) == ([True, True], [])  # the rows, and the errors

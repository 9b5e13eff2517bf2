"""New rows that a stored joint holds for the tables after it: each of them gets each row once; DuckDB computes them."""

import pytest
from support.projects import sink, sql
from support.rows_between import ARCHIVED, NEW, NUMBERS, ZONE, Shop
from support.tables import refused

from rivet_dagster.execution.results import StagedResult
from rivet_dagster.execution.writing import publish as publishing
from rivet_dagster.execution.writing.publish_run import publish_run

APPEND, MERGE = "append", {"mode": "merge", "key_columns": ["n"]}
AFTER = "SELECT * FROM numbers {% if is_incremental('out') %} WHERE n > {{ watermark_value('out') }} {% endif %}"
OUT = {"mode": "append", "watermark_column": "n"}


@pytest.fixture(autouse=True)
def quickly(monkeypatch) -> None:
    monkeypatch.setattr(publishing, "PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture
def chain(tmp_path) -> Shop:
    """A landing zone, a stored joint, and a table that appends its rows."""
    return Shop(tmp_path, ZONE, NEW, sink("out", "new", write_strategy=APPEND))


@pytest.fixture
def watermark(tmp_path) -> Shop:
    """A stored joint that reads what is after the watermark of the table that appends its rows, of all files."""
    return Shop(tmp_path, NUMBERS, sql("new", AFTER, eager=True), sink("out", "new", write_strategy=OUT))


# Rows computed upon a version of the table


def test_rows_are_appended_to_the_version_alone_that_they_were_computed_upon(watermark):
    watermark.put("a.parquet", 1, 2)
    watermark.run("new", "out")
    watermark.put("b.parquet", 3)
    watermark.run("new")  # one run
    watermark.put("c.parquet", 4)
    watermark.run("new")  # another one, upon the same version
    watermark.run("out")
    error = refused(watermark.run, "out")  # of the first run, or of one that is executed again from its failure
    assert (error.code, watermark.rows()) == ("RVT-405", [1, 2, 3, 4])
    assert "'new'" in error.diagnostics[0].message
    assert "Run 'new' again" in str(error.diagnostics[0].remediation)
    watermark.put("d.parquet", 5)
    watermark.run("new", "out")
    assert watermark.rows() == [1, 2, 3, 4, 5]


def test_rows_of_two_first_runs_are_appended_once(watermark):
    watermark.put("a.parquet", 1)
    watermark.run("new")
    watermark.run("out")
    assert watermark.code("out") == "RVT-405"
    assert watermark.rows() == [1]


def test_rows_that_another_joint_has_stored_since_are_known_by_what_they_were_computed_upon(tmp_path):
    more = sql("more", "SELECT n FROM new", eager=True)
    shop = Shop(tmp_path, NUMBERS, sql("new", AFTER, eager=True), more, sink("out", "more", write_strategy=OUT))
    shop.put("a.parquet", 1)
    shop.run("new", "more", "out")
    shop.put("b.parquet", 2)
    shop.run("new", "more", "out")
    assert shop.code("out") == "RVT-405"
    shop.run("more")  # still of the same rows
    assert shop.code("out") == "RVT-405"
    assert shop.rows() == [1, 2]


def test_rows_that_a_full_refresh_has_computed_are_for_a_full_refresh(watermark):
    watermark.put("a.parquet", 1)
    watermark.run("new", "out")
    watermark.run("new", full_refresh=True)
    assert watermark.code("out") == "RVT-405"
    watermark.run("out", full_refresh=True)
    assert watermark.rows() == [1]


def test_a_table_that_merges_takes_the_same_rows_twice_unless_they_are_computed_from_its_own(tmp_path):
    strategy = {**MERGE, "watermark_column": "n"}
    new = sql("new", AFTER, eager=True)
    shop = Shop(tmp_path, NUMBERS, new, sink("out", "new", write_strategy=strategy))
    shop.put("a.parquet", 1)
    shop.run("new", "out", "out")
    assert shop.rows() == [1]
    totals = "SELECT n FROM numbers {% if is_incremental('out') %} UNION SELECT n FROM {{ this('out') }} {% endif %}"
    shop = Shop(tmp_path, NUMBERS, sql("new", totals, eager=True), sink("out", "new", write_strategy=MERGE))
    shop.run("new", "out")
    assert shop.code("out") == "RVT-405"


# Files that have been read, and not published


def test_files_are_read_again_until_the_table_has_published_them(chain, monkeypatch):
    chain.put("a.parquet", 1, 2)
    chain.run("new")  # and the step of the table fails
    chain.put("b.parquet", 3)
    chain.run("new", "out")
    assert chain.rows() == [1, 2, 3]
    chain.put("c.parquet", 4)
    chain.run("new", "out")
    chain.run("new", "out")  # no files
    assert chain.rows() == [1, 2, 3, 4]
    chain.run("new")
    assert chain.rows() == [1, 2, 3, 4]


def test_files_of_overlapping_runs_are_appended_once(chain):
    chain.put("a.parquet", 1)
    chain.run("new")  # one run
    chain.put("b.parquet", 2)
    chain.run("new")  # another one
    chain.run("out")
    error = refused(chain.run, "out")
    assert (error.code, chain.rows()) == ("RVT-405", [1, 2])
    assert "a.parquet" in error.diagnostics[0].message
    chain.put("c.parquet", 3)
    chain.run("new", "out")
    assert chain.rows() == [1, 2, 3]


def test_files_since_a_version_are_new_after_a_rollback_to_it(chain):
    for number, name in enumerate(("a", "b", "c")):
        chain.put(f"{name}.parquet", number)
        chain.run("new", "out")
    catalog = chain.runtime.target_catalog("lake")
    with catalog.restage("out", catalog.versions("out")[-1].name) as transaction:
        transaction.commit("rollback")
    chain.run("new", "out")
    assert chain.rows() == [0, 1, 2]


def test_several_tables_publish_the_rows_before_the_next_are_read(tmp_path):
    shop = Shop(tmp_path, ARCHIVED, NEW, *(sink(name, "new", write_strategy=APPEND) for name in ("out", "other")))
    shop.put("a.parquet", 1)
    shop.run("new", "out")  # and the step of the other table fails
    shop.put("b.parquet", 2)
    error = refused(shop.run, "new")
    assert error.code == "RVT-421"
    assert "Run other first" in str(error.diagnostics[0].remediation)
    assert shop.zone() == ["a.parquet", "b.parquet"]
    shop.run("other")
    assert shop.zone() == ["b.parquet"]  # the other one is archived
    shop.run("new", "out", "other")
    assert (shop.rows("out"), shop.rows("other"), shop.zone()) == ([1, 2], [1, 2], [])


def test_tables_that_match_rows_by_key_take_them_again(tmp_path):
    shop = Shop(tmp_path, ZONE, NEW, sink("out", "new", write_strategy=MERGE), sink("other", "new"))
    shop.put("a.parquet", 1)
    shop.run("new", "out")
    shop.put("b.parquet", 2)
    shop.run("new", "out", "other")
    assert (shop.rows("out"), shop.rows("other")) == ([1, 2], [1, 2])


def test_a_table_that_skips_empty_batches_is_not_waited_for(tmp_path):
    skips = {"mode": "append", "on_empty": "skip"}
    none = sql("none", "SELECT n FROM new WHERE n < 0")
    shop = Shop(
        tmp_path, ZONE, NEW, none, sink("out", "new", write_strategy=APPEND), sink("few", "none", write_strategy=skips)
    )
    for number, name in enumerate(("a", "b")):
        shop.put(f"{name}.parquet", number)
        shop.run("new", "out", "few")
    assert shop.rows() == [0, 1]


def test_files_pass_through_several_stored_joints_and_are_archived_by_the_last_table(tmp_path):
    more = sql("more", "SELECT n FROM new UNION ALL SELECT n FROM also", eager=True)
    also = sql("also", "SELECT n + 10 AS n FROM zone", eager=True)
    shop = Shop(tmp_path, ARCHIVED, NEW, also, more, sink("out", "more", write_strategy=APPEND))
    shop.put("a.parquet", 1)
    shop.run("new")
    shop.put("b.parquet", 2)  # between the two readers
    shop.run("also", "more")
    assert shop.zone() == ["a.parquet", "b.parquet"]
    shop.run("out")
    assert (shop.rows(), shop.zone()) == ([1, 11, 12], ["b.parquet"])
    shop.run("new", "also", "more", "out")
    assert (shop.rows(), shop.zone()) == ([1, 2, 11, 12], [])


def test_a_failed_full_refresh_leaves_the_files_as_the_table_has_published_them(chain):
    chain.put("a.parquet", 1)
    chain.run("new", "out")
    chain.run("new", full_refresh=True)  # and the step of the table fails
    assert chain.code("out") == "RVT-405"
    chain.put("b.parquet", 2)
    chain.run("new", "out")
    assert chain.rows() == [1, 2]
    chain.run("new", "out", full_refresh=True)
    chain.run("new", "out")
    assert chain.rows() == [1, 2]


def test_consumed_files_outlive_another_fusion_of_the_joints(tmp_path, chain):
    fused = Shop(tmp_path, ZONE, sql("new", "SELECT n FROM zone"), sink("out", "new", write_strategy=APPEND))
    chain.put("a.parquet", 1)
    fused.run("out")
    chain.put("b.parquet", 2)
    chain.run("new", "out")
    chain.put("c.parquet", 3)
    fused.run("out")
    assert chain.rows() == [1, 2, 3]


def test_tables_of_the_last_release_have_consumed_what_their_stored_joint_had(chain, monkeypatch):
    chain.put("a.parquet", 1)
    chain.put("b.parquet", 2)
    with monkeypatch.context() as patch:
        patch.setattr("rivet_dagster.execution.reading.inputs.passed_on", lambda joint, inputs: {})
        chain.run("new", "out")
        assert set(chain.runtime.target_catalog("lake").current("out").inputs) == {"new"}
    chain.put("c.parquet", 3)
    chain.run("new")
    chain.run("new", "out")
    assert chain.rows() == [1, 2, 3]


def test_the_last_step_of_a_run_is_what_publishes(tmp_path):
    shop = Shop(tmp_path, ZONE, NEW, sink("out", "new", write_strategy=APPEND), publish="run")
    shop.put("a.parquet", 1)
    shop.run("new")
    staged = [shop.run("out").published for _ in range(2)]  # by two runs that overlap
    tables = [StagedResult("out", "lake", "out", version.version, version.identity) for version in staged]
    publish_run(shop.runtime, tables[:1])
    assert refused(publish_run, shop.runtime, tables[1:]).code == "RVT-405"
    shop.put("b.parquet", 2)
    shop.run("new")
    shop.run("out")
    shop.run("new")  # nothing has been published yet
    last = shop.run("out").published
    publish_run(shop.runtime, [StagedResult("out", "lake", "out", last.version, last.identity)])
    assert shop.rows() == [1, 2]


def test_an_environment_reads_what_its_own_tables_have_not_published(tmp_path, chain):
    chain.put("a.parquet", 1)
    chain.run("new", "out")
    chain.put("b.parquet", 2)
    chain.runtime.catalog("lake").use_environment("dev", "default")
    chain.runtime.catalog("workspace").use_environment("dev", "default")
    there = Shop(tmp_path, ZONE, NEW, sink("out", "new", write_strategy=APPEND), environment="dev")
    there.run("new")
    there.run("new", "out")
    assert there.code("out") == "RVT-405"
    current = there.runtime.target_catalog("lake").current("out")
    assert (current.environment, current.statistics.rows, chain.rows()) == ("dev", 2, [1])
    chain.run("new", "out")
    assert chain.rows() == [1, 2]

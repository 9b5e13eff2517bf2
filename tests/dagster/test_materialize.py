"""Joints materialized by Dagster: written rows, events, and the effect of failed checks."""

import dagster as dg
import duckdb
import pytest
from support.folders import GOES_ON, MANIFEST, WORKSPACE, in_order, sink, source

from rivet_dagster import DagsterRivetTranslator, load_definitions

ORDERS = "id,customer,amount\n1,ada,10\n2,bob,20\n3,ada,5\n4,,7\n"
SCHEMA = "id INT, customer STRING, amount INT"
NOT_NULL = {"type": "not_null", "columns": ["customer"]}
SALES = {
    "data/orders.csv": ORDERS,
    "sources/orders.yaml": source("orders", SCHEMA),
    "joints/big.sql": "-- rivet:assert: row_count(min=1)\nSELECT * FROM orders WHERE amount > 4",
    "joints/totals.sql": "SELECT customer, sum(amount) AS total FROM big GROUP BY customer",
    "joints/made.py": """
def transform(big):
    return big.to_arrow().to_pandas().groupby("customer", as_index=False)[["id"]].max()
""",
    "sinks/report.yaml": sink("report", "totals", assertions=[{**NOT_NULL, "severity": "warn", "samples": 3}]),
    "sinks/latest.yaml": sink("latest", "made", assertions=[{"type": "unique", "columns": ["customer"]}]),
}


def run(root, instance, selection=None, raise_on_error=True, job="all", **options):
    """Run a selection in this process, as a job of the project's own definitions."""
    definitions = load_definitions(root)
    if selection is not None:
        job = "selected"
        definitions = dg.Definitions.merge(definitions, dg.Definitions(jobs=[dg.define_asset_job(job, selection)]))
    return definitions.resolve_job_def(job).execute_in_process(
        instance=instance, raise_on_error=raise_on_error, **options
    )


def keys(*names: str) -> dg.AssetSelection:
    return dg.AssetSelection.assets(*names)


def materialized(result) -> dict[str, dict]:
    """Return the metadata of each materialization by asset key."""
    events = result.get_asset_materialization_events()
    return {e.asset_key.to_user_string(): {k: v.value for k, v in e.materialization.metadata.items()} for e in events}


def verdicts(result) -> dict[str, bool]:
    return {f"{e.asset_key.to_user_string()}:{e.check_name}": e.passed for e in result.get_asset_check_evaluations()}


def started(result) -> set[str]:
    return {event.step_key for event in result.all_events if event.event_type_value == "STEP_START"}


def failure_of(result, step: str):
    (event,) = [event for event in result.get_step_failure_events() if event.step_key == step]
    return event.step_failure_data


def diagnostics(result, step: str) -> list[dict]:
    return failure_of(result, step).user_failure_data.metadata["rivet/diagnostics"].value


# writing


@pytest.mark.nightly
def test_the_job_all_materializes_every_joint(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance)
    assert result.success
    assert set(materialized(result)) == {"big", "totals", "made", "report", "latest"}
    assert verdicts(result) == {
        "big:row_count": True, "report:not_null_customer": False, "latest:unique_customer": True,
    }  # fmt: skip
    orders = f"read_csv('{sales.root}/data/orders.csv', header = true)"
    totals = duckdb.sql(f"SELECT customer, sum(amount)::BIGINT AS total FROM {orders} GROUP BY ALL")
    assert sales.rows("report") == in_order(totals.to_arrow_table().to_pylist())
    newest = duckdb.sql(f"SELECT customer, max(id) AS id FROM {orders} WHERE customer IS NOT NULL GROUP BY ALL")
    assert sales.rows("latest") == in_order(newest.to_arrow_table().to_pylist())
    assert sales.versions("totals", WORKSPACE) == []


def test_a_materialization_has_rows_phases_columns_and_uri(project, instance):
    sales = project(SALES)
    run(sales.root, instance)
    found = materialized(run(sales.root, instance))
    report = found["report"]
    names = ("dagster/row_count", "rivet/rows_inserted", "rivet/rows_updated", "rivet/rows_deleted")
    assert [report[name] for name in names] == [3, 3, 0, 3]
    assert list(report["rivet/phases"]) == ["branch", "config", "write", "quality", "publish", "clean_up"]
    assert all(seconds >= 0 for seconds in report["rivet/phases"].values())
    assert [(column.name, column.type) for column in report["dagster/column_schema"].columns] == [
        ("customer", "string"), ("total", "bigint"),
    ]  # fmt: skip
    assert report["dagster/uri"] == (sales.root / "lake/report").as_uri()
    assert report["rivet/version"] in sales.versions("report")
    assert report["rivet/bytes"] == sum(len(content) for content in sales.bytes_of("report").values())
    assert "dagster/row_count" not in found["totals"]  # it is not stored


@pytest.mark.nightly
def test_running_twice_gives_the_same_rows(project, instance):
    sales = project(SALES)
    assert run(sales.root, instance).success
    before = {name: sales.rows(name) for name in ("report", "latest")}
    assert run(sales.root, instance).success
    assert {name: sales.rows(name) for name in ("report", "latest")} == before


def test_materialize_accepts_the_assets_directly(project, instance):
    sales = project(SALES)
    definitions = load_definitions(sales.root)
    result = dg.materialize(
        [*definitions.assets, *definitions.asset_checks], resources=definitions.resources, instance=instance,
        selection=keys("big", "totals", "report"),
    )  # fmt: skip
    assert result.success
    assert len(sales.rows("report")) == 3


@pytest.mark.nightly
def test_one_asset_alone_reads_its_stored_upstream(project, instance, sql_executions):
    sales = project(SALES)
    run(sales.root, instance)
    sales.write({"data/orders.csv": "id,customer,amount\n9,zoe,100\n"})
    sql_executions.since()
    result = run(sales.root, instance, keys("report"))
    assert set(materialized(result)) == {"report"}
    assert sql_executions.since() == 2  # the write and the samples of the warning; footers count its NULLs
    assert {row["customer"] for row in sales.rows("report")} == {"ada", "bob", None}
    assert run(sales.root, instance, keys("big", "report")).success
    assert sales.rows("report") == [{"customer": "zoe", "total": 100}]


def test_an_inner_joint_alone_is_computed_and_counted_but_not_written(project, instance):
    sales = project(SALES)
    run(sales.root, instance, keys("big"))
    result = run(sales.root, instance, keys("totals"))
    (totals,) = materialized(result).values()
    assert totals.pop("rivet/spark_plan")
    assert totals == {"dagster/row_count": 3}
    assert verdicts(result) == {}
    assert sales.versions("report") == []
    assert sales.versions("totals", WORKSPACE) == []


def test_an_upstream_that_was_never_materialized_fails_the_step_with_its_name(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance, keys("report"), raise_on_error=False)
    assert not result.success
    (found,) = diagnostics(result, "report")
    assert (found["code"], found["joint"]) == ("RVT-401", "big")
    assert materialized(result) == {}


def test_a_key_prefix_changes_keys_but_not_locations(project, instance):
    sales = project({**SALES, "rivet.yaml": MANIFEST | {"dagster": {"key_prefix": ["shop-2", "eu"]}}})
    result = run(sales.root, instance)
    assert set(materialized(result)) == {f"shop-2/eu/{name}" for name in ("big", "totals", "made", "report", "latest")}
    assert len(sales.rows("report")) == 3


def test_a_skipped_empty_batch_is_reported_and_leaves_the_table_unchanged(project, instance):
    skipping = sink("report", "totals", write_strategy={"mode": "replace", "on_empty": "skip"})
    sales = project({**SALES, "sinks/report.yaml": skipping})
    run(sales.root, instance)
    before = sales.bytes_of("report")
    sales.write({"joints/totals.sql": "SELECT * FROM big WHERE amount < 0"})
    found = materialized(run(sales.root, instance, keys("report")))
    assert found["report"]["rivet/skipped"] == "the batch was empty"
    assert "dagster/row_count" not in found["report"]
    assert sales.bytes_of("report") == before


# checks


def test_a_failed_blocking_check_stops_downstream_assets_and_publishes_nothing(project, instance):
    sales = project(SALES)
    run(sales.root, instance)
    before = {name: sales.rows(name) for name in ("report", "latest")}
    sales.write({"data/orders.csv": "id,customer,amount\n1,ada,1\n"})
    versions = sales.versions("big", WORKSPACE)
    result = run(sales.root, instance, raise_on_error=False)
    assert not result.success
    assert verdicts(result) == {"big:row_count": False}
    assert materialized(result) == {}
    assert {event.step_key for event in result.get_step_failure_events()} == {"big"}
    assert started(result) == {"big"}
    assert sales.versions("big", WORKSPACE) == versions
    assert {name: sales.rows(name) for name in ("report", "latest")} == before
    (verdict,) = result.get_asset_check_evaluations()
    assert verdict.severity == dg.AssetCheckSeverity.ERROR
    assert verdict.blocking
    assert verdict.metadata["rivet/violations"].value == 1


def test_a_failed_check_raises_if_the_caller_asks_for_it(project, instance):
    sales = project({**SALES, "data/orders.csv": "id,customer,amount\n1,ada,1\n"})
    with pytest.raises(dg.DagsterError, match="row_count"):
        run(sales.root, instance)


def test_a_failed_warning_check_blocks_nothing_and_shows_its_rows(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance)
    assert result.success
    (verdict,) = [e for e in result.get_asset_check_evaluations() if e.check_name == "not_null_customer"]
    assert (verdict.passed, verdict.severity, verdict.blocking) == (False, dg.AssetCheckSeverity.WARN, False)
    metadata = {key: value.value for key, value in verdict.metadata.items()}
    assert metadata["rivet/violations"] == 1
    assert metadata["rivet/kind"] == "not_null"
    assert metadata["rivet/seconds"] > 0
    assert "`customer` IS NULL" in metadata["rivet/sql"]
    (record,) = verdict.metadata["rivet/samples"].records
    assert record.data == {"customer": "NULL", "total": "7"}
    assert verdict.description == "1 violation"


def test_samples_are_excluded_from_the_event_log_on_request(project, instance):
    checks = [{**NOT_NULL, "severity": "warn", "samples": 0}]
    result = run(project({**SALES, "sinks/report.yaml": sink("report", "totals", assertions=checks)}).root, instance)
    (verdict,) = [e for e in result.get_asset_check_evaluations() if e.asset_key == dg.AssetKey("report")]
    assert verdict.metadata["rivet/violations"].value == 1
    assert "rivet/samples" not in verdict.metadata


def test_a_check_that_cannot_run_reports_the_error(project, instance):
    broken = {"type": "expression", "sql": "no_such_function(total) > 0", "name": "broken"}
    sales = project({**SALES, "sinks/report.yaml": sink("report", "totals", assertions=[broken, NOT_NULL])})
    result = run(sales.root, instance, raise_on_error=False)
    found = {e.check_name: e for e in result.get_asset_check_evaluations()}
    assert {name: e.passed for name, e in found.items() if name in ("broken", "not_null_customer")} == {
        "broken": False, "not_null_customer": False,
    }  # fmt: skip
    assert found["broken"].metadata["rivet/violations"].value is None
    assert "no_such_function" in found["broken"].metadata["rivet/error"].value
    assert found["broken"].description.startswith("could not run: ")
    assert found["not_null_customer"].metadata["rivet/violations"].value == 1


def test_a_checks_only_run_evaluates_the_published_rows_and_writes_nothing(project, instance, sql_executions):
    sales = project(SALES)
    run(sales.root, instance)
    before = {name: sales.bytes_of(name) for name in ("report", "latest")}
    versions = {name: sales.versions(name) for name in ("report", "latest")}
    sales.write({"data/orders.csv": "id,customer,amount\n1,,5\n2,,5\n"})
    sql_executions.since()
    result = run(sales.root, instance, dg.AssetSelection.checks_for_assets("report", "latest"))
    assert result.success
    assert verdicts(result) == {"report:not_null_customer": False, "latest:unique_customer": True}
    assert materialized(result) == {}
    assert sql_executions.since() == 3  # one pass and its samples, and one query for `unique`
    assert {name: sales.bytes_of(name) for name in ("report", "latest")} == before
    assert {name: sales.versions(name) for name in ("report", "latest")} == versions


def test_a_checks_only_run_evaluates_only_the_selected_checks(project, instance):
    bad = {**NOT_NULL, "severity": "warn"}
    sales = project(
        {**SALES, "sinks/report.yaml": sink("report", "totals", assertions=[bad, {"type": "row_count", "min": 1}])}
    )
    run(sales.root, instance)
    sales.write({"sinks/report.yaml": sink("report", "totals", assertions=[NOT_NULL, {"type": "row_count", "min": 1}])})
    selection = dg.AssetSelection.checks(dg.AssetCheckKey(dg.AssetKey("report"), "row_count"))
    result = run(sales.root, instance, selection, raise_on_error=False)
    assert verdicts(result) == {"report:row_count": True}
    assert result.success


def test_checks_of_an_unpublished_table_cannot_run(project, instance):
    sales = project(SALES)
    result = run(sales.root, instance, dg.AssetSelection.checks_for_assets("report"), raise_on_error=False)
    assert not result.success
    assert [found["code"] for found in diagnostics(result, "report")] == ["RVT-401"]


def test_a_gate_applies_even_if_its_checks_are_not_selected(project, instance):
    sales = project({**SALES, "sinks/report.yaml": sink("report", "totals", assertions=[NOT_NULL])})
    selection = keys("big", "report").without_checks()
    result = run(sales.root, instance, selection, raise_on_error=False)
    assert not result.success
    assert verdicts(result) == {}
    (found,) = diagnostics(result, "report")
    assert (found["code"], found["joint"]) == ("RVT-507", "report")
    assert "not_null_customer" in found["message"]
    assert sales.versions("report") == []
    assert set(materialized(result)) == {"big"}


# failures


def test_a_failure_has_diagnostics_and_no_stack_of_rivet_dagster(project, instance):
    sales = project(
        {**SALES, **GOES_ON, "joints/totals.sql": "\nSELECT nmae(customer) AS customer,\n  1 AS total\nFROM big"}
    )
    result = run(sales.root, instance, raise_on_error=False)
    assert set(materialized(result)) == {"big", "made", "latest"}  # steps that do not depend on it go on
    (found,) = diagnostics(result, "report")
    assert (found["code"], found["joint"], found["file"], found["line"]) == (
        "RVT-503",
        "totals",
        "joints/totals.sql",
        2,
    )
    assert "nmae" in found["message"]
    assert found["remediation"]
    data = failure_of(result, "report")
    assert data.user_failure_data.description.startswith("RVT-503 joints/totals.sql:2: joint totals: ")
    assert data.error.cls_name == "Failure"


def test_an_exception_of_a_python_joint_fails_its_step(project, instance):
    sales = project({**SALES, **GOES_ON, "joints/made.py": "def transform(big):\n    raise KeyError('customer')\n"})
    result = run(sales.root, instance, raise_on_error=False)
    (found,) = diagnostics(result, "made")
    assert (found["code"], found["file"], found["line"]) == ("RVT-504", "joints/made.py", 2)
    assert started(result) == {"big", "made", "report"}


# sources


def gated(severity: str = "error", data: str = ORDERS) -> dict:
    checks = [{**NOT_NULL, "severity": severity}, {"type": "row_count", "min": 1}]
    return {
        **SALES,
        "data/orders.csv": data,
        "sources/orders.yaml": source("orders", SCHEMA, quality={"assertions": checks}),
    }


def test_readers_of_a_gated_source_wait_for_the_step_that_checks_it(project, instance):
    sales = project(gated(data="id,customer,amount\n1,ada,10\n"))
    result = run(sales.root, instance)
    assert result.success
    assert verdicts(result)["orders:not_null_customer"]
    assert verdicts(result)["orders:row_count"]
    order = [e.step_key for e in result.all_events if e.event_type_value == "STEP_START"]
    assert order.index("check__orders") < order.index("big")

    sales.write({"data/orders.csv": ORDERS})
    before = sales.versions("big", WORKSPACE)
    result = run(sales.root, instance, raise_on_error=False)
    assert verdicts(result) == {"orders:not_null_customer": False, "orders:row_count": True}
    assert {event.step_key for event in result.get_step_failure_events()} == {"check__orders"}
    assert started(result) == {"check__orders"}
    assert sales.versions("big", WORKSPACE) == before


def test_a_reader_run_without_the_gate_checks_the_source_before_reading(project, instance):
    sales = project(gated())
    result = run(sales.root, instance, keys("big"), raise_on_error=False)
    assert not result.success
    (found,) = diagnostics(result, "big")
    assert (found["code"], found["joint"], found["file"]) == ("RVT-507", "orders", "sources/orders.yaml")
    assert "not_null_customer" in found["message"]
    assert sales.versions("big", WORKSPACE) == []
    sales.write({"data/orders.csv": "id,customer,amount\n1,ada,10\n"})
    assert run(sales.root, instance, keys("big")).success


def test_a_source_is_checked_once_in_a_run(project, instance, sql_executions):
    sales = project(gated(data="id,customer,amount\n1,ada,10\n"))
    run(sales.root, instance, keys("big") | dg.AssetSelection.checks_for_assets("orders"))
    with_gate = sql_executions.since()
    run(sales.root, instance, keys("big"))
    assert sql_executions.since() == with_gate == 2


def test_a_failed_warning_check_of_a_source_does_not_block_its_readers(project, instance):
    sales = project(gated("warn"))
    result = run(sales.root, instance)
    assert result.success
    assert not verdicts(result)["orders:not_null_customer"]
    assert run(sales.root, instance, keys("big")).success


def test_a_subset_that_does_not_read_a_gated_source_does_not_wait_for_it(project, instance):
    sales = project({
        **gated(),
        "data/other.csv": "id\n1\n",
        "sources/other.yaml": source("other", "id INT"),
        "joints/one.sql": "SELECT id FROM other",
        "joints/both.sql": "SELECT id FROM one UNION ALL SELECT id FROM orders",
        "sinks/out.yaml": sink("out", "both"),
    })  # fmt: skip
    assert sales.assembly.joint("one").group == "out"
    assert run(sales.root, instance, keys("one")).success
    assert not run(sales.root, instance, keys("both"), raise_on_error=False).success


def test_observing_a_source_reports_a_data_version_that_changes_with_its_file(project, instance):
    sales = project({**SALES, "data/other.csv": "id\n1\n", "sources/other.yaml": source("other", "id INT")})

    def versions() -> dict[str, str]:
        observed = [
            e
            for e in run(sales.root, instance, keys("orders", "other")).all_events
            if e.event_type_value == "ASSET_OBSERVATION"
        ]
        found = [event.event_specific_data.asset_observation for event in observed]
        return {o.asset_key.to_user_string(): o.tags["dagster/data_version"] for o in found}

    first = versions()
    assert set(first) == {"orders", "other"}
    assert versions() == first
    sales.write({"data/orders.csv": ORDERS + "5,cyd,1\n"})
    second = versions()
    assert second["orders"] != first["orders"]
    assert second["other"] == first["other"]


def test_observing_a_missing_source_fails_with_its_name(project, instance):
    sales = project(SALES)
    (sales.root / "data/orders.csv").unlink()
    result = run(sales.root, instance, keys("orders"), raise_on_error=False)
    (found,) = diagnostics(result, "observe__raw")
    assert (found["code"], found["joint"], found["file"]) == ("RVT-403", "orders", "sources/orders.yaml")


REFERENCES = {
    "data/orders.csv": ORDERS,
    "sources/orders.yaml": source("orders", SCHEMA),
    "joints/zeta.sql": "SELECT 'ada' AS name",
    "sinks/report.yaml": sink(
        "report", "zeta", assertions=[{"type": "relationship", "column": "name", "to": "orders.customer"}]
    ),
    "sinks/billed.yaml": sink(
        "billed", "orders", assertions=[{"type": "relationship", "column": "customer", "to": "zeta.name"}]
    ),
}


def test_a_check_that_reads_another_joint_waits_for_it(project, instance):
    folder = project({**REFERENCES, **GOES_ON})
    result = run(folder.root, instance, raise_on_error=False)
    order = [event.step_key for event in result.all_events if event.event_type_value == "STEP_START"]
    assert order.index("zeta") < order.index("billed")
    assert verdicts(result) == {"report:relationship_name": True, "billed:relationship_customer": False}
    assert folder.rows("report") == [{"name": "ada"}]
    assert folder.versions("billed") == []


class Renamed(DagsterRivetTranslator):
    """A translator with other keys of joints and other names of checks."""

    def get_asset_spec(self, joint, project):
        spec = super().get_asset_spec(joint, project)
        return spec.replace_attributes(key=["shop", joint.name.upper()])

    def get_asset_check_spec(self, check, joint, project):
        spec = super().get_asset_check_spec(check, joint, project)
        return dg.AssetCheckSpec(name=f"{joint.type}_{spec.name}", asset=spec.asset_key, blocking=spec.blocking)


def test_keys_and_checks_renamed_by_a_translator_have_these_names_in_runs(project, instance):
    gated = source("orders", SCHEMA, quality={"assertions": [{"type": "unique", "columns": ["id"]}]})
    sales = project({**SALES, "sources/orders.yaml": gated})
    definitions = load_definitions(sales.root, translator=Renamed())
    result = definitions.resolve_job_def("all").execute_in_process(instance=instance)
    expected = {
        "shop/ORDERS:source_unique_id": True,
        "shop/BIG:sql_row_count": True,
        "shop/REPORT:sink_not_null_customer": False,
        "shop/LATEST:sink_unique_customer": True,
    }
    assert verdicts(result) == expected
    judged = dg.define_asset_job("judged", dg.AssetSelection.checks_for_assets(dg.AssetKey(["shop", "LATEST"])))
    alone = dg.Definitions.merge(definitions, dg.Definitions(jobs=[judged])).resolve_job_def("judged")
    assert verdicts(alone.execute_in_process(instance=instance)) == {"shop/LATEST:sink_unique_customer": True}

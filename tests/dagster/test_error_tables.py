"""Row errors in Dagster: the assets of error tables, the check, metadata and failures."""

# No `from __future__ import annotations` here: Dagster reads the annotations of inputs as classes.

from dataclasses import replace

import dagster as dg
import pytest
from support.folders import sink
from support.quarantine import CAST, ERRORS, SALES, pretend

from rivet_dagster import DagsterRivetTranslator, MaterializedRef, RivetProject, load_definitions
from rivet_dagster.definitions.assets import groups
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.execution.row_error import RowError
from rivet_dagster.model.storage import Published, Statistics

ERRORS_KEY = dg.AssetKey("report__errors")
LIMITED = {**SALES, "sinks/report.yaml": sink("reports", "paid", on_error={"mode": "quarantine", "max_errors": 2})}
PARTITIONS = {"type": "static", "column": "id", "values": ["1", "2"]}


@pytest.fixture
def shop(folder, monkeypatch):
    """Return a function that makes the project and pretends its runs."""

    def make(files=SALES, outcome=ERRORS, **options):
        pretend(monkeypatch, outcome, **options)
        return folder(files).root

    return make


def run(root, instance, *names: str, others=(), partition: str | None = None) -> dg.ExecuteInProcessResult:
    chosen = dg.AssetSelection.assets(*names) if names else dg.AssetSelection.all()
    own = dg.Definitions(assets=others, jobs=[dg.define_asset_job("selected", chosen)])
    job = dg.Definitions.merge(load_definitions(root), own).resolve_job_def("selected")
    return job.execute_in_process(instance=instance, raise_on_error=False, partition_key=partition)


def materialized(result) -> dict[str, dg.AssetMaterialization]:
    return {e.asset_key.to_user_string(): e.materialization for e in result.get_asset_materialization_events()}


def values(metadata) -> dict:
    return {key: getattr(value, "value", None) for key, value in metadata.items()}


# --- the asset ---


def test_an_error_table_is_an_asset_behind_its_table(shop):
    files = {
        **SALES,
        "sinks/report.yaml": sink("reports", "paid", on_error="quarantine", tags=["fresh"], group="marts"),
    }
    specs = {spec.key: spec for spec in load_definitions(shop(files)).resolve_all_asset_specs()}
    spec = specs[ERRORS_KEY]
    assert [dep.asset_key for dep in spec.deps] == [dg.AssetKey("report")]
    assert (spec.group_name, spec.kinds, spec.tags["fresh"]) == ("marts", {"errors", "filesystem"}, "")
    columns = [(column.name, column.type) for column in spec.metadata["dagster/column_schema"].columns]
    assert columns == [
        ("joint", "string"), ("code", "string"), ("expression", "string"), ("file", "string"), ("line", "int"),
        ("message", "string"), ("row", "string"), ("key", "string"), ("run_id", "string"), ("version", "string"),
        ("found_at", "timestamp"),
    ]  # fmt: skip
    assert spec.metadata["dagster/table_name"] == "lake.reports__errors"


def test_without_quarantine_there_is_none(shop):
    root = shop({**SALES, "sinks/report.yaml": sink("reports", "paid")})
    assert ERRORS_KEY not in load_definitions(root).resolve_asset_graph().get_all_asset_keys()


def test_its_key_follows_the_translator(shop):
    class Loud(DagsterRivetTranslator):
        def get_asset_spec(self, joint, project):
            return super().get_asset_spec(joint, project).replace_attributes(key=dg.AssetKey(["loud", joint.name]))

    project = RivetProject.load(shop(), translator=Loud())
    assert project.errors_key("report") == dg.AssetKey(["loud", "report__errors"])
    assert project.errors_key("paid") is None


def test_jobs_materialize_it_with_its_table(shop):
    definitions = load_definitions(shop())
    assert ERRORS_KEY in definitions.resolve_job_def("all").asset_layer.selected_asset_keys


# --- a run that publishes ---


def test_a_run_materializes_it_and_tells_the_sites(shop, instance):
    result = run(shop(), instance)
    assert result.success
    events = materialized(result)
    table, errors = events["report"], events["report__errors"]
    assert list(events) == ["paid", "report", "report__errors"]
    assert table.metadata["rivet/errors"].value == 5
    assert table.metadata["rivet/errors_table"].asset_key == ERRORS_KEY
    expected = {
        "condition": "CAST_INVALID_INPUT", "joint": "paid", "file": "joints/paid.sql", "line": 1,
        "expression": "CAST(amount AS INT)", "count": 3, "sample": '{"id": "2", "amount": "x"}',
    }  # fmt: skip
    for metadata in (table.metadata, errors.metadata):
        assert [record.data for record in metadata["rivet/errors_by_site"].records] == [expected]
    assert values(errors.metadata) | {"rivet/errors_by_site": None} == {
        "dagster/row_count": 5, "rivet/errors_of_run": 3, "rivet/version": "00000007", "rivet/errors_by_site": None,
    }  # fmt: skip
    assert errors.tags["dagster/data_version"] == table.tags["dagster/data_version"] == "00000007"


def test_its_check_warns_and_links_to_it(shop, instance):
    (check,) = run(shop(), instance).get_asset_check_evaluations()
    assert (check.check_name, check.asset_key, check.passed) == ("evaluation_errors", dg.AssetKey("report"), False)
    assert check.severity == dg.AssetCheckSeverity.WARN
    assert check.description == "3 violations"
    assert check.metadata["rivet/violations"].value == 3
    assert check.metadata["rivet/errors_table"].asset_key == ERRORS_KEY
    assert check.metadata["rivet/errors_by_site"].records[0].data["count"] == 3
    (sample,) = check.metadata["rivet/samples"].records
    assert (sample.data["condition"], sample.data["row"]) == ("CAST_INVALID_INPUT", '{"id": 2, "amount": "x"}')


def test_a_run_without_errors_materializes_it_too(shop, instance):
    result = run(shop(outcome=replace(ERRORS, count=0, total=0, sites=())), instance)
    metadata = values(materialized(result)["report__errors"].metadata)
    assert (metadata["dagster/row_count"], metadata["rivet/errors_of_run"]) == (0, 0)
    assert [check.passed for check in result.get_asset_check_evaluations()] == [True]
    assert materialized(result)["report"].metadata["rivet/errors"].value == 0


def test_with_too_many_errors_nothing_is_materialized(shop, instance):
    result = run(shop(LIMITED), instance)
    assert not result.success
    assert materialized(result) == {}
    (check,) = result.get_asset_check_evaluations()
    assert (check.passed, check.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert check.metadata["rivet/errors_by_site"].records[0].data["count"] == 3


def test_within_the_limit_it_passes_and_says_so(shop, instance):
    root = shop(LIMITED, replace(ERRORS, count=2, sites=(replace(CAST, count=2),)))
    (check,) = run(root, instance).get_asset_check_evaluations()
    assert check.passed
    assert check.description == "passed, with 2 violations within the limit"
    assert check.metadata["rivet/violations"].value == 2


def test_values_of_rows_are_left_out_where_a_joint_forbids_them(shop, instance):
    hidden = "-- rivet:row_values: false\nSELECT id, CAST(amount AS INT) AS amount FROM orders"
    result = run(shop({**SALES, "joints/paid.sql": hidden}), instance)
    events = [repr(entry.dagster_event) for entry in instance.all_logs(result.run_id)]
    assert not [event for event in events if '"x"' in event or "'x'" in event]
    metadata = materialized(result)["report"].metadata
    assert metadata["rivet/errors_by_site"].records[0].data["sample"] is None
    assert metadata["rivet/errors_by_site"].records[0].data["count"] == 3


def test_an_error_table_that_is_not_selected_is_told_all_the_same(shop, instance):
    result = run(shop(), instance, "report")
    errors = materialized(result)["report__errors"]
    assert errors.metadata["dagster/row_count"].value == 5
    assert errors.tags["dagster/data_version"] == "00000007"


@pytest.mark.parametrize("names", [(), ("report",)])
def test_its_partitions_are_those_of_its_table(shop, instance, names):
    files = {**SALES, "sinks/report.yaml": sink("reports", "paid", on_error="quarantine", partitions=PARTITIONS)}
    result = run(shop(files), instance, *(names or ("report", "report__errors")), partition="2")
    assert result.success
    assert materialized(result)["report__errors"].partition == "2"


def test_alone_it_tells_what_is_published(shop, instance, monkeypatch):
    root = shop()
    published = Published("lake", "reports", "00000003", "", Statistics(10, 0), 0)
    catalog = type("Catalog", (), {"current": lambda self, table: published})()
    monkeypatch.setattr(groups, "published_errors", lambda *_: ERRORS)
    engine = type("Engine", (), {"session": lambda self: type("S", (), {"close": lambda self: None})()})()
    runtime = type("Runtime", (), {"target_catalog": lambda *_: catalog, "engine": lambda *_: engine})()
    monkeypatch.setattr("rivet_dagster.definitions.assets.groups.open_runtime", lambda *_: runtime)
    result = run(root, instance, "report__errors")
    assert result.success
    assert list(materialized(result)) == ["report__errors"]
    errors = materialized(result)["report__errors"]
    assert (errors.metadata["dagster/row_count"].value, errors.tags["dagster/data_version"]) == (5, "00000003")


def test_a_reader_of_errors_waits_for_them_and_gets_a_handle(shop, instance):
    seen = []

    @dg.asset
    def bad(report__errors: MaterializedRef) -> None:
        seen.append(report__errors.joint)

    result = run(shop(), instance, others=[bad])
    assert result.success
    assert seen == ["the errors of report"]
    assert list(materialized(result)) == ["paid", "report", "report__errors", "bad"]


# --- a run that fails ---


def failed_step(result) -> dg.DagsterEvent:
    (event,) = [event for event in result.all_events if event.event_type == dg.DagsterEventType.STEP_FAILURE]
    return event.step_failure_data


def test_a_failure_shows_every_site(shop, instance):
    other = replace(CAST, condition="DIVIDE_BY_ZERO", count=1, expression="a / b", samples=())
    files = {**SALES, "sinks/report.yaml": sink("reports", "paid")}
    data = failed_step(run(shop(files, RowError.at((CAST, other))), instance))
    assert "3 rows could not be evaluated: [CAST_INVALID_INPUT]" in data.user_failure_data.description
    assert "1 row could not be evaluated: [DIVIDE_BY_ZERO]" in data.user_failure_data.description
    metadata = data.user_failure_data.metadata
    assert [r.data["condition"] for r in metadata["rivet/errors_by_site"].records] == [
        "CAST_INVALID_INPUT",
        "DIVIDE_BY_ZERO",
    ]
    records = metadata["rivet/diagnostics"].value
    assert [(record["code"], record["count"], record["samples"]) for record in records] == [
        ("RVT-520", 3, [{"id": "2", "amount": "x"}]), ("RVT-520", 1, []),
    ]  # fmt: skip


def test_other_failures_have_no_table_of_sites(shop, instance):
    data = failed_step(run(shop(outcome=RivetError.of([Diagnostic("RVT-503", "wrong")])), instance))
    assert list(data.user_failure_data.metadata) == ["rivet/diagnostics"]

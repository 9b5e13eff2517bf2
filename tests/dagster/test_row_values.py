"""``row_values: false`` excludes values of rows from Dagster, in failed runs as well."""

from copy import deepcopy

import dagster as dg
import pytest
from support.folders import GOES_ON, PROFILES, sink, source
from support.torture import at_length

from rivet_dagster import load_definitions

ANN, DAY = "ann@example.com", "2001-02-03"
PEOPLE = {
    "data/people.csv": f"id,email,day\n1,{ANN},{DAY}\n2,{ANN},{DAY}\n",
    "sources/people.yaml": source(
        "people",
        "id INT, email STRING, day DATE",
        quality={"assertions": [{"type": "unique", "columns": ["email"], "severity": "warn"}]},
    ),
    "joints/same.sql": "SELECT * FROM people",
    "joints/cast.sql": "SELECT CAST(email AS INT) AS id FROM people",
    "joints/wrong.sql": "SELECT emial(email) AS e FROM people",
    "joints/made.py": "def transform(people):\n    raise ValueError(people.to_arrow()['email'][0])\n",
    "joints/grown.sql": (
        "SELECT * FROM people{% if is_incremental() %} WHERE email >= {{ watermark_value }}{% endif %}"
    ),
    "joints/parted.sql": "-- rivet:partitions: {type: static, column: email, values: [eu]}\nSELECT * FROM people",
    "sinks/judged.yaml": sink(
        "judged",
        "same",
        assertions=[
            {"type": "expression", "sql": "email IS NULL", "name": "samples", "severity": "warn"},
            {"type": "freshness", "column": "day", "max_age": "24h", "name": "old", "severity": "warn"},
            {"type": "expression", "sql": "CAST(email AS INT) > 0", "name": "error", "severity": "warn"},
        ],
    ),
    "sinks/merged.yaml": sink("merged", "same", write_strategy={"mode": "merge", "key_columns": ["email"]}),
    "sinks/cast_table.yaml": sink("cast_table", "cast"),
    "sinks/wrong_table.yaml": sink("wrong_table", "wrong"),
    "sinks/made_table.yaml": sink("made_table", "made"),
    "sinks/grown_table.yaml": sink(
        "grown_table", "grown", write_strategy={"mode": "merge", "key_columns": ["id"], "watermark_column": "email"}
    ),
    "sinks/parted_table.yaml": sink(
        "parted_table", "parted", partitions={"type": "static", "column": "email", "values": ["eu"]}
    ),
}


@pytest.fixture
def run_and_log(project, instance):
    """Return all texts of the event log of two runs of everything and one of a partition, and the results."""

    def run(**profile):
        profiles = {"default": {**deepcopy(PROFILES["default"]), **profile}}
        root = project({**PEOPLE, **GOES_ON, "profiles.yaml": profiles}).root
        definitions = load_definitions(root)
        (parted,) = [job.name for job in definitions.jobs or [] if job.name.startswith("all_")]
        results = [
            definitions.resolve_job_def(job).execute_in_process(
                instance=instance, raise_on_error=False, partition_key=key
            )
            for job, key in (("all", None), ("all", None), (parted, "eu"))
        ]
        entries = [entry for result in results for entry in instance.all_logs(result.run_id)]
        return "\n".join(map(dg.serialize_value, entries)), results

    return run


def diagnostics(results) -> dict[str, dict]:
    events = [event for result in results for event in result.get_step_failure_events()]
    return {
        event.step_key: event.step_failure_data.user_failure_data.metadata["rivet/diagnostics"].value[0]
        for event in events
    }


def metadata(results, name: str) -> dict:
    events = [event for result in results for event in result.get_asset_materialization_events()]
    (last, *_) = [event for event in reversed(events) if event.asset_key.path[-1] == name]
    return last.materialization.metadata


def checks(results) -> dict[str, dict]:
    evaluations = [one for result in results for one in result.get_asset_check_evaluations()]
    return {one.check_name: one.metadata for one in evaluations}


@pytest.mark.nightly
def test_no_event_contains_a_value_of_a_row(run_and_log):
    text, results = run_and_log(row_values=False)
    assert ANN not in text
    assert DAY not in text
    found = diagnostics(results)
    assert {step: one["code"] for step, one in found.items()} == {
        "merged": "RVT-515",
        "cast_table": "RVT-520",
        "wrong_table": "RVT-503",
        "made": "RVT-504",
        "parted_table": "RVT-512",
    }
    assert "emial" in found["wrong_table"]["message"]  # a mistake in a query is reported in full
    assert found["cast_table"]["message"].endswith("could not be evaluated: [CAST_INVALID_INPUT] in CAST(email AS INT)")
    assert found["cast_table"]["samples"] == []
    assert (found["made"]["file"], found["made"]["line"]) == ("joints/made.py", 2)
    assert found["made"]["message"].startswith("ValueError; ")
    statistics = metadata(results, "judged")["rivet/column_statistics"]
    assert dict(statistics.records[0].data) == {"column": "id", "nulls": 0}
    assert "rivet/spark_plan" in metadata(results, "judged")
    assert "rivet/spark_plan" not in metadata(results, "grown_table")  # in place of the watermark
    assert not any("rivet/samples" in one for one in checks(results).values())
    assert checks(results)["error"]["rivet/error"].value.startswith("[CAST_INVALID_INPUT]; ")


@at_length
def test_by_default_events_contain_values_of_rows(run_and_log):
    _, results = run_and_log()
    found = diagnostics(results)
    for step in ("merged", "cast_table", "made", "parted_table"):
        assert ANN in found[step]["message"]
    sampled = {name for name, one in checks(results).items() if "rivet/samples" in one}
    assert sampled == {"samples", "old", "unique_email"}
    assert ANN in metadata(results, "grown_table")["rivet/spark_plan"].md_str
    assert "greatest" in [
        column.name for column in metadata(results, "judged")["rivet/column_statistics"].schema.columns
    ]

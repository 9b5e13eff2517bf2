"""No event or output of a run contains a secret."""

import json
import signal
from copy import deepcopy

import dagster as dg
import pytest
from support.folders import GOES_ON, PROFILES, sink, source

from rivet_dagster import load_definitions
from rivet_dagster.cli.main import main
from rivet_dagster.definitions.runs.failure import secrets_redacted
from rivet_dagster.secrets.redaction import remember

TOKEN, LITERAL = "hun/ter+2=", "literal-secret"
SPELT = "concat('hun/', 'ter+2=')"  # so that no text of the project itself contains it


@pytest.fixture
def shop(project, monkeypatch):
    """Write a project whose Spark outputs secrets: in a plan, in a check that cannot run, in an error."""
    monkeypatch.setenv("GATE_TOKEN", TOKEN)
    monkeypatch.setenv("ADDRESS", f"https://gate.example/?sig={TOKEN}x")
    profiles = deepcopy(PROFILES)
    profiles["default"]["engines"][0]["config"] |= {
        "spark.gate.token": "${GATE_TOKEN}",
        "spark.gate.address": "${ADDRESS}",
        "spark.gate.password": LITERAL,
    }
    check = {"type": "expression", "sql": f"raise_error({SPELT}) IS NULL", "name": "told", "severity": "warn"}
    return project(
        {
            **GOES_ON,
            "profiles.yaml": profiles,
            "data/orders.csv": "id\n1\n",
            "sources/orders.yaml": source("orders", "id INT"),
            "joints/a.sql": f"SELECT id, {SPELT} AS gate FROM orders",
            "joints/b.sql": f"SELECT CAST(raise_error(concat('literal', '-secret ', {SPELT}, 'x')) AS INT) FROM orders",
            "joints/c.py": "def transform(orders):\n    raise ValueError('hun' + '/ter+2=')\n",
            "sinks/kept.yaml": sink("kept", "a", assertions=[check]),
            "sinks/failed.yaml": sink("failed", "b"),
            "sinks/never.yaml": sink("never", "c"),
        }
    )


def event_texts(instance: dg.DagsterInstance, run_id: str) -> str:
    """Return all texts of the event log of a run."""
    return "\n".join(dg.serialize_value(entry) for entry in instance.all_logs(run_id))


def test_no_event_of_a_run_contains_a_secret(shop, instance):
    result = (
        load_definitions(shop.root).resolve_job_def("all").execute_in_process(instance=instance, raise_on_error=False)
    )
    text = event_texts(instance, result.run_id)
    for expected in ("rivet/spark_plan", "rivet/error", "RVT-520", "RVT-504", "ValueError", "SparkRuntimeException"):
        assert expected in text
    assert "${GATE_TOKEN}" in text
    assert TOKEN not in text
    assert LITERAL not in text
    (failed,) = [e for e in result.get_step_failure_events() if e.step_key == "failed"]
    (found,) = failed.step_failure_data.user_failure_data.metadata["rivet/diagnostics"].value
    assert found["message"].endswith(": raise_error(*** ${ADDRESS}) cannot be computed.")


def test_the_command_line_prints_no_secret(shop, capsys, monkeypatch):
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    before = signal.getsignal(signal.SIGTERM)
    try:
        code = main(["-p", str(shop.root), "--verbose", "run", "--no-fail-fast", "--format", "json"])
    finally:
        signal.signal(signal.SIGTERM, before)
    out, err = capsys.readouterr()
    report = json.loads(out)
    assert code == 2
    assert {error["code"] for error in report["errors"]} == {"RVT-520", "RVT-504"}
    assert "${GATE_TOKEN}" in report["checks"][0]["error"]
    assert TOKEN not in out + err
    assert LITERAL not in out + err


@pytest.mark.parametrize("option", [{"remote": f"sc://localhost:1/;token={TOKEN}"}, {"remote": "${REMOTE}"}])
def test_the_error_of_an_engine_that_cannot_start_contains_no_secret(project, application, capsys, monkeypatch, option):
    monkeypatch.setenv("REMOTE", f"sc://localhost:1;token={TOKEN}")  # not an address
    profiles = deepcopy(PROFILES)
    engine = profiles["default"]["engines"][0]
    profiles["default"]["engines"] = [{key: engine[key] for key in ("name", "type", "catalogs")} | option]
    far = project(
        {"profiles.yaml": profiles, "joints/one.sql": "SELECT 1 AS id", "sinks/kept.yaml": sink("kept", "one")}
    )
    before = signal.getsignal(signal.SIGTERM)
    try:
        main(["-p", str(far.root), "--verbose", "run", "--format", "json"])
    finally:
        signal.signal(signal.SIGTERM, before)
    out, err = capsys.readouterr()
    (error,) = json.loads(out)["errors"]
    assert any(code in error["code"] + error["message"] for code in ("RVT-104", "RVT-506"))
    assert TOKEN not in out + err
    assert main(["-p", str(far.root), "doctor"]) == 1 + 9 * ("REMOTE" in option["remote"])
    out, err = capsys.readouterr()
    assert TOKEN not in out + err


def test_a_sensor_tick_contains_no_secret(instance):
    remember("hunter2222")

    @dg.sensor(name="look", job_name="all")
    @secrets_redacted()
    def look(context: dg.SensorEvaluationContext):
        raise OSError("no /lake/hunter2222")

    with pytest.raises(Exception, match="no /lake/") as caught:
        look.evaluate_tick(dg.build_sensor_context(instance))
    info = dg._utils.error.serializable_error_info_from_exc_info(caught._excinfo)
    assert info.cls_name == "OSError"
    assert "no /lake/***" in info.to_string()
    assert "hunter2222" not in info.to_string().replace('OSError("no /lake/hunter2222")', "")  # a line of this file

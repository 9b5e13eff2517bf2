"""Strategies of dbt whose runs replace rows: of whole tables, and of batches."""

import pytest
from support.dbt import model, translated, write_dbt

from rivet_dagster.cli.main import main

OVERWRITE = "materialized='incremental', incremental_strategy='insert_overwrite'"
BATCHES = "materialized='incremental', incremental_strategy='microbatch', event_time='day', partition_by='day'"
MACRO = "{% macro recent() %}{% if is_incremental() %}where id > 1{% endif %}{% endmacro %}"


@pytest.mark.parametrize(
    ("query", "is_there"),
    [
        ("select id from {{ ref('a') }}", True),
        ("select id from {{ ref('a') }}{% if is_incremental() %} where id > 1{% endif %}", False),
        ("select id from {{ ref('a') }} {{ recent() }}", False),
        ("select id from {{ ref('a') }} union all select id from {{ this }}", False),
    ],
)
@pytest.mark.parametrize("config", [OVERWRITE, f"{BATCHES}, begin='2024-01-01', batch_size='day'"])
def test_what_replaces_all_rows_has_no_incremental_query(tmp_path, config, query, is_there):
    files = {
        "models/a.sql": "select 1 as id",
        "models/m.sql": f"{{{{ config({config}) }}}}{query}",
        "macros/recent.sql": MACRO,
    }
    entry = model(translated(tmp_path, files), "m")
    assert (entry.status != "left_out") == is_there
    if not is_there:
        assert "is_incremental()" in " ".join(entry.reasons)


@pytest.mark.parametrize(
    ("config", "partitions"),
    [
        ("begin='2024-01-15', batch_size='day'", '{type: daily, column: day, start: "2024-01-15"}'),
        ("begin='2024-01-15 05:30:00', batch_size='hour'", '{type: hourly, column: day, start: "2024-01-15T05:00"}'),
        ("begin='2024-01-15', batch_size='month'", '{type: monthly, column: day, start: "2024-01-01"}'),
    ],
)
def test_batches_are_partitions(tmp_path, capsys, config, partitions):
    """What has an event_time is read by the window of the run, anything else as a whole."""
    files = {
        "models/a.sql": "{{ config(event_time='seen_on') }}select 1 as id, timestamp'2024-01-15 05:00:00' as seen_on",
        "models/b.sql": "select 1 as id",
        "models/s.yml": "sources: [{name: crm, tables: [{name: visits, config: {event_time: at}}]}]",
        "models/m.sql": f"{{{{ config({BATCHES}, {config}) }}}}\n"
        "select a.seen_on as day from {{ ref('a') }} a\njoin {{ ref('b') }} b using (id)\n"
        "join {{ source('crm', 'visits') }} v using (id)",
    }
    old = write_dbt(tmp_path / "old", files)
    assert main(["import", "dbt", str(old), "--to", str(tmp_path / "new")]) == 0
    text = (tmp_path / "new" / "joints" / "m.sql").read_text()
    assert f"-- rivet:partitions: {partitions}\n" in text
    window = "{0} >= :partition_start AND {0} < :partition_end"
    assert f"from (SELECT * FROM {{{{ ref('a') }}}} WHERE {window.format('seen_on')}) a\n" in text
    assert "join {{ ref('b') }} b using" in text
    assert f"(SELECT * FROM {{{{ ref('visits') }}}} WHERE {window.format('at')}) v" in text


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("begin='2024-01-01', batch_size='year'", "not by year"),
        ("begin='2024-01-01'", "not by nothing"),
        ("batch_size='day'", "needs a date as begin"),
        ("begin='soon', batch_size='day'", "needs a date as begin, not 'soon'"),
        ("begin='2024-01-01', batch_size='day', event_time='a.b'", "needs a column as event_time, not 'a.b'"),
    ],
)
def test_batches_that_are_no_partitions(tmp_path, config, reason):
    config = (
        BATCHES.replace("event_time='day', ", "") + ", " + config if "event_time" in config else f"{BATCHES}, {config}"
    )
    result = translated(tmp_path, {"models/m.sql": f"{{{{ config({config}) }}}}select date'2024-01-01' as day"})
    assert reason in " ".join(model(result, "m").reasons)


def test_a_relation_of_a_batch_needs_a_tag_of_its_own(tmp_path):
    files = {
        "models/a.sql": "{{ config(event_time='day') }}select date'2024-01-15' as day",
        "models/m.sql": f"{{{{ config({BATCHES}, begin='2024-01-01', batch_size='day') }}}}"
        "{% set r = ref('a') %}select * from {{ r }}",
    }
    entry = model(translated(tmp_path, files), "m")
    assert entry.status == "left_out"
    assert "reads the batch of a otherwise than by a tag of its own" in entry.reasons[0]

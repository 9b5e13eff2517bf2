"""A table that grows is read once, and no row is missed whose transaction commits late."""

from __future__ import annotations

import random
import threading
import time
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from support.databases import execute, reading, rows, source
from support.folders import sink
from support.postgres import Database
from support.torture import examples

from rivet_dagster.catalogs.jdbc.postgres import snapshot
from rivet_dagster.errors import RivetError

NEW = "SELECT id, changed, pg FROM events{% if is_incremental() %} WHERE changed > {{ watermark_value }}{% endif %}"
STRATEGY = {"mode": "incremental_append", "watermark_column": "changed"}


@pytest.fixture(scope="module")
def database(postgres) -> Database:
    return postgres.database()


@pytest.fixture
def events(database) -> Database:
    execute(
        database,
        "DROP TABLE IF EXISTS events",
        "CREATE TABLE events (id bigserial PRIMARY KEY, changed timestamptz NOT NULL DEFAULT now(), pg int)",
        "CREATE INDEX ON events (changed)",
    )
    return database


def project_of(project, database: Database, **options):
    files = reading(database, "SELECT 1 AS x", {"events": source("events", options=options)})
    files = {name: content for name, content in files.items() if name != "joints/read.sql"}
    query = NEW.replace("{% if", " {% if")
    return project({**files, "joints/new.sql": query, "sinks/kept.yaml": sink("kept", "new", write_strategy=STRATEGY)})


def write_for(database: Database, seconds: float, seed: int) -> None:
    """Write rows in transactions that take up to half a second."""
    chance, end = random.Random(seed), time.monotonic() + seconds
    with psycopg.connect(database.dsn) as connection:
        while time.monotonic() < end:
            connection.execute("INSERT INTO events (pg) VALUES (%s)", (seed,))
            time.sleep(chance.choice((0.001, 0.01, 0.5)))
            connection.commit()


def runs_while_others_write(folder, database: Database) -> tuple[list, list]:
    """Run the group while four sessions write, and once after them; return the ids that it has, and the database."""
    writers = [threading.Thread(target=write_for, args=(database, float(examples(3, 30)), seed)) for seed in range(4)]
    for writer in writers:
        writer.start()
    time.sleep(0.3)
    while any(writer.is_alive() for writer in writers):
        folder.run("kept")
    for writer in writers:
        writer.join()
    time.sleep(0.05)
    folder.run("kept")
    return sorted(row["id"] for row in folder.rows("kept")), [
        key for (key,) in rows(database, "SELECT id FROM events ORDER BY id")
    ]


def test_no_row_is_missed_or_read_twice(events, project, monkeypatch):
    monkeypatch.setattr(snapshot, "_MARGIN", 0)
    folder = project_of(project, events, changed_at="changed")
    found, expected = runs_while_others_write(folder, events)
    assert found == expected


@pytest.mark.nightly
def test_without_the_option_rows_are_missed(events, project):
    found, expected = runs_while_others_write(project_of(project, events), events)
    assert found != expected
    assert set(found) < set(expected)


def test_the_database_gets_the_watermark_and_rows_are_read_once(events, project, monkeypatch):
    monkeypatch.setattr(snapshot, "_MARGIN", 0)
    execute(
        events,
        "INSERT INTO events (changed, pg) SELECT now() - n * interval '1 minute', 1 FROM generate_series(1, 50) n",
    )
    folder = project_of(project, events, changed_at="changed")
    folder.run("kept")
    execute(events, "INSERT INTO events (pg) VALUES (2)")
    time.sleep(0.05)
    result = folder.run("kept")
    assert result.rows.inserted == 1
    assert "GreaterThan(changed," in result.plans["kept"].text
    assert len(folder.rows("kept")) == 51
    (position,) = [position for name, position in result.published.inputs.items() if name == "events"]
    assert datetime.now(UTC) - datetime.fromisoformat(position.before) < timedelta(seconds=5)


def test_an_open_transaction_holds_back_what_began_after_it(events, project, monkeypatch):
    monkeypatch.setattr(snapshot, "_MARGIN", 0)
    folder = project_of(project, events, changed_at="changed")
    execute(events, "INSERT INTO events (pg) VALUES (0)")
    with psycopg.connect(events.dsn) as late:
        late.execute("INSERT INTO events (pg) VALUES (1)")
        execute(events, "INSERT INTO events (pg) VALUES (2)")
        folder.run("kept")
        assert [row["pg"] for row in folder.rows("kept")] == [0]
        late.commit()
    time.sleep(0.05)
    folder.run("kept")
    assert sorted(row["pg"] for row in folder.rows("kept")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"changed_at": "id"}, "the column 'id' of public.events, which `changed_at` names, is of the type bigint"),
        ({"changed_at": "change"}, "public.events has no column 'change', which `changed_at` names"),
    ],
)
def test_a_column_that_holds_no_times_is_refused(events, project, options, told):
    with pytest.raises(RivetError) as caught:
        project_of(project, events, **options).run("kept")
    assert told in str(caught.value)


def test_a_prepared_transaction_is_named():
    now = datetime(2024, 1, 31, tzinfo=UTC)
    known = snapshot.OpenTransactions(now, hidden=0, prepared=now, on_replica=False)
    with pytest.raises(RivetError) as caught:
        known.all_before()
    assert "one is prepared, since 2024-01-31T00:00:00+00:00, and does not tell when it began" in str(caught.value)


def test_sessions_that_the_user_may_not_see_are_named(events, project):
    execute(
        events,
        "DO $$ BEGIN CREATE ROLE narrow LOGIN PASSWORD 'word'; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT SELECT ON events TO narrow",
    )
    narrow = Database(events.name, events.port, "narrow", "word")
    folder = project_of(project, narrow, changed_at="changed")
    with psycopg.connect(events.dsn) as other:
        other.execute("SELECT 1")
        with pytest.raises(RivetError) as caught:
            folder.run("kept")
    assert "the user may not see 1 sessions of others" in str(caught.value)
    assert "pg_read_all_stats" in caught.value.diagnostics[0].remediation
    execute(events, "GRANT pg_read_all_stats TO narrow")
    folder.run("kept")

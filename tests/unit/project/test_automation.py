"""Entries of the ``dagster:`` block of rivet.yaml but its sensors, and errors with their lines."""

import pytest

from rivet_dagster.errors import RivetError
from rivet_dagster.model.automation import Deadline, TimeWindow
from rivet_dagster.project.load import load_project

from .conftest import MANIFEST, Load, Write

BLOCK = """\
dagster:
  schedules:
    nightly:
      target: 'group:"marts"'
      cron_schedule: '0 2 * * *'
      execution_timezone: Europe/Berlin
      default_status: RUNNING
      partition_offset: 1
    plain: {target: '*', cron_schedule: '@daily'}
    tidy: {type: sweep, cron_schedule: '@weekly'}
    order: {type: upkeep, cron_schedule: '0 3 * * *', execution_timezone: Asia/Tokyo, default_status: RUNNING}
    lake: {type: upkeep, cron_schedule: '@daily', catalogs: [raw]}
  observe:
    hourly: {sources: [orders, customers], cron_schedule: '0 * * * *', default_status: RUNNING}
    single: {sources: orders, cron_schedule: '@daily', execution_timezone: UTC}
  automation:
    - {target: 'tag:"fresh"', condition: eager}
    - target: '*'
      condition: on_cron
      cron_schedule: '@hourly'
      timezone: Asia/Tokyo
  freshness:
    - {target: '*', time_window: {fail_window: 24h, warn_window: 90m}}
    - {target: '*', cron: {deadline_cron: '0 9 * * *', lower_bound_delta: 1h, timezone: Asia/Tokyo}}
    - {target: '*', cron: {deadline_cron: '0 9 * * *', lower_bound_delta: 7d}}
"""
FIRST = MANIFEST.count("\n") + 1
"""The line of `dagster:`."""


def test_the_complete_block(load: Load) -> None:
    settings = load({"rivet.yaml": MANIFEST + BLOCK}).dagster
    nightly, plain = settings.schedules
    assert (nightly.name, nightly.target, nightly.cron_schedule) == ("nightly", 'group:"marts"', "0 2 * * *")
    assert (nightly.execution_timezone, nightly.default_status) == ("Europe/Berlin", "RUNNING")
    assert (nightly.partition_offset, plain.partition_offset) == (1, 0)
    assert (plain.execution_timezone, plain.default_status) == (None, "STOPPED")
    assert nightly.origin.file == "rivet.yaml"
    assert (nightly.origin.line_of("target"), plain.origin.line_of("target")) == (FIRST + 3, FIRST + 8)
    assert [sweep.name for sweep in settings.sweeps] == ["tidy"]
    order, lake = settings.upkeeps
    assert (order.name, order.cron_schedule, order.catalogs, order.default_status) == (
        "order",
        "0 3 * * *",
        (),
        "RUNNING",
    )
    assert (order.execution_timezone, lake.execution_timezone, lake.catalogs) == ("Asia/Tokyo", None, ("raw",))
    hourly, single = settings.observe
    assert (hourly.sources, hourly.default_status) == (("orders", "customers"), "RUNNING")
    assert (single.sources, single.execution_timezone) == (("orders",), "UTC")
    eager, cron = settings.automation
    assert (eager.target, eager.condition, eager.cron_schedule) == ('tag:"fresh"', "eager", None)
    assert (cron.condition, cron.cron_schedule, cron.timezone) == ("on_cron", "@hourly", "Asia/Tokyo")
    window, deadline, default = settings.freshness
    assert (window.time_window, window.cron) == (TimeWindow(fail_window=86400, warn_window=5400), None)
    assert deadline.cron == Deadline(deadline_cron="0 9 * * *", lower_bound_delta=3600, timezone="Asia/Tokyo")
    assert default.cron is not None
    assert (default.cron.lower_bound_delta, default.cron.timezone) == (604800, "UTC")


@pytest.mark.parametrize(
    ("entry", "code", "words"),
    [
        ("schedules: {a-b: {target: '*', cron_schedule: '@daily'}}", "RVT-104", "letters, digits and '_'"),
        ("schedules: {a: {cron_schedule: '@daily'}}", "RVT-105", "schedule 'a': `target` is missing"),
        ("schedules: {a: {target: '*'}}", "RVT-105", "schedule 'a': `cron_schedule` is missing"),
        ("schedules: {a: {target: '*', cron_schedule: 5}}", "RVT-104", "`cron_schedule` must be a text"),
        ("schedules: {a: {target: '*', cron: '@daily', cron_schedule: '@daily'}}", "RVT-103", "unknown key 'cron'"),
        ("schedules: {a: {target: '*', cron_schedule: '@daily', execution_timezone: Mars}}", "RVT-104", "a time zone"),
        ("schedules: {a: {target: '*', cron_schedule: '@daily', default_status: on}}", "RVT-104", "RUNNING or STOPPED"),
        ("schedules: {a: {target: '*', cron_schedule: '@daily', partition_offset: -1}}", "RVT-104", "at least 0"),
        ("schedules: {a: {type: sweeep, cron_schedule: '@daily'}}", "RVT-104", "did you mean 'sweep'?"),
        ("schedules: {a: {type: sweep, target: '*', cron_schedule: '@daily'}}", "RVT-103", "unknown key 'target'"),
        ("schedules: {a: {type: sweep, catalogs: [b], cron_schedule: '@daily'}}", "RVT-103", "unknown key 'catalogs'"),
        ("schedules: {a: {type: upkep, cron_schedule: '@daily'}}", "RVT-104", "did you mean 'upkeep'?"),
        ("schedules: {a: {type: upkeep, catalog: b, cron_schedule: '@daily'}}", "RVT-103", "did you mean 'catalogs'?"),
        ("schedules: {a: {type: upkeep, catalogs: [], cron_schedule: '@daily'}}", "RVT-104", "at least one catalog"),
        ("schedules: {a: {type: upkeep, catalogs: [b, b], cron_schedule: '@daily'}}", "RVT-104", "more than once"),
        ("schedules: {a: {type: upkeep, target: '*', cron_schedule: '@daily'}}", "RVT-103", "unknown key 'target'"),
        ("schedules: {a: {type: upkeep}}", "RVT-105", "schedule 'a': `cron_schedule` is missing"),
        ("schedules: {a: '@daily'}", "RVT-104", "must be a mapping, not a text"),
        ("observe: {a: {cron_schedule: '@daily'}}", "RVT-105", "observation 'a': `sources` is missing"),
        ("observe: {a: {sources: [], cron_schedule: '@daily'}}", "RVT-104", "at least one source"),
        ("observe: {a: {sources: [b, b], cron_schedule: '@daily'}}", "RVT-104", "more than once"),
        ("observe: {a: {sources: [b]}}", "RVT-105", "`cron_schedule` is missing"),
        ("observe: {a: {source: [b], sources: [b], cron_schedule: '@daily'}}", "RVT-103", "did you mean 'sources'?"),
        ("observe: {a b: {sources: [b], cron_schedule: '@daily'}}", "RVT-104", "letters, digits and '_'"),
        ("automation: {target: '*', condition: eager}", "RVT-104", "must be a list, not a mapping"),
        ("automation: [eager]", "RVT-104", "automation rule 1: must be a mapping, not a text"),
        ("automation: [{condition: eager}]", "RVT-105", "automation rule 1: `target` is missing"),
        ("automation: [{target: '*'}]", "RVT-105", "`condition` is missing"),
        ("automation: [{target: '*', condition: egaer}]", "RVT-104", "did you mean 'eager'?"),
        ("automation: [{target: '*', condition: on_cron}]", "RVT-105", "`cron_schedule` is missing"),
        ("automation: [{target: '*', condition: eager, cron_schedule: '@daily'}]", "RVT-103", "the condition is eager"),
        ("automation: [{target: '*', condition: eager, timezone: UTC}]", "RVT-103", "`timezone` has no meaning"),
        ("automation: [{target: '*', condition: on_cron, cron_schedule: '@daily', timezone: X}]", "RVT-104", "zone"),
        ("freshness: [{target: '*'}]", "RVT-105", "needs one of `time_window` and `cron`"),
        ("freshness: [{time_window: {fail_window: 1h}}]", "RVT-105", "freshness rule 1: `target` is missing"),
        ("freshness: [{target: '*', time_window: 24h}]", "RVT-104", "`time_window` must be a mapping"),
        ("freshness: [{target: '*', time_window: {}}]", "RVT-105", "time_window: `fail_window` is missing"),
        ("freshness: [{target: '*', time_window: {fail_window: 24}}]", "RVT-104", "a duration like 30s"),
        ("freshness: [{target: '*', time_window: {fail_window: 30s}}]", "RVT-104", "at least 1m"),
        ("freshness: [{target: '*', time_window: {fail_window: 1h, warn_window: 1h}}]", "RVT-104", "shorter than"),
        ("freshness: [{target: '*', time_window: {fail_window: 1h, warm_window: 2m}}]", "RVT-103", "'warn_window'"),
        ("freshness: [{target: '*', cron: {lower_bound_delta: 1h}}]", "RVT-105", "`deadline_cron` is missing"),
        ("freshness: [{target: '*', cron: {deadline_cron: '@daily'}}]", "RVT-105", "`lower_bound_delta` is missing"),
    ],
)
def test_errors_name_the_key_and_line(write: Write, entry: str, code: str, words: str) -> None:
    with pytest.raises(RivetError) as caught:
        load_project(write({"rivet.yaml": f"{MANIFEST}dagster:\n  key_prefix: x\n  {entry}\n"}), None, {})
    (found,) = caught.value.diagnostics
    assert (found.code, found.file, found.line) == (code, "rivet.yaml", FIRST + 2)
    assert words in found.message


def test_freshness_takes_exactly_one_of_two_policies(write: Write) -> None:
    both = "{target: '*', time_window: {fail_window: 1h}, cron: {deadline_cron: '@daily', lower_bound_delta: 1h}}"
    with pytest.raises(RivetError) as caught:
        load_project(write({"rivet.yaml": f"{MANIFEST}dagster:\n  freshness:\n    - {both}\n"}), None, {})
    (found,) = caught.value.diagnostics
    assert (found.code, found.line) == ("RVT-104", FIRST + 2)


def test_all_errors_are_reported_at_once_with_the_lines_of_their_keys(write: Write) -> None:
    block = BLOCK.replace("Europe/Berlin", "Berlin").replace("RUNNING\n", "on\n").replace("Asia/Tokyo\n", "Tokio\n")
    block = block.replace("24h, warn_window: 90m", "1h, warn_window: 90m").replace(
        "sources: orders,", "soures: orders,"
    )
    with pytest.raises(RivetError) as caught:
        load_project(write({"rivet.yaml": MANIFEST + block}), None, {})
    assert sorted((d.code, d.line - FIRST) for d in caught.value.diagnostics if d.line is not None) == [
        ("RVT-103", 14), ("RVT-104", 5), ("RVT-104", 6), ("RVT-104", 20), ("RVT-104", 22), ("RVT-105", 14),
    ]  # fmt: skip


EXPOSURES = """\
dagster:
  exposures:
    board:
      depends_on: [orders, customers]
      owners: [team:sales, ada@example.org]
      url: https://bi.example.org/1
      description: Who buys.
    plain: {depends_on: orders}
"""


def test_exposures(load: Load) -> None:
    board, plain = load({"rivet.yaml": MANIFEST + EXPOSURES}).dagster.exposures
    assert (board.name, board.depends_on) == ("board", ("orders", "customers"))
    assert (board.owners, board.url) == (("team:sales", "ada@example.org"), "https://bi.example.org/1")
    assert (board.description, board.origin.line_of("url")) == ("Who buys.", FIRST + 5)
    assert (plain.depends_on, plain.owners, plain.url, plain.description) == (("orders",), (), None, None)


@pytest.mark.parametrize(
    ("entry", "code", "message"),
    [
        ("a: {url: x}", "RVT-105", "exposure 'a': `depends_on` is missing"),
        ("a: {depends_on: []}", "RVT-104", "exposure 'a': `depends_on` must name at least one joint"),
        ("a: {depends_on: [x], owner: y}", "RVT-103", "exposure 'a': unknown key 'owner'; did you mean 'owners'?"),
        ("a: {depends_on: [x], owners: [me]}", "RVT-104", "`owners` holds 'me', which is neither an e-mail address"),
        ("a: {depends_on: [x], url: 1}", "RVT-104", "exposure 'a': `url` must be a text, not a number"),
        ("a b: {depends_on: [x]}", "RVT-104", "exposure 'a b': Dagster's names are letters, digits and '_'"),
        ("a: [x]", "RVT-104", "exposure 'a': must be a mapping, not a list"),
    ],
)
def test_wrong_exposures(load: Load, entry: str, code: str, message: str) -> None:
    with pytest.raises(RivetError) as caught:
        load({"rivet.yaml": f"{MANIFEST}dagster:\n  exposures:\n    {entry}\n"})
    (error,) = caught.value.diagnostics
    assert (error.code, error.line) == (code, FIRST + 2)
    assert message in error.message

"""First steps in `dagster dev` with a browser: materialize, look at checks and columns, automate.

All tests use one instance, on which everything has been materialized once by a job, and then one asset from its page.
``make torture`` materializes everything from the page, and so do tests that take pictures.
"""

import json
import time
import urllib.request
from contextlib import contextmanager

import pyarrow.dataset
import pytest
from playwright.sync_api import expect
from support.torture import TORTURE, at_length

ASSET = "reference_gaps"
RUN, TICK = 600_000, 150_000
"""Maximum milliseconds of a run of the whole example, and of a tick with the run that it requests."""


@pytest.fixture(scope="module")
def everything(pytestconfig):
    """Return whether all assets are materialized from the page."""
    return TORTURE or pytestconfig.getoption("pictures") is not None


@pytest.fixture(scope="module")
def materialized(browser, address, everything):
    """Return the page of the run that a button has started, after it has ended; nothing is drawn meanwhile."""
    place, button = ("/asset-groups", "Materialize all") if everything else (f"/assets/{ASSET}", "Materialize")
    page = browser.new_context(viewport={"width": 1600, "height": 1000}, timezone_id="UTC").new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{address}{place}")
    page.locator("button", has_text=button).click()
    launched = page.locator('a[href^="/runs/"]', has_text="View")  # in a message that disappears by itself
    href = launched.get_attribute("href")
    page.goto("about:blank")
    run = href.rpartition("/")[2]
    wait_until(lambda: status_of(address, run) in ("SUCCESS", "FAILURE"))
    page.goto(f"{address}{href}")
    return page


@pytest.mark.nightly
def test_assets_are_materialized_from_the_page(materialized, everything, project, example_run, visit, picture):
    expect(materialized.get_by_text("Success", exact=True)).to_be_visible()
    expect(materialized.get_by_text("Errored (0)")).to_be_visible()
    picture(materialized, "run")
    before, after = example_run.project / "warehouse", project / "warehouse"
    tables = {path.name for path in after.iterdir() if not path.name.startswith(".")}
    assert len(tables) == 9
    made = {table for table in tables if (before / table).resolve().name != (after / table).resolve().name}
    assert made == (tables if everything else {ASSET})
    for table in made:
        old, new = (pyarrow.dataset.dataset(place / table).count_rows() for place in (before, after))
        assert old == new > 0, table
    graph = visit("/asset-groups")
    expect(graph.get_by_text("Materialize all")).to_be_visible()
    picture(graph, "asset_graph")


@pytest.mark.nightly
def test_checks_pass_and_one_warns(materialized, visit, picture):
    page = visit("/assets/route_map?view=checks")
    expect(page.get_by_text("Checks (3)")).to_be_visible()
    expect(page.get_by_text("Succeeded", exact=True)).to_have_count(2)
    expect(page.get_by_text("7 violations").first).to_be_visible()
    expect(page.get_by_text("This is a non-blocking asset check.")).to_be_visible()
    picture(page, "asset_check")


@pytest.mark.nightly
def test_an_asset_shows_its_columns_and_their_lineage(materialized, visit, picture):
    page = visit("/assets/route_map", height=1900)
    expect(page.get_by_text("Row count")).to_be_visible()
    expect(page.get_by_text("224", exact=True).first).to_be_visible()
    for column in ("origin", "dest_lat", "great_circle_miles"):
        expect(page.get_by_text(column, exact=True).first).to_be_visible()
    lineage = page.get_by_role("row").filter(has_text="routes.usual_air_minutes").last
    expect(lineage).to_contain_text("flights.air_time, flights.distance")
    expect(page.get_by_text("WITH route_map AS (")).to_be_visible()
    picture(page, "asset_page")
    lineage.evaluate("row => row.scrollIntoView()")  # at once: the page draws its rows anew now and then
    picture(page, "column_lineage")
    upstream = visit("/assets/disruptions?view=lineage&lineageScope=upstream&lineageDepth=10")
    expect(upstream.get_by_text("daily_weather").first).to_be_visible()
    picture(upstream, "asset_lineage")


@at_length
def test_a_schedule_and_a_sensor_that_are_switched_on_tick(materialized, visit, picture, address, project):
    """Both at once, since each needs a minute to tick."""
    before = (project / "warehouse" / "reference_gaps").resolve()
    schedule = visit("/locations/definitions.py/schedules/every_minute")
    sensor = visit("/locations/definitions.py/sensors/new_flights")
    with switched_on(schedule), switched_on(sensor):
        expect(schedule.get_by_text("1 run requested").first).to_be_visible(timeout=TICK)
        expect(sensor.get_by_text("0 runs requested").first).to_be_visible(timeout=TICK)
    assert len(runs_of(address, "new_flights")) == 1  # the second tick finds no new files
    picture(schedule, "schedule")
    picture(sensor, "sensor")
    wait_until(lambda: (project / "warehouse" / "reference_gaps").resolve() != before)


@at_length
def test_a_project_that_does_not_compile_shows_all_its_errors(project, visit, address):
    mistakes = {
        project / "sinks" / "out.yaml": "type: sink\nupstream: carrier_fleet\ncatalog: warehouse\ntable: out\n",
        project / "joints" / "wrong.sql": "SELECT * FROM flights WHERE\n",
    }
    for file, text in mistakes.items():
        file.write_text(text)
    try:
        reload(address)
        page = visit("/deployment/locations")
        page.get_by_text("View error").click()
        for error in (
            "RVT-302 sinks/out.yaml:2: joint out: upstream 'carrier_fleet' is no joint; did you mean 'carrier_fleets'",
            "RVT-315 joints/wrong.sql:1: joint wrong: the SQL could not be read",
            "Correct the name, or declare the missing joint.",
        ):
            expect(page.get_by_text(error)).to_be_in_viewport()
    finally:
        for file in mistakes:
            file.unlink()
        reload(address)


def reload(address):
    """Have the code server load the project anew, as the button of the page does."""
    assert asked(address, "mutation { reloadWorkspace { __typename } }") == {
        "reloadWorkspace": {"__typename": "Workspace"}
    }


def runs_of(address, sensor):
    return asked(
        address,
        """query ($tags: [ExecutionTag!]!) { runsOrError(filter: {tags: $tags}) { ... on Runs { results { id } } } }""",
        tags=[{"key": "dagster/sensor_name", "value": sensor}],
    )["runsOrError"]["results"]


def status_of(address, run):
    query = "query ($run: ID!) { runOrError(runId: $run) { ... on Run { status } } }"
    return asked(address, query, run=run)["runOrError"]["status"]


def asked(address, query, **variables):
    """Return the answer of the UI's own server."""
    body = json.dumps({"query": query, "variables": variables}).encode()
    headers = {"Content-Type": "application/json"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/graphql", body, headers)) as reply:
        return json.load(reply)["data"]


@contextmanager
def switched_on(page):
    switch = page.get_by_role("checkbox")
    switch.wait_for(state="attached")
    switch.dispatch_event("click")
    yield
    switch.dispatch_event("click")


def wait_until(condition):
    deadline = time.monotonic() + RUN / 1000
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.5)

"""The project of docs/iceberg.md, run as written against a REST catalog with tables in S3, and the page's options."""

import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyiceberg.catalog import Catalog, load_catalog
from support.folders import MANIFEST, in_order
from support.iceberg import PACKAGES
from support.maven import jars
from support.s3 import KEY, REGION, SECRET
from support.spark import MASTER

from rivet_dagster import compile_directory
from rivet_dagster.catalogs.registry import open_catalog
from rivet_dagster.cli.main import main
from rivet_dagster.errors import RivetError

PAGE = (Path(__file__).parents[2] / "docs/iceberg.md").read_text()
BLOCKS = dict(re.findall(r"```\w+\n(?:#|--) ([^\n]+)\n(.*?)```", PAGE, re.DOTALL))
FILES = {name: text for name, text in BLOCKS.items() if ": " not in name and name != "sources/closed_quarter.yaml"}
COMMANDS = re.findall(r"^rivet-dagster (.+?)  +#", PAGE, re.MULTILINE)
VERSION_COMMANDS = [command for command in COMMANDS if "VERSION" in command]
HEADER = "id,customer,amount,paid_at\n"
FIRST = "1,ann,10.50,2026-01-05T10:00:00\n2,bob,n/a,2026-01-06T10:00:00\n3,ann,4.25,2026-02-01T10:00:00\n4,cyd,1.00,\n"
SECOND = "2,bob,20.00,2026-02-02T10:00:00\n3,ann,5.00,2026-02-03T10:00:00\n"

Cli = Callable[[str], str]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page's project, with the Spark master of these tests."""
    root = tmp_path_factory.mktemp("page") / "project"
    profile = FILES["profiles.yaml"]
    assert "master: local[*]" in profile
    texts = FILES | {"profiles.yaml": profile.replace("master: local[*]", f"master: {MASTER}")}
    for name, text in {**texts, "rivet.yaml": yaml.safe_dump(MANIFEST)}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "data").mkdir()
    return root


@pytest.fixture(scope="module")
def environment(iceberg_rest, s3, tmp_path_factory) -> dict[str, str]:
    """Start the servers, and return the variables that the page names."""
    store = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO", **s3.iceberg_options}
    uri = iceberg_rest.catalog(tmp_path_factory.mktemp("lake"), warehouse=f"s3://{s3.bucket()}/lake", **store)
    found = {"URI": uri, "TOKEN": "token-of-tests", "STORE": s3.endpoint, "KEY": KEY, "SECRET": SECRET}
    named = set(re.findall(r"\$\{LAKE_(\w+)\}", FILES["profiles.yaml"]))
    assert named == set(found)
    return {f"LAKE_{name}": value for name, value in found.items()} | {"RIVET_PROFILE": "production"}


@pytest.fixture(scope="module")
def lake(environment) -> Catalog:
    """Open the catalog as any program does that knows Iceberg."""
    store = {"s3.endpoint": environment["LAKE_STORE"], "s3.region": REGION}
    login = {"s3.access-key-id": KEY, "s3.secret-access-key": SECRET}
    return load_catalog("lake", type="rest", uri=environment["LAKE_URI"], **store, **login)


@pytest.fixture(scope="module")
def variables(environment) -> Iterator[None]:
    """Set the variables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("DAGSTER_HOME", raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def cli(place, variables, capfd) -> Cli:
    """Return a function that runs a command of the page, and returns what it prints."""

    def cli(command: str) -> str:
        capfd.readouterr()
        code = main(["-p", str(place), *shlex.split(command)])
        out, err = capfd.readouterr()
        assert code == 0, err
        assert SECRET not in out + err
        return out

    return cli


@pytest.fixture(scope="module")
def has_run(place, variables, application) -> None:
    """Run the commands of the page on two batches of payments."""
    jars(*PACKAGES)
    for batch in (FIRST, SECOND):
        (place / "data/orders.csv").write_text(HEADER + batch)
        for command in COMMANDS:
            if command not in (*VERSION_COMMANDS, "upkeep"):
                assert main(["-p", str(place), *shlex.split(command)]) == 0, command


def rows(table: Any, **state: Any) -> list[Mapping[str, Any]]:
    return in_order(table.scan(**state).to_arrow().to_pylist())


@pytest.mark.nightly
def test_the_tables_hold_what_the_payments_say(has_run, lake):
    assert sorted(lake.list_tables("sales")) == [("sales", "paid_orders"), ("sales", "paid_orders__errors")]
    orders = rows(lake.load_table("sales.paid_orders"))
    shown = [(row["id"], row["customer"], str(row["amount"]), f"{row['paid_at']:%m-%d}") for row in orders]
    assert shown == [(1, "ann", "10.50", "01-05"), (2, "bob", "20.00", "02-02"), (3, "ann", "5.00", "02-03")]
    revenue = rows(lake.load_table("marts.revenue_by_customer"))
    assert [(row["customer"], str(row["revenue"])) for row in revenue] == [("ann", "5.00"), ("bob", "20.00")]


@pytest.mark.nightly
def test_corrected_payments_have_no_errors_any_more(has_run, lake):
    published = lake.load_table("sales.paid_orders")
    errors = lake.load_table("sales.paid_orders__errors")
    assert errors.properties["rivet.errors-of"] == "sales.paid_orders"
    assert rows(errors) == []
    by_rows = {s.summary["rivet.data-snapshot-id"]: s.snapshot_id for s in errors.snapshots() if told(s)}
    first = next(s for s in published.snapshots() if told(s))
    (error,) = rows(errors, snapshot_id=by_rows[str(first.snapshot_id)])
    assert (error["joint"], error["code"], error["key"]) == ("payments", "CAST_INVALID_INPUT", '{"id":2}')


def told(snapshot: Any) -> bool:
    return "rivet.identity" in snapshot.summary.additional_properties


@pytest.mark.nightly
def test_the_layout_is_the_declared_one_and_all_files_are_in_s3(has_run, lake):
    orders = lake.load_table("sales.paid_orders")
    assert [(field.name, str(field.transform)) for field in orders.spec().fields] == [
        ("paid_at_month", "month"),
        ("customer_bucket", "bucket[4]"),
    ]
    assert [str(field).split("(")[0].strip() for field in orders.sort_order().fields]
    assert len(orders.sort_order().fields) == 2
    assert orders.properties["write.parquet.compression-codec"] == "zstd"
    assert orders.properties["write.target-file-size-bytes"] == "134217728"
    files = [task.file.file_path for task in orders.scan().plan_files()]
    assert files
    assert all(path.startswith(f"{orders.location()}/data/") and path.startswith("s3://") for path in files)


@pytest.mark.nightly
def test_a_snapshot_tells_who_published_it_and_from_what(has_run, lake):
    orders = lake.load_table("sales.paid_orders")
    assert set(orders.refs()) == {"main"}
    current = orders.current_snapshot().summary
    documented = set(
        re.findall(r"`(rivet\.[\w-]+)`", PAGE.partition("| Property of a snapshot")[2].partition("\n\n")[0])
    )
    assert {name for name in current.additional_properties if name.startswith("rivet.")} <= documented
    assert current["rivet.identity"] == f"{current['rivet.run-id']}/paid_orders"
    assert set(json.loads(current["rivet.inputs"])) == {"orders"}
    counted = [current[f"rivet.rows{end}"] for end in ("", "-before", "-inserted", "-updated", "-deleted")]
    assert counted == ["3", "2", "1", "1", "0"]
    assert current["rivet.errors-table"] == "paid_orders__errors"
    parent = orders.snapshot_by_id(orders.current_snapshot().parent_snapshot_id)
    assert parent.summary["spark.merge-into.num-target-rows-updated"] == "1"
    marks = set(re.findall(r"`(rivet\.[\w-]+)", PAGE.partition("| Property of a table")[2].partition("\n\n")[0]))
    assert {name for name in orders.properties if name.startswith("rivet.")} <= marks


@pytest.mark.nightly
def test_a_rollback_publishes_the_rows_of_an_older_snapshot(has_run, lake, cli):
    assert VERSION_COMMANDS[0].startswith("versions rollback paid_orders VERSION")
    orders = lake.load_table("sales.paid_orders")
    older = next(snapshot.snapshot_id for snapshot in orders.snapshots() if told(snapshot))
    newest = orders.current_snapshot().snapshot_id
    listed = cli("versions list paid_orders")
    assert str(older) in listed
    assert str(newest) in listed
    cli(VERSION_COMMANDS[0].replace("VERSION", str(older)))
    rolled_back = lake.load_table("sales.paid_orders")
    assert [row["id"] for row in rows(rolled_back)] == [1, 3]
    assert rows(rolled_back, snapshot_id=newest) == rows(orders)
    assert len(rows(lake.load_table("sales.paid_orders__errors"))) == 1
    for command in VERSION_COMMANDS[1:]:
        with pytest.raises(AssertionError, match="RVT-408"):
            cli(command.replace("VERSION", str(newest)))


@pytest.mark.nightly
def test_a_source_reads_the_state_that_its_options_name(has_run, lake, place, variables):
    (declared,) = [spec for spec in compile_directory(place).catalogs if spec.name == "lake"]
    catalog = open_catalog(declared, place, os.environ)
    source = yaml.safe_load(BLOCKS["sources/closed_quarter.yaml"])
    table = lake.load_table(source["table"])
    first, *_, newest = [snapshot for snapshot in table.snapshots() if told(snapshot)]
    with table.manage_snapshots() as changes:
        changes.create_tag(first.snapshot_id, source["options"]["tag"])
        changes.create_branch(first.snapshot_id, "audit")
    (documented,) = re.findall(r"\| Option \| Which state is read \|\n(.*?)\n\n", PAGE, re.DOTALL)
    options = [yaml.safe_load(text) for text in re.findall(r"\| `(.+?)` \|", documented)]
    assert [next(iter(option)) for option in options] == ["branch", "tag", "snapshot_id", "as_of"]
    options[2]["snapshot_id"] = first.snapshot_id
    for option in options[:3]:
        assert catalog.data_version(source["table"], option) == str(first.snapshot_id)
    assert catalog.data_version(source["table"], {}) == str(newest.snapshot_id)
    with pytest.raises(RivetError, match=r"RVT-403 the table marts.revenue_by_customer has no snapshot of 2026-03-31"):
        catalog.data_version(source["table"], options[3])
    assert catalog.data_version(source["table"], {"as_of": "2126-03-31"}) == str(newest.snapshot_id)


@pytest.mark.nightly
def test_upkeep_leaves_the_rows_as_they_are(has_run, lake, cli):
    before = rows(lake.load_table("sales.paid_orders"))
    assert "upkeep" in COMMANDS
    printed = cli("upkeep")
    assert "paid_orders" in printed
    assert rows(lake.load_table("sales.paid_orders")) == before


@pytest.mark.parametrize("name", ["profiles.yaml: a folder", "profiles.yaml: other kinds"])
def test_the_other_profiles_of_the_page_compile(name, tmp_path, monkeypatch):
    monkeypatch.setenv("DB_PASSWORD", "hunter22")
    declared = yaml.safe_load(BLOCKS[name])
    if "local" not in declared:
        raw = {"type": "filesystem", "path": "data", "format": "csv"}
        spark = {"name": "spark", "type": "pyspark", "catalogs": ["raw", *declared]}
        declared = {"local": {"catalogs": {"raw": raw, **declared}, "engines": [spark]}}
    for file, text in {**FILES, "rivet.yaml": yaml.safe_dump(MANIFEST)}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    for catalog in [name for name in declared["local"]["catalogs"] if name != "raw"]:
        (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(declared))
        for file in (tmp_path / "sinks").iterdir():
            text = FILES[f"sinks/{file.name}"].replace("catalog: lake", f"catalog: {catalog}")
            file.write_text(re.sub(r"table: (\w+)$", r"table: sales.\1", text, flags=re.MULTILINE))
        assert compile_directory(tmp_path, profile="local").errors == ()

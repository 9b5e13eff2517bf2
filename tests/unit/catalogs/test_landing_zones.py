"""Listing, reading and archiving the files of a landing zone, without an engine."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import pytest
from support.tables import catalog, fill, publish, refused, tree

from rivet_dagster.catalogs.filesystem.sources.landing import FilesystemLandingZone
from rivet_dagster.model.inputs import ConsumedFiles, LandedFile
from rivet_dagster.model.storage import Provenance

NAMES = ("a.csv", "b c.csv", "[x]*.csv", "2026/01/d.csv", "2026/day=1/e.csv", "%41.csv", "ümlaut.csv")
IGNORED = (".hidden.csv", "_tmp.csv", "_archive/v1/a.csv", "2026/_archive/v1/d.csv", ".git/x.csv", "_day/z.csv")


def zone(root: Path, table: str = "zone", **options: object) -> FilesystemLandingZone:
    return catalog(root, path=".", format="csv").landing_zone(table, options)


def put(root: Path, *names: str, text: str = "id\n1\n") -> None:
    for name in names:
        path = root / "zone" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(files: tuple[LandedFile, ...]) -> list[str]:
    return [file.path.removeprefix("zone/") for file in files]


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    put(tmp_path, *NAMES, *IGNORED)
    return tmp_path


def test_a_directory_means_all_files_in_and_below_it(landed):
    assert names(zone(landed).files()) == sorted(NAMES)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("zone/*.csv", ["%41.csv", "[x]*.csv", "a.csv", "b c.csv", "ümlaut.csv"]),
        ("zone/[!a]*.csv", ["%41.csv", "[x]*.csv", "b c.csv", "ümlaut.csv"]),
        ("zone/*", sorted(NAMES)),  # matching folders are read, too
        ("zone/*/*", ["2026/01/d.csv", "2026/day=1/e.csv"]),
        ("zone/*/*/*.csv", ["2026/01/d.csv", "2026/day=1/e.csv"]),
        ("zone/{a,b c}.csv", ["a.csv", "b c.csv"]),
        ("zone/_archive/v1/*.csv", ["_archive/v1/a.csv"]),  # explicitly named
        ("zone/no*", []),
    ],
)
def test_a_glob_matches_no_files_in_an_archive(landed, table, expected):
    assert names(zone(landed, table).files()) == expected


def test_a_file_is_identified_by_path_size_and_time(tmp_path):
    put(tmp_path, "a.csv")
    (before,) = zone(tmp_path).files()
    path = tmp_path / "zone/a.csv"
    status = path.stat()
    assert before == LandedFile("zone/a.csv", status.st_size, status.st_mtime_ns)
    os.utime(path, ns=(0, before.mtime_ns + 1))
    (later,) = zone(tmp_path).files()
    path.write_text("id\n10\n")
    os.utime(path, ns=(0, before.mtime_ns))
    (longer,) = zone(tmp_path).files()
    assert len({before, later, longer}) == 3


def test_a_moved_catalog_recognizes_its_consumed_files(tmp_path):
    put(tmp_path / "one", "a.csv")
    files = zone(tmp_path / "one").files()
    (tmp_path / "one").rename(tmp_path / "two")
    assert zone(tmp_path / "two").files() == files
    assert zone(tmp_path / "elsewhere", str(tmp_path / "two/zone")).files()[0].path == str(tmp_path / "two/zone/a.csv")


def test_a_relation_has_exactly_the_given_files(landed):
    one = zone(landed, sep=";")
    chosen = [file for file in one.files() if "[x]" in file.path or file.path.endswith("d.csv")]
    relation = one.relation(chosen)
    assert relation.format == "csv"
    assert relation.paths == (str(landed / "zone/2026/01/d.csv"), str(landed / "zone/[x]*.csv"))
    # Partition folders below the directory add columns.
    csv = {"header": "true", "enforceSchema": "false", "sep": ";"}
    assert relation.options == {**csv, "basePath": f"file://{landed}/zone"}
    assert zone(landed, "zone/*.csv").relation(()).options.keys() == {"header", "enforceSchema"}
    assert zone(landed, basepath="/x").relation(chosen).options["basepath"] == "/x"


@pytest.mark.parametrize("table", ["nothing", "nothing/*.csv", "zone/no/*.csv"])
def test_a_missing_zone_is_an_error_and_not_empty(landed, table):
    assert refused(zone(landed, table).files).code == "RVT-403"


def test_a_zone_must_not_be_a_file(landed):
    assert "zone/a.csv is a file" in str(refused(zone(landed, "zone/a.csv").files))


@pytest.mark.parametrize("table", ["zone", "zone/*.csv"])
def test_a_zone_that_cannot_be_listed_is_an_error_and_not_empty(landed, table):
    list_folder, scan = os.listdir, os.scandir

    def stale(call: Callable) -> Callable:
        def refuse(path: object = ".") -> object:
            if str(path).endswith("zone"):
                raise OSError(errno.ESTALE, "Stale file handle")
            return call(path)

        return refuse

    with patch("os.listdir", stale(list_folder)), patch("os.scandir", stale(scan)):
        error = refused(zone(landed, table).files)
    assert (error.code, "cannot be listed: Stale file handle" in str(error)) == ("RVT-403", True)


# archive


def test_only_the_given_files_are_archived(landed):
    one = zone(landed)
    before = {name: (landed / "zone" / name).read_bytes() for name in (*NAMES, *IGNORED)}
    chosen = [file for file in one.files() if file.path.endswith(("d.csv", "*.csv", "b c.csv"))]
    one.archive(chosen, "v2")
    moved = {"2026/01/d.csv", "[x]*.csv", "b c.csv"}
    expected = {name: before[name] for name in before if name not in moved}
    for name in moved:
        folder, _, last = f"/{name}".rpartition("/")
        expected[f"{folder}/_archive/v2/{last}".lstrip("/")] = before[name]
    files = [path for path in (landed / "zone").rglob("*") if path.is_file()]
    assert {str(path.relative_to(landed / "zone")): path.read_bytes() for path in files} == expected
    assert names(one.files()) == sorted(set(NAMES) - moved)


@pytest.mark.parametrize(
    ("table", "archived", "found"),
    [
        ("zone", "_archive/v1/a.csv", True),
        ("zone", "2026/day=1/_archive/v1/e.csv", True),
        ("zone", "_archive/a.csv", False),  # not put there by a run
        ("zone", "_day/_archive/v1/z.csv", False),  # in a folder that no run reads
        ("zone/a*.csv", "_archive/v1/a1.csv", True),
        ("zone/{x,a}*.csv", "_archive/v1/a1.csv", True),
        ("zone/b*.csv", "_archive/v1/a1.csv", False),
        ("zone/*/*.csv", "2026/_archive/v1/d.csv", True),
        ("zone/*", "2026/_archive/v1/d.csv", True),
        ("zone/*.csv", "2026/_archive/v1/d.csv", False),
    ],
)
def test_archived_files_are_found_as_long_as_they_are_there(tmp_path, table, archived, found):
    put(tmp_path, "2026/d.csv")
    os.symlink(tmp_path / "zone", tmp_path / "zone/2026/link")
    assert zone(tmp_path, table).archived() is None
    put(tmp_path, archived)
    assert zone(tmp_path, table).archived() == (f"zone/{archived}" if found else None)
    (tmp_path / "zone" / archived).unlink()
    assert zone(tmp_path, table).archived() is None


def test_changed_or_removed_files_are_not_archived(tmp_path):
    put(tmp_path, "a.csv", "b.csv", "c.csv")
    files = zone(tmp_path).files()
    put(tmp_path, "a.csv", text="id\n1\n2\n")
    (tmp_path / "zone/b.csv").unlink()
    zone(tmp_path).archive(files, "v1")
    assert tree(tmp_path / "zone") == ["_archive", "_archive/v1", "_archive/v1/c.csv", "a.csv"]


def test_a_file_replaced_during_archiving_is_restored(tmp_path):
    put(tmp_path, "a.csv")
    files = zone(tmp_path).files()
    rename = os.rename

    def replaced(source: Path, target: Path) -> None:
        put(tmp_path, "new", text="another")
        os.replace(tmp_path / "zone/new", source)
        rename(source, target)

    with patch("os.rename", replaced):
        zone(tmp_path).archive(files, "v1")
    assert (tmp_path / "zone/a.csv").read_text() == "another"
    assert tree(tmp_path / "zone/_archive") == ["v1"]


def test_files_added_during_archiving_are_not_overwritten(tmp_path):
    put(tmp_path, "a.csv")
    files = zone(tmp_path).files()
    rename = os.rename

    def replaced_twice(source: Path, target: Path) -> None:
        put(tmp_path, "a.csv", text="another")
        rename(source, target)
        put(tmp_path, "a.csv", text="one more")

    with patch("os.rename", replaced_twice):
        error = refused(zone(tmp_path).archive, files, "v1")
    assert error.code == "RVT-410"
    assert (tmp_path / "zone/a.csv").read_text() == "one more"
    assert (tmp_path / "zone/_archive/v1/a.csv").read_text() == "another"


def test_two_processes_may_archive_the_same_files(tmp_path):
    put(tmp_path, "a.csv", "b.csv")
    files = zone(tmp_path).files()
    rename = os.rename

    def overtaken(source: Path, target: Path) -> None:
        with patch("os.rename", rename):
            zone(tmp_path).archive(files, "other")
        rename(source, target)

    with patch("os.rename", overtaken):
        zone(tmp_path).archive(files, "mine")
    assert tree(tmp_path / "zone/_archive/other") == ["a.csv", "b.csv"]
    assert tree(tmp_path / "zone/_archive/mine") == []


def test_archived_files_are_not_overwritten_and_other_files_are_moved(tmp_path):
    put(tmp_path, "a.csv", "b.csv")
    put(tmp_path, "_archive/v1/a.csv", text="older")
    error = refused(zone(tmp_path).archive, zone(tmp_path).files(), "v1")
    assert error.code == "RVT-410"
    assert "cannot archive zone/a.csv: zone/_archive/v1/a.csv exists already" in str(error)
    assert (tmp_path / "zone/_archive/v1/a.csv").read_text() == "older"
    assert tree(tmp_path / "zone") == ["_archive", "_archive/v1", "_archive/v1/a.csv", "_archive/v1/b.csv", "a.csv"]


def test_if_no_file_can_be_moved_the_first_ones_are_named(tmp_path):
    put(tmp_path, *(f"{n}.csv" for n in range(5)))
    put(tmp_path, "_archive", text="in the way")
    error = refused(zone(tmp_path).archive, zone(tmp_path).files(), "v1")
    assert error.code == "RVT-410"
    assert error.diagnostics[0].message.count("zone/") == 3
    assert "and 2 more" in error.diagnostics[0].message
    assert len(zone(tmp_path).files()) == 5


def test_a_moved_link_still_points_to_its_file(tmp_path):
    put(tmp_path, "../store/a.csv")
    (tmp_path / "zone").mkdir(exist_ok=True)
    (tmp_path / "zone/a.csv").symlink_to("../store/a.csv")
    (tmp_path / "zone/gone.csv").symlink_to("../store/nothing.csv")
    files = zone(tmp_path).files()
    assert names(files) == ["a.csv"]
    zone(tmp_path).archive(files, "v1")
    assert (tmp_path / "zone/_archive/v1/a.csv").resolve() == tmp_path / "store/a.csv"
    assert not (tmp_path / "zone/a.csv").is_symlink()


# consumed files


READ = {
    "zone": ConsumedFiles((LandedFile("zone/\udc80ü.csv", 1, 2),), (LandedFile("zone/b.csv", 3, 4),), "id INT"),
    "empty": ConsumedFiles(),
}


@pytest.fixture
def warehouse(tmp_path):
    return catalog(tmp_path, versions=3)


def staged(warehouse):
    return fill(warehouse.begin("orders"), [1])


def test_consumed_files_are_published_with_the_version(tmp_path, warehouse):
    published = staged(warehouse).commit("run", Provenance(READ))
    assert published.landed == READ
    assert catalog(tmp_path).current("orders") == published
    assert warehouse.published_by("orders", "run").landed == READ
    assert publish(warehouse, [2]).landed == {}


def test_a_version_of_an_older_release_has_no_consumed_files(warehouse):
    published = publish(warehouse, [1])
    path = Path(warehouse.read(published).paths[0]).with_suffix(".json")
    text = path.read_text()
    assert '"landed": {}' in text
    path.write_text(text.replace(',\n  "landed": {}', ""))
    assert "landed" not in path.read_text()
    assert warehouse.current("orders") == published


def test_a_rollback_restores_the_consumed_files_of_the_version(warehouse):
    first = staged(warehouse).commit("one", Provenance(READ))
    publish(warehouse, [2])
    back = warehouse.restage("orders", first.version).commit("rollback")
    assert back.landed == READ


def test_a_withheld_version_retains_its_consumed_files(tmp_path, warehouse):
    transaction = staged(warehouse)
    transaction.withhold(made=Provenance(READ))
    publish(warehouse, [2])
    assert catalog(tmp_path).take_up("orders", transaction.version).commit("by hand").landed == READ
    assert not [path for path in tree(tmp_path / "warehouse") if ".kept" in path]


def test_a_withheld_version_of_an_older_release_has_no_consumed_files(tmp_path, warehouse):
    transaction = staged(warehouse)
    transaction.withhold(made=Provenance(READ))
    (tmp_path / f"warehouse/.rivet/orders/{transaction.version}.kept").write_text("")
    assert warehouse.take_up("orders", transaction.version).commit("by hand").landed == {}

"""The cache of footers beside a version, and the totals of its files."""

import json
import os
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from random import Random

import pytest

from rivet_dagster.catalogs.filesystem.files import data_files
from rivet_dagster.catalogs.filesystem.files.data_files import Footers
from rivet_dagster.catalogs.filesystem.files.footer_cache import StoredValues, read_footers
from rivet_dagster.catalogs.filesystem.files.footers import Footer
from rivet_dagster.catalogs.totals import Totals
from rivet_dagster.errors import RivetError
from rivet_dagster.model.storage import ColumnStatistics, Statistics


def of_all(parts: list[Statistics]) -> Statistics:
    """The statistics of all files, as each of them is looked at."""
    filled = [part for part in parts if part.rows]
    values = {}
    for name in parts[0].values:
        known = [part.values.get(name, ColumnStatistics()) for part in filled]
        if any(each.nulls is None for each in known):
            values[name] = ColumnStatistics()
            continue
        bounded = [each for part, each in zip(filled, known, strict=True) if each.nulls < part.rows]
        least = greatest = None
        if all(each.min is not None for each in bounded):
            least, greatest = min((e.min for e in bounded), default=None), max((e.max for e in bounded), default=None)
        values[name] = ColumnStatistics(sum(each.nulls for each in known), least, greatest)
    return Statistics(sum(part.rows for part in parts), sum(part.bytes for part in parts), parts[0].columns, values)


def file_statistics(random: Random) -> Statistics:
    rows, values = random.randrange(4), {}
    for name in "ab":
        nulls = random.randint(0, rows)
        bounds = sorted(random.choices(range(6), k=2)) if nulls < rows and random.random() > 0.02 else (None, None)
        if random.random() > 0.02:
            values[name] = ColumnStatistics() if random.random() < 0.02 else ColumnStatistics(nulls, *bounds)
    return Statistics(rows, rows * 10, (), values)


def test_totals_that_follow_files_are_those_of_all_files():
    random = Random(7)
    for _ in range(2000):
        files = [file_statistics(random) for _ in range(random.randint(1, 8))]
        totals, there = Totals(), set()
        for _ in range(4):
            wanted = set(random.sample(range(len(files)), random.randint(1, len(files))))
            for number in there - wanted:
                totals.remove(files[number])
            for number in wanted - there:
                totals.add(files[number])
            there = wanted
            parts = [files[number] for number in sorted(there)]
            totals.restore(parts)
            assert totals.statistics(parts[0]) == of_all(parts)


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Files whose footers are told here, and counted where they are read."""
    zone = timezone(timedelta(hours=2))
    values = {
        "id": [(1, 2), (3, 9), (0, 5)],
        "name": [("a", "b"), ('é"}', "ü\n"), ("", "z")],
        "day": [(date(2024, 1, 1), date(2024, 1, 2))] * 3,
        "at": [(datetime(2024, 1, n, tzinfo=zone), datetime(2024, 2, n, 1, 2, 3, 4, tzinfo=zone)) for n in (1, 2, 3)],
        "hour": [(time(1), time(2))] * 3,
        "price": [(Decimal("1.50"), Decimal("2.5"))] * 3,
        "paid": [(False, True)] * 3,
        "for": [(timedelta(1), timedelta(2))] * 3,
    }
    footers, read = {}, []
    for n, name in enumerate(["one.parquet", 'two " {}.parquet', "three.parquet"]):
        (tmp_path / name).write_text("x" * n)
        known = {column: ColumnStatistics(n, *bounds[n]) for column, bounds in values.items()}
        columns = (("id", "int"), *((column, "string") for column in values)) if n else ()
        footers[name] = Footer(Statistics(10 + n, n, columns, known), "schema" * n or None)

    def footer_of(path):
        read.append(path.name)
        return footers[path.name]

    monkeypatch.setattr(data_files, "footer_of", footer_of)
    return [tmp_path / name for name in footers], read


def test_footers_are_read_once_and_copied_from_version_to_version(table, tmp_path):
    files, read = table
    caches = [tmp_path / f"{n}.files.json" for n in range(3)]
    first = Footers()
    first.write(files[:2], caches[0])
    assert len(read) == 2
    second = Footers(caches[0])
    second.write(files, caches[1])
    assert len(read) == 3
    third = Footers(caches[1])
    assert isinstance(third.of(files[0]).statistics.values, StoredValues)
    together = third.statistics(files)
    third.write(files[1:], caches[2])
    assert len(read) == 3

    direct = Footers()
    assert together == direct.statistics(files)
    assert together.values["id"] == ColumnStatistics(3, 0, 9)
    assert together.values["for"] == ColumnStatistics(3)  # JSON has no such value
    assert Footers(caches[2]).statistics(files[1:]) == direct.statistics(files[1:])
    for path in files:
        assert third.of(path) == direct.of(path)


def test_a_cache_is_json_as_earlier_releases_wrote_it_and_theirs_is_read(table, tmp_path):
    files, read = table
    path, older = tmp_path / "new.files.json", tmp_path / "old.files.json"
    Footers().write(files, path)
    fields = json.loads(path.read_text())
    assert fields["files"]["three.parquet"]["values"]["price"] == [2, {"decimal": "1.50"}, {"decimal": "2.5"}]
    del fields["totals"]
    older.write_text(json.dumps(fields, separators=(",", ":")) + "\n")
    read.clear()
    assert Footers(older).statistics(files) == Footers(path).statistics(files)
    assert read_footers(older).footers == read_footers(path).footers
    assert not read


def test_a_damaged_cache_is_named(table, tmp_path):
    files, _ = table
    path = tmp_path / "new.files.json"
    Footers().write(files, path)
    text = path.read_text()
    shorter, wrong = text.replace('[1,"\\u00e9', '["\\u00e9'), text.replace('"size"', '"sizes"', 1)
    for damaged in (text[:-1], text[: len(text) // 2], wrong, shorter):
        assert damaged != text
        path.write_text(damaged)
        footers = Footers(path)
        with pytest.raises(RivetError, match=r"RVT-407 .*new\.files\.json is damaged"):
            [dict(footers.of(file).statistics.values) for file in files]


def test_a_file_that_has_changed_is_read_again(table, tmp_path):
    files, read = table
    path = tmp_path / "new.files.json"
    Footers().write(files, path)
    os.utime(files[0], ns=(5, 5))
    read.clear()
    Footers(path).statistics(files)
    assert read == [files[0].name]

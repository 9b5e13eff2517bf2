"""Which batches of a history are found, in its files, to have keys with one open version each, and nothing else."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.torture import examples

from rivet_dagster.catalogs.filesystem.files.footers import footer_of, read_statistics
from rivet_dagster.catalogs.rewriting import current_keys
from rivet_dagster.catalogs.rewriting.current_keys import keys_in_files
from rivet_dagster.catalogs.rewriting.incoming import BatchKeys
from rivet_dagster.model.relations import Files
from rivet_dagster.model.storage import Base, StoredRows
from rivet_dagster.model.write_plan import History

PLAN = History(keys=("ID",), effective_at="at")
START = datetime(2026, 1, 1, tzinfo=UTC)
INSTANT = pa.timestamp("us", "UTC")
TYPES = {"id": pa.int64(), "part": pa.string(), "at": INSTANT, "valid_from": INSTANT, "valid_to": INSTANT}


def hour(number):
    return None if number is None else START + timedelta(hours=number)


@pytest.fixture
def judged(tmp_path):
    """Return a function that returns what is known about the keys of a batch."""
    numbers = iter(range(10**6))

    def stored(names, rows, types):
        path = tmp_path / f"{next(numbers)}.parquet"
        columns = [pa.array(values, types[name]) for name, values in zip(names, zip(*rows, strict=True), strict=True)]
        pq.write_table(pa.Table.from_arrays(columns, names), path)
        return path

    def look(batch, *history, plan=PLAN, started=START, types=TYPES, base_types=TYPES, is_whole=False):
        batch_file = stored(["id", "part", "at"], batch, types)
        files = [
            stored(["part", "Id", "valid_from", "valid_to"], rows, {**base_types, "Id": base_types["id"]})
            for rows in history
        ]
        relation = Files("parquet", tuple(map(str, files)))
        base = Base(relation, footer_of(files[0]).statistics.columns)
        rows = StoredRows(Files("parquet", (str(batch_file),)), read_statistics([batch_file]))
        return keys_in_files(plan, base, is_whole, rows, started)

    return look


@pytest.fixture
def looked(judged):
    """Return a function that says whether the keys of a batch are found to be current."""

    def look(*rows, **options):
        known = judged(*rows, **options)
        assert known in (BatchKeys.ANY, BatchKeys.CURRENT)
        return known is BatchKeys.CURRENT

    return look


CURRENT = [("a", 1, hour(0), None), ("a", 2, hour(1), None), ("a", None, hour(0), None)]
CLOSED = [("a", 1, hour(-5), hour(0)), ("a", 3, hour(-5), hour(-4))]


@pytest.mark.parametrize(
    ("batch", "is_current"),
    [
        ([(1, "a", hour(1))], True),
        ([(1, "b", hour(1)), (2, "b", hour(2)), (None, "b", hour(1))], True),
        ([(1, "a", hour(1)), (1, "a", hour(2))], False),
        ([(None, "a", hour(1)), (None, "a", hour(1))], False),
        ([(2, "a", hour(0))], False),
        ([(3, "a", hour(1))], False),
        ([(1, "a", hour(1)), (4, "a", hour(1))], False),
        ([(1, "a", None)], False),
    ],
    ids=["in time", "NULL", "repeated", "NULL repeated", "late", "closed", "new", "without a time"],
)
def test_keys(looked, batch, is_current):
    assert looked(batch, CURRENT[:2], [CURRENT[2], *CLOSED]) == is_current


@pytest.mark.parametrize(
    ("batch", "known"),
    [
        ([(1, "a", hour(1)), (4, "a", hour(1))], BatchKeys.CURRENT_OR_NEW),
        ([(None, "a", hour(-9)), (4, "a", hour(-9))], BatchKeys.ANY),
        ([(5, "a", hour(1)), (4, "a", hour(1))], BatchKeys.CURRENT_OR_NEW),
        ([(3, "a", hour(1)), (4, "a", hour(1))], BatchKeys.ANY),
        ([(4, "a", hour(1)), (4, "a", hour(2))], BatchKeys.ANY),
    ],
    ids=["new", "new and late", "all new", "closed", "repeated"],
)
def test_new_keys_are_known_where_all_versions_are(judged, batch, known):
    history = CURRENT[:2], [CURRENT[2], *CLOSED]
    assert judged(batch, *history, is_whole=True) is known
    assert judged(batch, *history) is BatchKeys.ANY


def test_a_key_with_two_open_versions(looked):
    assert not looked([(1, "a", hour(9))], CURRENT, [("a", 1, hour(2), None)])
    assert looked([(2, "a", hour(9))], CURRENT, [("a", 1, hour(2), None)])


def test_a_batch_without_times_has_that_of_the_run(looked):
    plan = replace(PLAN, effective_at=None)
    assert looked([(2, "a", None)], CURRENT, plan=plan, started=hour(1))
    assert not looked([(2, "a", None)], CURRENT, plan=plan, started=hour(0))


@pytest.mark.parametrize(
    "changed",
    [
        {"id": pa.float64()},
        {"id": pa.decimal128(5, 0)},
        {"at": pa.timestamp("us")},
        {"at": pa.date32()},
        {"valid_from": pa.timestamp("us")},
        {"valid_from": pa.timestamp("ms", "UTC")},
    ],
    ids=str,
)
def test_other_types_are_not_looked_into(looked, changed):
    def naive(rows):
        return [tuple(v.replace(tzinfo=None) if isinstance(v, datetime) else v for v in row) for row in rows]

    kind = next(iter(changed.values()))
    plain = pa.types.is_date(kind) or (pa.types.is_timestamp(kind) and kind.tz is None)
    batch, history = [(1, "a", hour(1))], CURRENT
    if plain and "at" in changed:
        batch = naive(batch)
    if plain and "valid_from" in changed:
        history = [(part, key, begin.replace(tzinfo=None), end) for part, key, begin, end in CURRENT]
    types = {**TYPES, **changed}
    assert not looked(batch, history, types=types, base_types=types)
    assert looked([(1, "a", hour(1))], CURRENT, types={**TYPES, "id": pa.int32()})


def test_many_rows_are_not_looked_into(looked, monkeypatch):
    monkeypatch.setattr(current_keys, "MOST_BASE_ROWS", 2)
    assert not looked([(1, "a", hour(1))], CURRENT)
    monkeypatch.setattr(current_keys, "MOST_BASE_ROWS", 3)
    assert looked([(1, "a", hour(1))], CURRENT)
    monkeypatch.setattr(current_keys, "MOST_BASE_FILES", 1)
    assert not looked([(1, "a", hour(1))], CURRENT[:2], CURRENT[2:])
    assert looked([(1, "a", hour(1))], CURRENT)
    monkeypatch.setattr(current_keys, "MOST_BATCH_ROWS", 1)
    assert not looked([(1, "a", hour(1)), (2, "a", hour(1))], CURRENT)


def test_times_of_other_calendars_are_not_looked_into(looked):
    old = datetime(1850, 1, 1, tzinfo=UTC)
    assert not looked([(1, "a", old)], [("a", 1, old, None)])


def test_damaged_files_are_left_to_the_engine(looked, monkeypatch):
    read = pq.ParquetFile.iter_batches

    def damaged(file, *arguments, **options):
        yield from list(read(file, *arguments, **options))[1:]
        raise pa.ArrowInvalid("not read")

    assert looked([(1, "a", hour(2))], CURRENT)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", damaged)
    assert not looked([(1, "a", hour(2))], CURRENT)


def test_random_keys(judged):
    outcomes = Counter()
    for seed in range(examples(150, 2000)):
        random = Random(seed)
        keys = [(key, part) for key in (None, 1, 2, 3) for part in (None, "a", "b")]
        history = [
            (part, key, hour(random.choice([0, 0, 0, 5])), hour(random.choice([None, None, None, 9])))
            for key, part in random.sample(keys, 10)
        ]
        history += [history[0]] if random.random() < 0.2 else []
        batch = [(*key, hour(random.choice([4, 6]))) for key in random.sample(keys, random.choice([1, 2, 3]))]
        batch += [batch[0]] if random.random() < 0.1 else []
        begins, known_keys = {}, {(key, part) for part, key, _, _ in history}
        for part, key, begin, end in history:
            begins.setdefault((key, part), []).extend([begin] if end is None else [])
        plan = replace(PLAN, keys=("id", "Part"))
        proven = judged(batch, history[:4], history[4:], plan=plan, is_whole=seed % 2 == 0)
        counts = Counter((key, part) for key, part, _ in batch)
        is_current = all(
            counts[key, part] == 1 and len(begins.get((key, part), ())) == 1 and begins[key, part][0] <= at
            for key, part, at in batch
        )
        is_current_or_new = is_current or all(
            counts[key, part] == 1
            and ((key, part) not in known_keys or (len(begins[key, part]) == 1 and begins[key, part][0] <= at))
            for key, part, at in batch
        )
        assert is_current or proven is not BatchKeys.CURRENT
        assert is_current_or_new or proven is not BatchKeys.CURRENT_OR_NEW
        outcomes[is_current, proven] += 1
    assert outcomes[True, BatchKeys.CURRENT] > 2 * outcomes[True, BatchKeys.ANY]
    assert outcomes[False, BatchKeys.CURRENT_OR_NEW]
    assert outcomes[False, BatchKeys.ANY]

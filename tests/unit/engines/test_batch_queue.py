"""Batches that a slow reader has not asked for yet."""

import threading
from queue import Empty

import pyarrow as pa
import pytest

from rivet_dagster.engines.pyspark.relations.arrow_rows import BatchQueue
from rivet_dagster.engines.pyspark.waiting import stream

COUNT = 40


def test_the_source_is_read_to_its_end_however_slow_the_reader_is(tmp_path):
    ended = threading.Event()

    def source():
        for number in range(COUNT):
            yield pa.record_batch({"n": [number], "text": ["x" * 1000]})
        ended.set()

    queue = BatchQueue(tmp_path / "batches.arrow")
    batches = stream(source, lambda: None, lambda: None, queue)
    first = next(batches)
    assert ended.wait(30)
    assert (tmp_path / "batches.arrow").stat().st_size > (COUNT - 3) * 1000
    rest = list(batches)
    assert [batch["n"][0].as_py() for batch in (first, *rest)] == list(range(COUNT))
    queue.close()
    assert not list(tmp_path.iterdir())


def test_memory_and_file_take_turns(tmp_path):
    queue = BatchQueue(tmp_path / "batches.arrow", ahead=1)
    numbers = iter(range(100))
    read = []
    for round_ in range(10):
        for _ in range(round_ % 4 + 1):
            queue.put(pa.record_batch({"n": [next(numbers)]}))
        for _ in range(round_ % 3 + 1):
            read += queue.get(0.01)["n"].to_pylist() if round_ % 2 else []
    put = next(numbers)
    while len(read) < put:
        read += queue.get_nowait()["n"].to_pylist()
    assert read == list(range(put))
    with pytest.raises(Empty):
        queue.get(0.01)
    queue.close()

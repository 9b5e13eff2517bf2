"""The queries of tests: as many in one, and in as many threads, as a session says."""

import threading
from types import SimpleNamespace

import pytest

from rivet_dagster.project_tests.computation import SmallQuery, batches, compute_batches
from rivet_dagster.project_tests.values import Table


@pytest.mark.parametrize(("most", "sizes"), [(1, [1, 1, 1, 1, 1]), (2, [2, 2, 1]), (25, [5])])
def test_so_many_queries_are_computed_as_one(most, sizes):
    queries = [SmallQuery("shape", f"SELECT {n}", lambda: Table((), ())) for n in range(5)]
    assert [len(batch) for batch in batches(queries, most)] == sizes


@pytest.mark.parametrize("threads", [1, 2])
def test_a_session_is_used_in_as_many_threads_as_it_says(threads):
    computing, most, both = set(), [0], threading.Barrier(threads)

    def alone():
        computing.add(threading.get_ident())
        both.wait(10)
        most[0] = max(most[0], len(computing))
        both.wait(10)
        computing.discard(threading.get_ident())
        return Table((), ())

    session = SimpleNamespace(queries_at_once=1, threads_at_once=threads)
    assert len(compute_batches(session, [SmallQuery(n, "SELECT 1", alone) for n in range(8)])) == 8
    assert most == [threads]

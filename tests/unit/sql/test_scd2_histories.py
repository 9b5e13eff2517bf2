"""scd2 on random histories equals the Python model after each run, on an engine that needs no JVM."""

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.scd2_histories import KINDS, follow, follow_plain, histories
from support.scd2_runs import DuckDb
from support.torture import examples

KEYS = 12


@pytest.mark.slow
@settings(max_examples=examples(8, 40))
@given(st.integers(0, 2**32), st.sampled_from(KINDS))
def test_each_run_gives_the_rows_of_the_model(seed, kind):
    follow(DuckDb(), histories(Random(seed), kind, KEYS))


@pytest.mark.slow
def test_a_batch_without_unusual_keys_needs_no_order_of_versions():
    seen = set()
    for seed in range(examples(10, 60)):
        found = histories(Random(seed), KINDS[seed % len(KINDS)], KEYS)
        plain = replace(found.strategy, close_missing=False)
        seen |= follow_plain(DuckDb(), replace(found, strategy=plain))
    kinds = [(late, several, known) for late in (True, False) for several in (True, False) for known in (True, False)]
    unusual = [kind for kind in kinds if kind[0] or kind[1:] == (True, True)]
    assert seen == {
        *("late {}, several {}, known {}".format(*kind) for kind in unusual),
        *("new keys False", "new keys True", "overwritten"),
    }

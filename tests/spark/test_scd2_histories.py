"""scd2 on random histories equals the Python model after each run; ``--examples`` is the number of histories."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.scd2_histories import ALL_SEEN, KINDS, follow, follow_plain, histories
from support.scd2_runs import Spark
from support.torture import TORTURE, examples

from rivet_dagster.engines.pyspark.session import PySparkSession

SUITE = examples(1, 6)
KEYS = 150
"""Keys in each run; they are independent of each other and together cost Spark as much as one."""


@pytest.mark.nightly
def test_each_run_gives_the_rows_of_the_model(session: PySparkSession, pytestconfig: pytest.Config) -> None:
    examples = pytestconfig.getoption("--examples")
    seen: set[str] = set()

    # The failure names the wrong key, so nothing needs to be shrunk.
    @settings(
        max_examples=examples or SUITE,
        derandomize=examples is None,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, 2**32), st.sampled_from(KINDS))
    def check(seed: int, kind: str | None) -> None:
        seen.update(follow(Spark(session), histories(Random(seed), kind, KEYS)))

    check()
    if TORTURE or examples:
        assert seen == ALL_SEEN


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_without_unusual_keys_needs_no_order_of_versions(session: PySparkSession, kind: str | None) -> None:
    found = histories(Random(1), kind, KEYS)
    plain = replace(found.strategy, close_missing=False)
    assert follow_plain(Spark(session), replace(found, strategy=plain, runs=found.runs[:3])) >= {"new keys True"}

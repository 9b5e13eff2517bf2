"""Hints among many names equal those of a comparison with all names, at a bounded cost."""

from __future__ import annotations

import time

import pytest

from rivet_dagster.errors import nearest
from rivet_dagster.near_names import NearNames

WORDS = "orders customers items daily weekly raw stg fct sales region product stock price events".split()
NAMES = sorted({f"{a}_{b}_{c}" for a in WORDS for b in WORDS for c in WORDS if len({a, b, c}) == 3})


@pytest.mark.parametrize("wrong", ["stg_ordrs_daily", "fct_sales_reigon", "raw_itemsweekly", "rw_price_stock"])
def test_the_nearest_of_many(wrong: str) -> None:
    assert NearNames(NAMES).hint(wrong).split(" or ")[0] == nearest(wrong, NAMES).split(" or ")[0]


@pytest.mark.parametrize("count", [0, 1, 12, 13, 14, 40])
def test_without_near_names_the_hint_lists_known_names(count: int) -> None:
    names = [f"joint_{place:02}" for place in range(count)]
    assert NearNames(names).hint("x") == nearest("x", names)
    assert NearNames(names).hint("x", but="joint_00") == nearest("x", names[1:])
    assert NearNames(names).hint("x", listed=False) == ""


@pytest.mark.slow
def test_the_cost_of_a_hint_does_not_grow_with_the_number_of_names() -> None:
    near = NearNames([f"{name}_{place}" for name in NAMES for place in range(8)])
    near.hint("x")
    begin = time.process_time()
    for place in range(100):
        near.hint(f"external_table_{place}")
    assert time.process_time() - begin < 5

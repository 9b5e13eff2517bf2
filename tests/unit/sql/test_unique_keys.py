"""Keys by which a query's rows are unique; tests/spark/test_unique_keys.py asks Spark."""

import pytest
from support.grouped_queries import UNIQUE_BY

from rivet_dagster.sql.parsing.dialect import read_query
from rivet_dagster.sql.unique_keys import unique_key


@pytest.mark.parametrize("sql", UNIQUE_BY)
def test_a_key_is_that_of_the_groups_or_of_the_one_relation(sql):
    tree = read_query(sql).tree
    assert tree is not None
    assert unique_key(tree, {"k": frozenset({"id"}), "o": None}) == UNIQUE_BY[sql]

"""Ambiguous keys: no more than ten of them are shown, NULL among them."""

from support.scd2_cases import started_at
from support.scd2_runs import DuckDb

from rivet_dagster.sql.write_strategies.merge import conflicts
from rivet_dagster.sql.write_strategies.trees import plain_column, sql_text


def test_ten_ambiguous_keys_are_shown():
    engine = DuckDb()
    for keys, shown in ((range(12), 10), ([None, 1], 2)):
        rows = [{"id": key, "value": value} for key in keys for value in (1, 2)]
        engine.register("batch", rows, {"id": "INT", "value": "INT"})
        found = engine.rows(sql_text(conflicts("batch", [plain_column("id")], (), ("id", "value"))), started_at(0))
        assert len({row["id"] for row in found}) == len(found) == shown

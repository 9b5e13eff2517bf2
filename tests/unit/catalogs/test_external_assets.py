"""Tables of external assets in a workspace."""

import pyarrow as pa
import pytest
from support.external_assets import KEY
from support.tables import catalog

from rivet_dagster.catalogs.external_assets import ExternalAssets
from rivet_dagster.model.external_assets import Part, external_table


@pytest.mark.parametrize("definitions", [("daily", "weekly"), ("weekly", "daily")])
def test_of_a_partition_that_two_definitions_have_the_last_one_is_read(tmp_path, definitions):
    """As long as a run that has just published the second one has not evicted the first."""
    workspace = catalog(tmp_path)
    assets = ExternalAssets(workspace)
    for number, definition in enumerate(definitions):
        for key in ("2026-01-05", "2026-01-12")[: 2 - number]:
            with workspace.begin(external_table(KEY, Part(key, definition)), None) as transaction:
                assert transaction.put(pa.table({"id": [number]}).to_reader())
                transaction.commit(f"{definition}/{key}")
    first, second = (external_table(KEY, Part("2026-01-05", definition)) for definition in definitions)
    assert first != second
    other = external_table(KEY, Part("2026-01-12", definitions[0]))
    assert [version.table for version in assets.partitions(KEY, ["2026-01-05", "2026-01-12"])] == [second, other]
    assert {version.table for version in assets.whole(KEY)} == {second, other}

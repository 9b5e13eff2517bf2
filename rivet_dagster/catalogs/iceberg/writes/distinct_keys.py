"""Whether the keys of a stored batch are distinct, found without the engine, for which that is a query of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyiceberg.table import Table

MOST_ROWS = 200_000
"""The rows of a batch whose keys are read into the memory of this process."""

_SAME_BYTES = ("boolean", "int", "long", "date", "timestamp", "timestamptz", "string", "decimal")
"""Types whose values are equal to an engine exactly if they are to Arrow; zeros and NaN are not."""


def are_distinct(table: Table, snapshot: int, rows: int, keys: Sequence[str]) -> bool:
    """Return whether no two of the ``rows`` of a snapshot are equal in all ``keys``, where NULL equals NULL.

    False also where that is not looked into: for many rows, or keys of other types.
    """
    known = {field.name.lower(): field for field in table.schema().fields if "." not in field.name}
    fields = [known.get(key.lower()) for key in keys]
    if rows > MOST_ROWS or not all(field and str(field.field_type).startswith(_SAME_BYTES) for field in fields):
        return False
    names = list(dict.fromkeys(field.name for field in fields if field is not None))
    found = table.scan(snapshot_id=snapshot, selected_fields=tuple(names)).to_arrow()
    return bool(found.group_by(names).aggregate([]).num_rows == found.num_rows)

"""Locations of tables, by which two names of the same location are recognized."""

from __future__ import annotations

from collections.abc import Mapping

Location = tuple[str, ...]
"""The parts of a path, from the storage inwards: a location that begins with another one is inside it.

For a table that is only read, parts may be ``fnmatch`` patterns; other wildcards are escaped in all locations.
"""

Resolved = Mapping[tuple[str, str], tuple[Location, ...]]
"""Locations known only on this machine (links, variables), by the names of a catalog and a table in it."""

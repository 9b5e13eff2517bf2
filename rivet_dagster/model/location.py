"""Where tables lie, so that two names of one place are told from two places."""

from __future__ import annotations

from collections.abc import Mapping

Location = tuple[str, ...]
"""The parts of a path, from the storage inwards: what begins with another location lies within it.

Of a table that is only read, parts may be patterns as of ``fnmatch``; what would be one by chance is escaped in all.
"""

Resolved = Mapping[tuple[str, str], tuple[Location, ...]]
"""By the names of a catalog and of a table in it, locations that only this machine can tell: links, variables."""

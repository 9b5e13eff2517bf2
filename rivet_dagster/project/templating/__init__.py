"""Templates in the SQL of joints: Jinja's, in a sandbox in which rendering is pure and bounded.

Jinja itself is imported only by ``environment``, which a project without templates does not need.
"""

from __future__ import annotations

import re

_MARKED = re.compile(r"\{[{%#]")


def is_template(sql: str) -> bool:
    """Return whether ``sql`` contains a Jinja delimiter; any other SQL is not a template and stays unchanged."""
    return _MARKED.search(sql) is not None

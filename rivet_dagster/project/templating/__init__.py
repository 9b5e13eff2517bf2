"""Templates in the SQL of joints: Jinja's, in a sandbox in which rendering is pure and bounded.

Jinja itself is imported only by ``environment``, which a project without templates does not need.
"""

from __future__ import annotations

import re

TAG = re.compile(r"\{[{%#]")
"""The beginning of a block, an expression or a comment."""


def is_template(sql: str) -> bool:
    """Return whether ``sql`` contains a Jinja delimiter; any other SQL is not a template and stays unchanged."""
    return TAG.search(sql) is not None

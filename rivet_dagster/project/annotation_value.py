"""The value of an annotation: a YAML scalar, a list or a mapping on one line."""

from __future__ import annotations

import re
from typing import Any

from rivet_dagster.project.yaml_scalar import yaml_scalar
from rivet_dagster.project.yaml_text import ReadScalar, read_yaml

_COMMENT = re.compile(r"(?:^|\s)#.*", re.DOTALL)
_BLOCK = re.compile(r"[|>][-+0-9]*")


def annotation_value(text: str, line: int, *, comments: bool = True, scalar: ReadScalar = yaml_scalar) -> Any:
    """Parse the value; one or several bare words, even with colons, are a text. Raise ValueError.

    ``comments`` says whether `` #`` begins a comment in a bare text, as it does in YAML; ``scalar`` reads unquoted
    values.

    >>> [annotation_value(text, 1) for text in ("12", "Note: see below", "[a, b]", "{a: 1}", "'12'", "true # yes")]
    [12, 'Note: see below', ['a', 'b'], {'a': 1}, '12', True]
    """
    if text[:1] in ("[", "{", "'", '"'):
        return read_yaml(text, line, scalar)
    bare = _COMMENT.sub("", text).strip() if comments else text.strip()
    if not bare:
        raise ValueError("there is no value")
    if _BLOCK.fullmatch(bare):
        raise ValueError("a value stands on the line of its key; longer ones are for YAML files")
    return scalar(bare)

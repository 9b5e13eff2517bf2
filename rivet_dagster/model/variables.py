"""The variables of templates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Variables:
    """The variables of a project under one profile, by name.

    ``values`` are constants, plain data that templates write as text. ``bound`` are texts that hold ``${VAR}``,
    unexpanded: a run binds their values as parameters.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    bound: Mapping[str, str] = field(default_factory=dict)

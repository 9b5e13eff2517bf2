"""What the compiler needs to know of the installed catalogs and engines, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CheckOptions = Callable[[Mapping[str, Any]], Mapping[str, str]]
"""Given the options of a declaration, what is wrong with their values: a sentence by key."""


def _nothing_wrong(_: Mapping[str, Any]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True)
class CatalogTraits:
    """The write strategies a type of catalog can do and the keys of its declaration."""

    strategies: frozenset[str]
    options: frozenset[str]
    check: CheckOptions = _nothing_wrong


@dataclass(frozen=True)
class EngineTraits:
    """The keys of a type of engine's declaration."""

    options: frozenset[str]
    check: CheckOptions = _nothing_wrong


@dataclass(frozen=True)
class Plugins:
    """Traits by type."""

    catalogs: Mapping[str, CatalogTraits] = field(default_factory=dict)
    engines: Mapping[str, EngineTraits] = field(default_factory=dict)

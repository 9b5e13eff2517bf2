"""External assets: other Dagster assets, whose rows are stored in the workspace in tables with reserved names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rivet_dagster.model.joint import SOURCE

DAGSTER = "dagster"
"""The built-in catalog whose tables are external assets, each named by its asset key joined with slashes."""

KEPT = "_asset_"
"""The prefix of the names of their tables in the workspace."""

_SHOWN = 40


@dataclass(frozen=True)
class Part:
    """One partition of an asset; ``definition`` is a text that is the same for equal partitions definitions."""

    key: str
    definition: str


class Stored(Protocol):
    """A joint, declared or compiled."""

    @property
    def type(self) -> str: ...

    @property
    def catalog(self) -> str | None: ...

    @property
    def table(self) -> str | None: ...


def is_external(joint: Stored) -> bool:
    """Return whether a joint is a source that stands for another Dagster asset."""
    return joint.type == SOURCE and joint.catalog == DAGSTER


def key_path(table: str) -> tuple[str, ...]:
    """Return the parts of the asset key that a source has as its ``table``. Raise ValueError.

    >>> key_path("shop/raw/orders")
    ('shop', 'raw', 'orders')
    """
    parts = tuple(table.split("/"))
    if not all(part.strip() for part in parts):
        raise ValueError(f"must be an asset's key like shop/orders, not '{table}'")
    return parts


def external_table(path: Sequence[str], part: Part | None = None) -> str:
    """Return the name of the table that holds an asset, or one partition of it.

    It cannot be a joint's name, which begins with a letter. Its readable part is shortened and simplified; a hash makes
    it unique.

    >>> external_table(["shop", "../Orders"])
    '_asset_shop_orders_829e4032cce1'
    >>> external_table(["shop", "../Orders"], Part("2024-01-31", "daily"))
    '_asset_shop_orders_829e4032cce1_p_6f31304c_2024_01_31_253cc68f6027'
    """
    if part is not None:
        return f"{parts_of(path, part.definition)}{partition_suffix(part.key)}"
    return f"{KEPT}{_shown('_'.join(path))}_{_hash(json.dumps(list(path)), 12)}"


def parts_of(path: Sequence[str], definition: str | None = None) -> str:
    """Return the prefix of the names of tables that hold partitions of an asset, or those of one definition."""
    return f"{external_table(path)}_p_{f'{_hash(definition, 8)}_' if definition is not None else ''}"


def partition_suffix(key: str) -> str:
    """Return the suffix, after the definition's hash, of the names of tables that hold a partition of that key."""
    return f"{_shown(key)}_{_hash(key, 12)}"


def _shown(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_SHOWN].strip("_") or "x"


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]

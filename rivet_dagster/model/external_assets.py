"""External assets: other Dagster assets, whose rows are stored in the workspace under names that no joint can have."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from rivet_dagster.model.joint import SOURCE

DAGSTER = "dagster"
"""The catalog, built in, whose tables are these assets, each named by its key with slashes."""

KEPT = "_asset_"
"""How the names of these tables begin."""

_SHOWN = 40


@dataclass(frozen=True)
class Part:
    """One partition of an asset; ``definition`` is a text that partitions definitions share which are the same."""

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
    """The parts of an asset key that a source writes as its ``table``; raises ValueError.

    >>> key_path("shop/raw/orders")
    ('shop', 'raw', 'orders')
    """
    parts = tuple(table.split("/"))
    if not all(part.strip() for part in parts):
        raise ValueError(f"must be an asset's key like shop/orders, not '{table}'")
    return parts


def external_table(path: Sequence[str], part: Part | None = None) -> str:
    """The name of the table that holds an asset, or one partition of it.

    Joints' names begin with a letter. What a person reads in it is cut and simplified, what tells it apart is a hash.

    >>> external_table(["shop", "../Orders"])
    '_asset_shop_orders_829e4032cce1'
    >>> external_table(["shop", "../Orders"], Part("2024-01-31", "daily"))
    '_asset_shop_orders_829e4032cce1_p_6f31304c_2024_01_31_253cc68f6027'
    """
    if part is not None:
        return f"{parts_of(path, part.definition)}{ending(part.key)}"
    return f"{KEPT}{_shown('_'.join(path))}_{_hash(json.dumps(list(path)), 12)}"


def parts_of(path: Sequence[str], definition: str | None = None) -> str:
    """How the names of the tables begin that hold partitions of an asset, of that definition if one is given."""
    return f"{external_table(path)}_p_{f'{_hash(definition, 8)}_' if definition is not None else ''}"


def ending(key: str) -> str:
    """How the names of the tables end that hold a partition of that key, after what tells the definition."""
    return f"{_shown(key)}_{_hash(key, 12)}"


def _shown(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:_SHOWN].strip("_") or "x"


def _hash(text: str, length: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:length]

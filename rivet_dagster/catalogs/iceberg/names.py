"""Names: of tables in an Iceberg catalog, of branches of runs and of environments, and of staging tables."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass, replace
from hashlib import sha256

from rivet_dagster.errors import RivetError

BRANCH = "rivet_"
"""The beginning of the names of the branches of runs."""

ENVIRONMENTS = "rivet_environments"
"""The namespace with the records of environments, and with the tables that the base does not have."""

OWN_TABLE = "table_"
"""The beginning of the names of those tables."""

MOST_BYTES = 255
"""The bytes that the name of a table may have."""

_STAGED = "__rivet_"
_ENVIRONMENT, _ENVIRONMENT_BASE = "rivet_env_", "rivet_envbase_"
_OF_ENVIRONMENT = re.compile(r"rivet_environment-(.+)-[0-9a-f]{8}(?:_(?:[0-9a-f]+|batch|changes))*")
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True)
class TableName:
    """The name of a table: the catalog's, the parts of its namespace, and its own.

    ``ref`` is the branch of a Nessie catalog on which it is, if that is not the one of the catalog's options.
    """

    catalog: str
    namespace: tuple[str, ...]
    name: str
    ref: str | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts, as Spark names the table.

        >>> TableName("lake", ("shop",), "orders", "dev").parts
        ('lake', 'shop', 'orders@dev')
        """
        return (self.catalog, *self.namespace, self.name if self.ref is None else f"{self.name}@{self.ref}")

    @property
    def identifier(self) -> tuple[str, ...]:
        """The parts without the catalog, as the catalog names the table."""
        return (*self.namespace, self.name)

    def staged(self, key: str, suffix: str = "") -> TableName:
        """Return the name of the staging table of the attempt ``key``.

        >>> TableName("lake", ("shop",), "orders").staged("rivet_1f_orders").name
        'orders__rivet_1f_orders'

        File systems and databases take no more than 255 bytes; of a long name a part and its hash are left.
        """
        ending = f"__{key}{suffix}"
        return replace(self, name=_shortened(self.name, MOST_BYTES - len(ending.encode())) + ending)

    def __str__(self) -> str:
        return ".".join(self.parts)


def _shortened(name: str, most: int) -> str:
    """Return ``name``, or a part of it and its hash, in at most so many bytes.

    >>> _shortened("orders", 6), _shortened("orders_of_all_customers", 20)
    ('orders', 'orders_of_a_349c099f')
    """
    encoded = name.encode()
    if len(encoded) <= most:
        return name
    return f"{encoded[: most - 9].decode(errors='ignore')}_{sha256(encoded).hexdigest()[:8]}"


def table_name(catalog: str, table: str, default_namespace: str | None) -> TableName:
    """Return the parsed name of a table, whose namespaces are separated by dots. Raises RVT-404.

    >>> table_name("lake", "shop.eu.orders", None).parts
    ('lake', 'shop', 'eu', 'orders')
    """
    wrong = wrong_name(table, default_namespace)
    if wrong is not None:
        raise RivetError("RVT-404", wrong, remediation="Write it as `namespace.table`.")
    *namespace, name = table.split(".")
    return TableName(catalog, tuple(namespace) or tuple(str(default_namespace).split(".")), name)


def wrong_name(table: str, default_namespace: str | None) -> str | None:
    """Return why ``table`` names no table, None if it does.

    >>> wrong_name("orders", None)
    "the table 'orders' names no namespace, and the catalog has no `default-namespace`"
    """
    parts = table.split(".")
    if not all(parts) or any(set(part) & set("`/\\\0\n") or part != part.strip() for part in parts):
        return f"'{table}' is no name of a table in a namespace"
    if _STAGED in parts[-1]:
        return f"'{table}' is a name that staging tables have"
    if len(parts) == 1 and not default_namespace:
        return f"the table '{table}' names no namespace, and the catalog has no `default-namespace`"
    return None


def key_of(identity: str) -> str:
    """Return what the names of the branches of a run begin with: ``rivet_<run>_<group>`` of ``run/group/...``.

    >>> key_of("1f-2a/orders/2026-01-01")
    'rivet_1f-2a_orders'
    """
    run, _, rest = identity.partition("/")
    group = rest.partition("/")[0]
    named = "_".join(_OTHER.sub("_", part) for part in (run, group) if part)
    return BRANCH + (named or secrets.token_hex(8))


def attempt_key(identity: str) -> str:
    """Return a name for the branch of one attempt: ``rivet_<run>_<group>_<random>``.

    A retry has another one than the attempt before it, whose last write an engine may still carry out.

    >>> key, other = attempt_key("1f-2a/orders"), attempt_key("1f-2a/orders")
    >>> key.startswith("rivet_1f-2a_orders_"), len(key), key == other
    (True, 27, False)
    """
    return f"{key_of(identity)}_{secrets.token_hex(4)}"


def staging_of(name: str) -> str | None:
    """Return the key of a staging table by its name; None for the name of any other table.

    >>> staging_of("orders__rivet_1f_orders"), staging_of("orders")
    ('rivet_1f_orders', None)
    """
    _, separator, rest = name.partition(_STAGED)
    return f"{BRANCH}{rest}" if separator else None


def environment_branch(name: str) -> str:
    """Return the branch of a table that holds the rows of the environment ``name``.

    >>> environment_branch("pr-7")
    'rivet_env_pr-7'
    """
    return f"{_ENVIRONMENT}{name}"


def environment_tag(name: str) -> str:
    """Return the tag of the snapshot of the base that the rows of the environment ``name`` build upon.

    >>> environment_tag("pr-7")
    'rivet_envbase_pr-7'
    """
    return f"{_ENVIRONMENT_BASE}{name}"


def is_of_environment(ref: str) -> bool:
    """Return whether a branch or tag of a table is one of an environment, not of a run."""
    return ref.startswith((_ENVIRONMENT, _ENVIRONMENT_BASE))


def identity_there(name: str) -> str:
    """Return an identity for an attempt of a run in the environment ``name``, whose key ``environment_of`` knows."""
    return f"environment-{name}-{secrets.token_hex(4)}"


def environment_of(key: str) -> str | None:
    """Return the environment of a run by the key of what it has staged on tables of the base; None for other runs.

    >>> environment_of("rivet_environment-pr-7-1d0c52e9_7aa01b3c_batch"), environment_of("rivet_1f-2a_orders_7aa01b3c")
    ('pr-7', None)
    """
    match = _OF_ENVIRONMENT.fullmatch(key)
    return match[1] if match else None

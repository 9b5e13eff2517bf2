"""Names of joints: each model, seed, snapshot and source of a dbt project has one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

from rivet_dagster.dbt.declared import SEED, SNAPSHOT, DbtNode, DbtProject, SourceTable
from rivet_dagster.errors import nearest
from rivet_dagster.model.convert import LONGEST_NAME
from rivet_dagster.model.joint import RESERVED


@dataclass(frozen=True)
class Names:
    """The joints of nodes and sources, and the search for what ``ref`` and ``source`` mean.

    ``refused`` are nodes that cannot have a name, with the reasons.
    """

    root: str
    nodes: dict[tuple[str, str], DbtNode]
    joints: dict[tuple[str, str], str]
    sources: dict[tuple[str, str], tuple[SourceTable, str]]
    latest: dict[tuple[str, str], str]
    refused: dict[int, str] = field(default_factory=dict)

    def joint(self, node: DbtNode) -> str:
        """Return the joint of a model, seed or snapshot."""
        return self.joints[node.key]

    @cached_property
    def _packages(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(package for package, _ in self.joints))

    def ref(self, package: str, names: Iterable[str], version: object = None) -> tuple[str, DbtNode]:
        """Return the joint that ``ref(...)`` in a file of ``package`` means. Raise ValueError."""
        *inside, name = names
        wanted = name if version is None else f"{name}_v{version}"
        for candidate in inside or dict.fromkeys((package, self.root, *self._packages)):
            for key in ((candidate, wanted), (candidate, self.latest.get((candidate, wanted), ""))):
                if key in self.joints:
                    return self.joints[key], self.nodes[key]
        known = {each for _, each in self.joints} | {each for _, each in self.latest}
        shown = f"ref('{name}')" if version is None else f"ref('{name}', v={version})"
        raise ValueError(f"{shown} names no model, seed or snapshot{nearest(wanted, known, listed=False)}")

    def of_call(self, text: str, package: str) -> str:
        """Return the joint that a text such as ``ref('orders')`` in a YAML file means. Raise ValueError."""
        call = _CALL.fullmatch(text)
        if call is None:
            raise ValueError(f"'{text}' is neither ref(...) nor source(...)")
        if call[1] == "metric":
            raise ValueError(f"{text.strip()} is left out: a metric has no counterpart")
        arguments = [match for each in call[2].split(",") if (match := _ARGUMENT.fullmatch(each)) is not None]
        given = [match["name"] for match in arguments if match["name"] is not None]
        if call[1] == "source":
            if len(given) != 2:
                raise ValueError(f"'{text}' gives source something else than two names")
            return self.source(given[0], given[1])[0]
        version = next((match["version"].strip("'\"") for match in arguments if match["version"] is not None), None)
        return self.ref(package, given, version)[0]

    def source(self, source: str, table: str) -> tuple[str, SourceTable]:
        """Return the joint that ``source(...)`` means. Raise ValueError."""
        declared = self.sources.get((source, table))
        if declared is None:
            known = [f"{s}.{t}" for s, t in self.sources]
            hint = nearest(f"{source}.{table}", known, listed=False)
            raise ValueError(f"source('{source}', '{table}') is not declared{hint}")
        return declared[1], declared[0]


_CALL = re.compile(r"\s*(?:\{\{)?\s*(ref|source|metric)\s*\((.*)\)\s*(?:\}\})?\s*", re.DOTALL)
_ARGUMENT = re.compile(r"\s*(?:(?:v|version)\s*=\s*)(?P<version>[^,]+?)\s*|\s*['\"]?(?P<name>[^'\",]*)['\"]?\s*")


def name_joints(project: DbtProject) -> Names:
    """Return the names of all joints; nodes of one name have none."""
    enabled = [
        node
        for package in project.packages
        for node in package.nodes
        if node.kind in ("model", SEED, SNAPSHOT) and node.config.is_enabled
    ]
    refused: dict[int, str] = {}
    by_key: dict[tuple[str, str], list[DbtNode]] = {}
    for node in enabled:
        by_key.setdefault(node.key, []).append(node)
    for (_, name), same in by_key.items():
        if len(same) > 1:
            for node in same:
                others = ", ".join(str(other.location) for other in same if other is not node)
                refused[id(node)] = f"'{name}' is the name of several nodes: also at {others}"
    nodes = {key: same[0] for key, same in by_key.items() if len(same) == 1}
    # A source of a name that anything has is named with its source, whatever the order of the files.
    times = Counter(name for _, name in by_key)
    wanted = {key: _wanted(key, project.root.name, times[key[1]]) for key in nodes}
    taken: set[str] = set()
    # A node whose name need not change has it before one whose name becomes the same.
    order = sorted(wanted, key=lambda key: (wanted[key] != key[1], key[0] != project.root.name))
    joints = {key: _distinct(wanted[key], taken) for key in order}
    joints = {key: joints[key] for key in nodes}
    tables = {(t.source, t.name): t for package in project.packages for t in package.sources if t.config.is_enabled}
    counted = Counter(clean_name(table) for _, table in tables)
    sources = {}
    for (source, table), declared in tables.items():
        plain = clean_name(table)
        clashes = counted[plain] > 1 or plain in taken
        sources[source, table] = (declared, clean_name(f"{source}_{table}") if clashes else plain)
    named: set[str] = set(taken)
    sources = {key: (declared, _distinct(name, named)) for key, (declared, name) in sources.items()}
    latest = {(node.package, node.name): node.versioned_name for node in nodes.values() if node.is_latest}
    return Names(project.root.name, nodes, joints, sources, latest, refused)


def _wanted(key: tuple[str, str], root: str, times: int) -> str:
    package, name = key
    return clean_name(name if times == 1 or package == root else f"{package}_{name}")


def _distinct(name: str, taken: set[str]) -> str:
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name[: LONGEST_NAME - 4]}_{number}"
    taken.add(unique)
    return unique


def clean_name(name: str) -> str:
    """Return the nearest name that a joint can have.

    >>> clean_name("Daily-Orders"), clean_name("2024_orders"), clean_name("input")
    ('daily_orders', 'm_2024_orders', 'input_')
    """
    cleaned = re.sub(r"[^a-z0-9_]", "_", name.lower())
    if not cleaned[:1].isalpha():
        cleaned = f"m_{cleaned.lstrip('_')}"
    return f"{cleaned}_" if cleaned in RESERVED else cleaned[:LONGEST_NAME]

"""The keys of YAML files that a project of joints has no use for, so that none is passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator

from rivet_dagster.dbt.yaml_file import line_of
from rivet_dagster.errors import nearest
from rivet_dagster.project.yaml_text import Located

_NODE = frozenset("name description columns config data_tests tests docs meta group access contract".split())
_USED = {
    "model": _NODE | {"versions", "latest_version", "v", "defined_in"},
    "seed": _NODE,
    "snapshot": _NODE | {"relation"},
    "analysis": _NODE,
    "test": _NODE,
    "macro": frozenset("name description arguments docs meta config".split()),
    "column": frozenset("name description data_type data_tests tests quote include exclude config".split()),
    "source": frozenset(
        "name description tables schema database config freshness loaded_at_field tags meta enabled data_tests tests "
        "tables".split()
    ),
    "table": frozenset(
        "name description identifier columns config freshness loaded_at_field tags meta enabled data_tests "
        "tests".split()
    ),
    "group": frozenset("name owner description config".split()),
    "dbt_project.yml": frozenset(
        "name profile model-paths source-paths seed-paths data-paths snapshot-paths test-paths macro-paths "
        "analysis-paths docs-paths models seeds snapshots sources tests data_tests vars dispatch on-run-start "
        "on-run-end packages-install-path modules-path target-path version config-version".split()
    ),
}
"""The keys that are used, or are only for people, by what has them."""

_WITHOUT = {
    "constraints": "have no counterpart: declare checks in their place",
    "deprecation_date": "has no counterpart",
    "time_spine": "has no counterpart",
    "primary_key": "has no counterpart",
    "meta": "has no counterpart",
    "tags": "have no counterpart at a column",
    "granularity": "has no counterpart",
    "policy_tags": "have no counterpart",
    "loader": "has no counterpart",
    "quoting": "is not used: names are quoted where they must be",
    "overrides": "has no counterpart",
    "external": "has no counterpart: the table must be there",
    "loaded_at_query": "has no counterpart",
    "identifier": "is not used",
    "catalog": "is not used: the table is looked for in the session's catalog",
}
_OF_DBT = frozenset(
    "analyses asset-paths clean-targets config-version dbt-cloud exposures flags functions log-path metrics "
    "query-comment quoting require-dbt-version restrict-access saved-queries semantic-models unit_tests".split()
)
_CONFIG = frozenset(
    "materialized incremental_strategy unique_key partition_by on_schema_change enabled alias schema strategy "
    "updated_at tags check_cols column_types delimiter pre_hook post_hook grants".split()
)


def unused_keys(kind: str, entry: Located) -> Iterator[tuple[str, int, str]]:
    """Yield the keys of an entry that are not used, each with its line and the reason.

    >>> entry = Located(1) | {"name": "a", "descripton": "x", "materialized": "table", "deprecation_date": None}
    >>> for key, _, reason in unused_keys("model", entry): print(key, reason)
    descripton is not known; did you mean 'description'?
    materialized is not used: it belongs below `config`
    """
    used = _USED[kind]
    for key, value in entry.items():
        if key in used or value in (None, False, "", [], {}):
            continue
        if kind == "dbt_project.yml" and key in _OF_DBT:
            reason = "is a setting of dbt itself"
        elif kind in ("model", "seed", "snapshot", "test") and key in _CONFIG:
            reason = "is not used: it belongs below `config`"
        elif kind != "dbt_project.yml" and key in _WITHOUT:
            reason = _WITHOUT[key]
        else:
            reason = f"is not known{nearest(key, used, listed=False)}"
        yield key, line_of(entry, key), reason


def notes_of(kind: str, entry: Located) -> tuple[str, ...]:
    """Return what is told of a node's or a source's keys that are not used, and of those of its columns."""
    notes = [f"`{key}` {reason}" for key, _, reason in unused_keys(kind, entry)]
    by_reason: dict[tuple[str, str], list[str]] = {}
    columns = entry.get("columns")
    for column in columns if isinstance(columns, list) else ():
        config = column.get("config") if isinstance(column, Located) else None
        for level in (column, config):
            if isinstance(level, Located):
                for key, _, reason in unused_keys("column", level):
                    by_reason.setdefault((key, reason), []).append(str(column.get("name")))
    return (*notes, *(f"`{key}` ({', '.join(names[:5])}) {reason}" for (key, reason), names in by_reason.items()))

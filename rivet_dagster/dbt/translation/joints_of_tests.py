"""Joints for the tests that no other joint has judged: singular tests that read none, and sources that nobody reads.

The checks of a source run before its readers do. So one joint reads the sources without other readers, and no row of
them. A test that reads no joint is a joint of its own, whose rows are the violations.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable

from rivet_dagster.dbt.declared import DbtNode
from rivet_dagster.dbt.translation.annotations import JointDraft
from rivet_dagster.dbt.translation.checks import TranslatedCheck
from rivet_dagster.dbt.translation.names import clean_name

UNREAD = "unread_sources"

_FOLDER = "joints/tests"
_MARKED = re.compile(r"\{[{%#]")
_DESCRIPTION = "Reads no row of the sources that no other joint reads, so that a run judges their checks."


def joint_of_test(node: DbtNode, check: TranslatedCheck, taken: Container[str]) -> JointDraft:
    """Return the joint of a singular test that reads no other joint; its own check is that it has no row."""
    name = _free(clean_name(node.name), taken)
    sql = (check.sql or "").strip().rstrip(";")
    sql = f"{{% raw %}}{sql}{{% endraw %}}" if _MARKED.search(sql) else sql
    # Of the query's own columns, two may have one name, with which nothing is stored.
    body = f"SELECT 1 AS violation\nFROM (\n{sql}\n) violations"
    return JointDraft(node, name, f"{_FOLDER}/{name}.sql", node.location, body=body)


def reader_of(sources: Iterable[JointDraft], taken: Container[str]) -> JointDraft:
    """Return the joint that reads sources, and no row of them.

    >>> from rivet_dagster.dbt.declared import DbtLocation
    >>> sources = [JointDraft(None, name, "", DbtLocation("seeds/a.csv")) for name in ("a", "b")]
    >>> print(reader_of(sources, {}).body)
    SELECT 1 AS one FROM {{ ref('a') }} WHERE FALSE
    UNION ALL
    SELECT 1 AS one FROM {{ ref('b') }} WHERE FALSE
    """
    first, *others = sources
    name = _free(UNREAD, taken)
    reads = [f"SELECT 1 AS one FROM {{{{ ref('{source.joint}') }}}} WHERE FALSE" for source in (first, *others)]
    draft = JointDraft(first.node, name, f"{_FOLDER}/{name}.sql", first.location, body="\nUNION ALL\n".join(reads))
    draft.keys["description"] = _DESCRIPTION
    return draft


def _free(name: str, taken: Container[str]) -> str:
    free, number = name, 1
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free

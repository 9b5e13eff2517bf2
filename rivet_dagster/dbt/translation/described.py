"""The description, the tags and the owners of a joint."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rivet_dagster.dbt.declared import Column, Owner
from rivet_dagster.model.joint import OWNER, TAG_KEY


def description_of(text: str, columns: tuple[Column, ...]) -> str:
    """Return a description, with those of the columns below it."""
    described = [f"- `{column.name}`: {column.description}" for column in columns if column.description]
    return "\n\n".join(part for part in (text, "\n".join(described)) if part)


def tags_of(tags: Iterable[str], told: list[str]) -> list[str]:
    """Return the tags as Dagster allows them, and add what that changes to ``told``."""
    kept: list[str] = []
    for tag in dict.fromkeys(tags):
        cleaned = re.sub(r"[^A-Za-z0-9_.-]", "_", tag)[:63]
        if cleaned != tag:
            told.append(f"the tag '{tag}' is '{cleaned}': Dagster allows letters, digits, _, . and -")
        if TAG_KEY.fullmatch(cleaned) and cleaned not in kept:
            kept.append(cleaned)
    return kept


def owners_of(owner: Owner) -> list[str]:
    """Return the owners of a group as those of its joints."""
    emails = [email for email in owner.emails if OWNER.fullmatch(email)]
    if emails:
        return emails
    return [f"team:{owner.name}"] if owner.name else []

"""Exposures of dbt as those of rivet.yaml, which are external assets in Dagster."""

from __future__ import annotations

import re
from collections.abc import Collection, Set
from typing import Any

from rivet_dagster.dbt.declared import DeclaredExposure
from rivet_dagster.dbt.report import CHANGED, LEFT_OUT, ReportEntry, disabled_entry
from rivet_dagster.dbt.translation.joints import owners_of
from rivet_dagster.dbt.translation.names import Names


def translate_exposure(
    declared: DeclaredExposure, names: Names, joints: Collection[str], taken: Set[str]
) -> tuple[str, dict[str, Any] | None, ReportEntry]:
    """Return the name of an exposure that none of ``taken`` has, its keys, and what is told of it.

    It has no keys if it is disabled, or reads none of the ``joints``.
    """
    if not declared.config.is_enabled:
        return declared.name, None, disabled_entry(declared.name, declared.location, "exposure")
    reads: list[str] = []
    notes: list[str] = []
    for text in declared.depends_on:
        try:
            joint = names.of_call(text, declared.package)
        except ValueError as error:
            notes.append(str(error))
            continue
        if joint in joints:
            reads.append(joint)
        else:
            notes.append(f"reads {joint}, which is left out")
    if not reads:
        reasons = tuple(notes) or ("reads nothing that moves",)
        return declared.name, None, ReportEntry(declared.name, declared.location, LEFT_OUT, None, reasons, kind=_KIND)
    name = _distinct(re.sub(r"\W", "_", declared.name, flags=re.ASCII), taken)
    owners = owners_of(declared.owner)
    keys: dict[str, Any] = {"depends_on": list(dict.fromkeys(reads))}
    keys |= {"owners": owners} if owners else {}
    keys |= {"url": declared.url} if declared.url else {}
    keys |= {"description": declared.description} if declared.description else {}
    told = (f"it is the external asset '{name}', of `exposures` in rivet.yaml", *notes, *declared.notes)
    return name, keys, ReportEntry(declared.name, declared.location, CHANGED, None, told, kind=_KIND)


_KIND = "exposure"


def _distinct(name: str, taken: Set[str]) -> str:
    if name not in taken:
        return name
    return next(each for number in range(len(taken) + 1) if (each := f"{name}_exposure{number or ''}") not in taken)

"""``rivet-dagster doctor``: run all examinations in order and print a line for each finding."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from rivet_dagster.cli.doctor.environment import packages, python
from rivet_dagster.cli.doctor.places import catalogs, engines, variables
from rivet_dagster.cli.doctor.project import Needs
from rivet_dagster.errors import RivetError, is_configuration
from rivet_dagster.model.finding import FAIL, Finding, broken
from rivet_dagster.project.load import load_project


def examine_all(root: Path, profile: str | None, as_json: bool) -> int:
    """Print each finding as soon as it is known, or all of them as JSON.

    Return 0 without failures, 10 if all are configuration, else 1.
    """
    found = []
    for finding in examine(root, profile, os.environ):
        found.append(finding)
        if not as_json:
            print(rendered(finding), flush=True)
    failed = [finding for finding in found if finding.status == FAIL]
    if as_json:
        findings = [asdict(finding) for finding in found]
        print(json.dumps({"success": not failed, "findings": findings}, indent=2, ensure_ascii=False))
    if not failed:
        return 0
    return 10 if all(is_configuration(finding.code or "") for finding in failed) else 1


def examine(root: Path, profile: str | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield all findings, without starting Spark and without changing the project or its catalogs."""
    yield python()
    yield from packages()
    needs = Needs()
    try:
        declared = load_project(root, profile, environ)
    except RivetError as error:
        yield from broken("project", error)
    else:
        yield from variables(declared.profile)
        yield from catalogs(declared, root, environ)
        yield from engines(declared.profile, root, environ)
        # Imported only here: importing Dagster takes seconds.
        from rivet_dagster.cli.doctor.project import project

        findings, needs = project(root, profile)
        yield from findings
    from rivet_dagster.cli.doctor.instance import instance

    yield from instance(needs, environ)


def rendered(finding: Finding) -> str:
    """Return the finding as a line, followed by its remedy on a second line.

    >>> print(rendered(Finding("fail", "engine spark", "none is on PATH", "Install one.", "RVT-111")))
    fail  engine spark        RVT-111 none is on PATH
                              Install one.
    """
    code = f"{finding.code} " if finding.code else ""
    line = f"{finding.status:<4}  {finding.subject:<18}  {code}{finding.text}"
    return f"{line}\n{'':26}{finding.remedy}" if finding.remedy else line

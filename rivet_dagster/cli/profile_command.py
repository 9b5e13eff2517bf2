"""``rivet-dagster catalog`` and ``rivet-dagster engine``: what a profile has, and adding to it."""

from __future__ import annotations

import json
import os
from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from rivet_dagster.catalogs.registry import catalog_class, catalog_traits
from rivet_dagster.cli.console import show
from rivet_dagster.cli.doctor_command import catalog as examine_catalog
from rivet_dagster.cli.doctor_command import engine as examine_engine
from rivet_dagster.cli.doctor_command import render_finding
from rivet_dagster.engines.registry import engine_class
from rivet_dagster.entry_points import refuse_wrong_options
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model import convert
from rivet_dagster.model.finding import FAIL, Finding
from rivet_dagster.model.profile import CatalogSpec, EngineSpec
from rivet_dagster.model.project import Project
from rivet_dagster.project.load import load_project
from rivet_dagster.project.manifest import read_manifest
from rivet_dagster.project.profile_edit import replace_edited, with_entry
from rivet_dagster.project.profiles import chosen_profile
from rivet_dagster.project.settings_file import read_settings
from rivet_dagster.project.text_file import read_text
from rivet_dagster.project.yaml_text import YamlError, plain, read_yaml
from rivet_dagster.secrets.redaction import MASK
from rivet_dagster.secrets.variables import mask_secrets


def list_catalogs(root: Path, profile: str | None, as_json: bool) -> int:
    """Print the catalogs of a profile, and whether each can be reached."""
    project = load_project(root, profile)
    described = [_described(spec, _findings_of(project, spec, root)) for spec in project.profile.catalogs]
    _list("catalogs", described, as_json)
    return 0


def list_engines(root: Path, profile: str | None, as_json: bool) -> int:
    """Print the engines of a profile, and whether each can start; none is started."""
    declared = load_project(root, profile).profile
    described = [_described(spec, list(examine_engine(declared, spec, root, os.environ))) for spec in declared.engines]
    _list("engines", described, as_json)
    return 0


def describe_catalog(root: Path, profile: str | None, name: str, as_json: bool) -> int:
    """Print one catalog, what it can do, the joints that read and write it, and what an examination finds."""
    project = load_project(root, profile)
    spec = project.profile.catalog(name)
    if spec is None:
        known = [catalog.name for catalog in project.profile.catalogs]
        raise RivetError(
            "RVT-110", f"the profile '{project.profile.name}' has no catalog '{name}'{nearest(name, known)}"
        )
    findings = _findings_of(project, spec, root)
    tables = {joint.name: joint.table for joint in project.joints if joint.catalog == name}
    described = _described(spec, findings) | {
        "write_strategies": sorted(catalog_traits()[spec.type].strategies),
        "tables": tables,
    }
    if as_json:
        print(json.dumps({"success": True, **described}, indent=2, ensure_ascii=False))
        return 0
    print(f"{spec.name}  {spec.type}")
    for key, value in described["options"].items():
        print(f"  {key}: {_text(value)}")
    print(f"write strategies: {', '.join(described['write_strategies']) or 'none'}")
    for joint, table in tables.items():
        print(f"  {joint}: {table}")
    for finding in findings:
        print(render_finding(finding))
    return 0


def create_catalog(root: Path, profile: str | None, name: str, type_: str, options: Sequence[str]) -> int:
    """Write a catalog into the chosen profile. Raises RVT-103, RVT-104, RVT-105, RVT-106, RVT-108, RVT-109."""
    given = _options(options)
    refuse_wrong_options(catalog_class(type_), f"catalog '{name}'", given)
    _write(root, profile, "catalogs", name, {"type": type_, **given})
    print(f"{name}: list it under the `catalogs` of the engines that are to reach it")
    return 0


def create_engine(
    root: Path, profile: str | None, name: str, type_: str, catalogs: str | None, options: Sequence[str]
) -> int:
    """Write an engine into the chosen profile.

    Raises RVT-103, RVT-104, RVT-105, RVT-106, RVT-108, RVT-109, RVT-501.
    """
    given = _options(options)
    limit = {key: given.pop(key) for key in ("concurrency_limit",) if key in given}
    for key, value in limit.items():
        try:
            convert.whole(1)(value)
        except ValueError as error:
            raise RivetError("RVT-501", f"engine '{name}': `{key}` {error}") from None
    refuse_wrong_options(engine_class(type_).variant(given), f"engine '{name}'", given)
    reached = [each.strip() for each in catalogs.split(",")] if catalogs else []
    catalogs_of = {"catalogs": reached} if reached else {}
    _write(root, profile, "engines", name, {"type": type_, **catalogs_of, **limit, **given})
    return 0


def _write(root: Path, profile: str | None, section: str, name: str, entry: Mapping[str, Any]) -> None:
    manifest, errors = read_manifest(root)
    if manifest.profiles is None:
        raise RivetError.of(errors)
    file, chosen = manifest.profiles, chosen_profile(profile, os.environ)
    settings = plain(read_settings(root / file, file))
    if not isinstance(settings.get(chosen), Mapping):
        raise RivetError("RVT-106", f"there is no profile '{chosen}'{nearest(chosen, settings)}", file=file)
    try:
        convert.name(name)
    except ValueError as error:
        raise RivetError("RVT-104", f"the name '{name}' {error}") from None
    _refuse_unknown(entry.get("catalogs", ()), settings[chosen].get("catalogs") or {}, file)
    text = with_entry(read_text(root / file), file, chosen, section, name, entry)
    mark = BOM_UTF8 if (root / file).read_bytes().startswith(BOM_UTF8) else b""
    replace_edited(root / file, mark + text.encode())
    print(f"{file}: the profile '{chosen}' has '{name}' in `{section}` now")


def _refuse_unknown(names: Iterable[str], known: Mapping[str, Any], file: str) -> None:
    for name in names:
        if name not in known:
            raise RivetError(
                "RVT-104", f"`catalogs` names no catalog of this profile: '{name}'{nearest(name, known)}", file=file
            )


def _options(texts: Sequence[str]) -> dict[str, Any]:
    """Return the options of ``KEY=VALUE``, each value read as YAML. Raises RVT-110.

    >>> _options(["path=lake", "config={spark.cores.max: 4}"])
    {'path': 'lake', 'config': {'spark.cores.max': 4}}
    """
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise RivetError("RVT-110", f"--option is written KEY=VALUE, not '{text}'")
        try:
            options[key] = plain(read_yaml(value)) if value else ""
        except YamlError:
            options[key] = value
    return options


def _findings_of(project: Project, spec: CatalogSpec, root: Path) -> list[Finding]:
    return list(examine_catalog(project, spec, root, os.environ))


def _described(spec: CatalogSpec | EngineSpec, findings: Sequence[Finding]) -> dict[str, Any]:
    options = {key: value for key, value in mask_secrets(spec.options).items() if value != MASK}
    described: dict[str, Any] = {"name": spec.name, "type": spec.type}
    if isinstance(spec, EngineSpec):
        described |= {"catalogs": list(spec.catalogs), "concurrency_limit": spec.concurrency_limit}
    return described | {
        "options": options,
        "reachable": all(finding.status != FAIL for finding in findings),
        "findings": [asdict(finding) for finding in findings],
    }


def _list(kind: str, entries: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    if as_json:
        print(json.dumps({"success": True, kind: list(entries)}, indent=2, ensure_ascii=False))
        return
    table = Table(
        "name", "type", "options", "state", box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False
    )
    for entry in entries:
        failed = [finding for finding in entry["findings"] if finding["status"] == FAIL]
        state = f"{failed[0]['code']} {failed[0]['text']}" if failed else "reachable"
        options = ", ".join(f"{key}={_text(value)}" for key, value in entry["options"].items())
        table.add_row(entry["name"], entry["type"], options, Text(state, "red" if failed else "green"))
    show(table)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

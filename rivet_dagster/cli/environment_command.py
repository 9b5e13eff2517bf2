"""``rivet-dagster environment``: list, create, merge and drop environments of the data."""

from __future__ import annotations

import json
import os
from pathlib import Path

from rivet_dagster.cli.compiled import compile_for_command
from rivet_dagster.execution.environments import (
    ProjectEnvironment,
    drop,
    environments,
    merge,
    require_environment,
    use_environment,
)
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.project.environment_name import environment_name


def list_environments(root: Path, profile: str | None, as_json: bool) -> int:
    """Print the environments of a project; no engine is started."""
    _list(environments(_runtime(root, profile, None)), as_json)
    return 0


def create_environment(root: Path, profile: str | None, name: str) -> int:
    """Make an environment, unless there is one. Raises RVT-129, RVT-413, RVT-415, RVT-416."""
    use_environment(_runtime(root, profile, name))
    print(f"{name}: `rivet-dagster run --environment {name}` works there")
    return 0


def merge_environment(root: Path, profile: str | None, name: str) -> int:
    """Publish the tables of an environment in the base. Raises RVT-129, RVT-405, RVT-415, RVT-417."""
    published = merge(_runtime(root, profile, name), name)
    for version in published:
        rows = f"{version.statistics.rows:,} rows"
        print(f"{version.catalog}.{version.table}: readers see {version.version} now, {rows}")
    print(f"{name}: merged, {len(published)} table{'' if len(published) == 1 else 's'} published")
    return 0


def drop_environment(root: Path, profile: str | None, name: str) -> int:
    """Remove an environment. Raises RVT-129, RVT-415."""
    drop(_runtime(root, profile, name), name)
    print(f"{name} is gone")
    return 0


def runtime_of(root: Path, profile: str | None, environment: str | None) -> Runtime:
    """Return the runtime of a command that looks into the base, or into an environment that exists. Raises RVT-415."""
    name = environment_name(environment, os.environ)
    runtime = _runtime(root, profile, name)
    if name is not None:
        require_environment(runtime, name)
    return runtime


def _runtime(root: Path, profile: str | None, name: str | None) -> Runtime:
    root = root.resolve()
    checked = environment_name(name, {}) if name is not None else None
    return Runtime(compile_for_command(root, profile).raise_errors(), root, environment=checked)


def _list(existing: tuple[ProjectEnvironment, ...], as_json: bool) -> None:
    if as_json:
        listed = {"success": True, "environments": [environment.to_dict() for environment in existing]}
        print(json.dumps(listed, indent=2))
        return
    if not existing:
        print("there are no environments")
    for one in existing:
        state = "  being merged" if one.merging else ""
        count = f"{len(one.tables)} table{'' if len(one.tables) == 1 else 's'}"
        print(f"{one.name}  {count}  created {one.created_at}  used {one.used_at}  profile {one.profile}{state}")
        for table in one.tables:
            print(f"    {table}")

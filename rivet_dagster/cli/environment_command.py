"""``rivet-dagster environment``: list, create, merge and drop environments of the data."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from rivet_dagster.errors import RivetError
from rivet_dagster.execution.environments import (
    ProjectEnvironment,
    drop,
    environments,
    merge,
    require_environment,
    use_environment,
)
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.loading import compile_directory
from rivet_dagster.project.environment_name import environment_name


def environment_command(options: argparse.Namespace) -> int:
    """List the environments of a project, or make, merge or drop one; no engine is started."""
    name = _checked_name(options)
    root = Path(options.project).resolve()
    assembly = compile_directory(root, options.profile).raise_errors()
    runtime = Runtime(assembly, root, environment=name)
    if options.action == "list" or name is None:
        _list(environments(runtime), as_json=options.format == "json")
    elif options.action == "create":
        use_environment(runtime)
        print(f"{name}: `rivet-dagster run --environment {name}` works there")
    elif options.action == "merge":
        published = merge(runtime, name)
        for version in published:
            rows = f"{version.statistics.rows:,} rows"
            print(f"{version.catalog}.{version.table}: readers see {version.version} now, {rows}")
        print(f"{name}: merged, {len(published)} table{'' if len(published) == 1 else 's'} published")
    else:
        drop(runtime, name)
        print(f"{name} is gone")
    return 0


def runtime_of(options: argparse.Namespace) -> Runtime:
    """Return the runtime of a command that looks into the base, or into an environment that exists. Raises RVT-415."""
    name = environment_name(options.environment, os.environ)
    root = Path(options.project).resolve()
    runtime = Runtime(compile_directory(root, options.profile).raise_errors(), root, environment=name)
    if name is not None:
        require_environment(runtime, name)
    return runtime


def _checked_name(options: argparse.Namespace) -> str | None:
    if options.action == "list":
        if options.name is not None:
            raise RivetError("RVT-110", "environment list takes no NAME")
        return None
    if options.format == "json":
        raise RivetError("RVT-110", f"environment {options.action} has no --format json; `list` has it")
    if options.name is None:
        raise RivetError("RVT-110", f"environment {options.action} needs a NAME")
    return environment_name(options.name, {})


def _list(found: tuple[ProjectEnvironment, ...], as_json: bool) -> None:
    if as_json:
        listed = {"success": True, "environments": [environment.to_dict() for environment in found]}
        print(json.dumps(listed, indent=2))
        return
    if not found:
        print("there are no environments")
    for one in found:
        state = "  being merged" if one.merging else ""
        count = f"{len(one.tables)} table{'' if len(one.tables) == 1 else 's'}"
        print(f"{one.name}  {count}  created {one.created_at}  used {one.used_at}  profile {one.profile}{state}")
        for table in one.tables:
            print(f"    {table}")

"""The files at the top of the new project: rivet.yaml, profiles.yaml and what Dagster needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from rivet_dagster.dbt.declared import DbtProject
from rivet_dagster.dbt.translation.annotations import scalar, yaml_lines
from rivet_dagster.dbt.translation.draft import SEEDS, SESSION, WAREHOUSE, JointDraft
from rivet_dagster.secrets.names import names_secret

FOLDERS = ("sources", "joints", "sinks")


_DEFINITIONS = '''"""For Dagster: `dagster dev -f definitions.py`."""

from rivet_dagster import load_definitions

defs = load_definitions(".")
'''
_IGNORED = ".rivet/\nwarehouse/\nspark-warehouse/\nmetastore_db/\nderby.log\n__pycache__/\n"


def settings_files(
    project: DbtProject, variables: Mapping[str, Any], drafts: Iterable[JointDraft], has_macros: bool
) -> dict[str, str]:
    """Return the files at the top of the project by name."""
    manifest: dict[str, Any] = {"profiles": "profiles.yaml", **{folder: folder for folder in FOLDERS}}
    manifest |= {"macros": "macros"} if has_macros else {}
    manifest |= {"vars": dict(variables)} if variables else {}
    used = {str(draft.keys["catalog"]) for draft in drafts if "catalog" in draft.keys} | {WAREHOUSE}
    return {
        "rivet.yaml": yaml_lines(manifest, depth=2),
        "profiles.yaml": _profiles(project, used),
        "definitions.py": _DEFINITIONS,
        ".gitignore": _IGNORED,
    }


def _profiles(project: DbtProject, used: set[str]) -> str:
    target = project.target
    catalogs = [f"    {WAREHOUSE}: {{type: filesystem, path: warehouse}}  # the published tables, as Parquet\n"]
    if SEEDS in used:
        catalogs.append(f"    {SEEDS}: {{type: filesystem, path: seeds, format: csv}}\n")
    if SESSION in used:
        entry = scalar({"type": "spark", "database": target.schema})
        catalogs.append(f"    {SESSION}: {entry}  # the tables of sources; `metastore` says where\n")
    names = [name for name in (WAREHOUSE, SEEDS, SESSION) if name in used]
    # dbt-spark turns it off for each of its connections.
    config = {"spark.sql.ansi.enabled": "false"} if target.adapter == "spark" else {}
    config |= _server_settings(target.values.get("server_side_parameters"))
    settings = "".join(f"        {scalar(key)}: {scalar(value)}\n" for key, value in config.items())
    settings = f"      config:\n{settings}" if settings else ""
    where = f" (it was {target.method} on {target.values['host']})" if target.values.get("host") else ""
    return (
        f"# {project.root.name}, moved from dbt: what its profile '{target.profile}' calls '{target.name}' "
        f"({target.adapter}){where}\n"
        "default:\n"
        f"  catalogs:\n{''.join(catalogs)}"
        "  engines:\n"
        "    - name: spark\n"
        "      type: pyspark\n"
        f"      catalogs: {scalar(names)}\n"
        "      master: local[*]  # or the address of a cluster, or `remote` for Spark Connect\n"
        f"{settings}"
        "  default_engine: spark\n"
    )


def _server_settings(value: Any) -> dict[str, str]:
    """Return the settings that dbt gives its session; a secret becomes a variable of the environment."""
    settings = value if isinstance(value, Mapping) else {}
    secrets = secrets_of(value)
    return {str(key): f"${{{secrets[str(key)]}}}" if str(key) in secrets else _text(v) for key, v in settings.items()}


def secrets_of(value: Any) -> dict[str, str]:
    """Return the settings of a session that are secrets, with the variables of the environment for them.

    >>> secrets_of({"fs.azure.account.key.x": "abc", "spark.sql.shuffle.partitions": 8})
    {'fs.azure.account.key.x': 'FS_AZURE_ACCOUNT_KEY_X'}
    """
    settings = value if isinstance(value, Mapping) else {}
    return {key: _variable(key) for key in map(str, settings) if names_secret(key)}


def _variable(key: str) -> str:
    name = re.sub(r"[^A-Z0-9]+", "_", key.upper()).strip("_")
    return f"S_{name}" if name[:1].isdigit() else name or "SECRET"


def _text(value: Any) -> str:
    return (str(value).lower() if isinstance(value, bool) else str(value)).replace("${", "$${")

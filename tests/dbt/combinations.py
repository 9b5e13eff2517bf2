"""A dbt project of incremental models with one combination of settings each, and of other kinds with all of them.

    VENV/bin/python tests/dbt/combinations.py

writes what dbt makes of it in three builds to ``recorded/combinations.json``; VENV is a virtual environment with
dbt-core, dbt-spark and pyspark. Its seeds are those of `history`: the second one has other rows and one more column.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

from generated import Generated

HERE = Path(__file__).parent
NAME = "combinations"

STRATEGIES = ("append", "merge", "insert_overwrite")
CHANGES = ("ignore", "append_new_columns", "sync_all_columns", "fail", "unheard_of")
KEYS = {"no_key": None, "key": "id", "two_keys": ["day", "id"]}
PARTS = {"whole": None, "by_day": "day", "by_day_and_city": ["day", "city"]}

ALL = "select * from {{ ref('visits') }}"
NEW = f"{ALL}\n{{% if is_incremental() %}}\nwhere id > (select max(id) from {{{{ this }}}})\n{{% endif %}}"
RECENT = f"{ALL}\n{{% if is_incremental() %}}\nwhere day >= (select max(day) from {{{{ this }}}})\n{{% endif %}}"

LEFT_OUT = {"insert_overwrite_whole_asks"}
"""What has no counterpart: its second run replaces the table by the new rows alone."""


def settings() -> Iterator[tuple[str, dict[str, object], str]]:
    """Yield the name of each model, its configuration, and its query."""
    for strategy in STRATEGIES:
        for parted, parts in PARTS.items():
            for keyed, key in KEYS.items():
                for change in CHANGES if parted == "whole" and keyed == "key" else CHANGES[1:2]:
                    config = {"incremental_strategy": strategy, "unique_key": key, "partition_by": parts}
                    query = {"append": NEW, "merge": ALL}.get(strategy, ALL if parts is None else RECENT)
                    name = f"{strategy}_{parted}_{keyed}_{change}"
                    yield name, {"materialized": "incremental", **config, "on_schema_change": change}, query
        refreshed = {"materialized": "incremental", "incremental_strategy": strategy, "full_refresh": True}
        yield f"{strategy}_refreshed", {**refreshed, "unique_key": "id"}, NEW
    overwrite = {"materialized": "incremental", "incremental_strategy": "insert_overwrite"}
    yield "insert_overwrite_whole_asks", overwrite, RECENT
    for kind in ("table", "view"):
        others = {"incremental_strategy": "merge", "unique_key": "id", "on_schema_change": "fail"}
        yield f"kind_{kind}", {"materialized": kind, **others, "partition_by": "day"}, NEW


def combine() -> Generated:
    """Return the project, whose folder also has what dbt needs to run it."""
    made = Generated(NAME)
    for name, config, query in settings():
        given = ", ".join(f"{key}={value!r}" for key, value in config.items() if value is not None)
        made.files[f"models/{name}.sql"] = f"{{{{ config({given}) }}}}\n{query}\n"
        made.reads[name] = ["visits"]
    made.files["dbt_project.yml"] = (
        f"name: {NAME}\nversion: '1.0'\nconfig-version: 2\nprofile: {NAME}\n"
        "models: {+file_format: iceberg}\nseeds: {+file_format: iceberg}\n"
    )
    made.files["profiles.yml"] = (HERE / "history" / "profiles.yml").read_text().replace("history", NAME)
    for files, stage in ((made.files, "history"), (made.later, "history_later"), (made.last, "history_last")):
        files["seeds/visits.csv"] = (HERE / stage / "seeds" / "visits.csv").read_text()
    return made


if __name__ == "__main__":
    from record import lines
    from record_random import SETTINGS, build

    path = HERE / "recorded" / f"{NAME}.json"
    made = combine()
    for name, value in SETTINGS.items():
        marker = "      server_side_parameters:\n"
        made.files["profiles.yml"] = made.files["profiles.yml"].replace(
            marker, f'{marker}        "{name}": "{value}"\n'
        )
    versions = {name: version(name) for name in ("dbt-core", "dbt-spark", "pyspark")}
    with tempfile.TemporaryDirectory() as location:
        os.chdir(location)
        builds = build(made)
    for each in builds:
        each["errors"] = [message.partition(":")[0] for message in each["errors"]]
    path.write_text(lines({"versions": versions, "builds": builds}) + "\n")

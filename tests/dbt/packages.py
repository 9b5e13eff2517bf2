"""A dbt project that calls each macro and generic test of packages that are built in, with and without the packages.

dbt gets them as packages in ``dbt_packages/``, which hold the text that is built in; the import has nothing there.
"""

from __future__ import annotations

import json
from pathlib import Path

from generated import Generated
from package_cases import declared_cases, query, random_rows
from package_macros import models_of_macros

from rivet_dagster.dbt.translation.macros import DBT, builtin_macros

NAME = "packages"
PACKAGES = ("audit_helper", "dbt_date", "dbt_expectations", "dbt_utils")
TABLES = (0, 5)
"""The tables of random rows: more than half of the tests hold of one, and do not of the other."""
# Code that Spark generates and compiles would take most of the time of such small queries.
SETTINGS = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}


def write_models() -> Generated:
    """Return the project without packages, whose folder also has what dbt needs to run it."""
    made = Generated(NAME)
    models = models_of_macros()
    # The name of a relation is that of a table in dbt, and that of a joint here.
    models["counts"] = f"select total_records from (\n{models['counts']}\n) counted"
    models |= {f"rows_{number}": query(random_rows(number)) for number in TABLES}
    models |= {"others": query(random_rows(7)), "narrow": "select 1 as id"}
    for name, text in models.items():
        made.files[f"models/{name}.sql"] = text + "\n"
        made.reads[name] = []
    made.files["models/all.yml"] = json.dumps({"models": declared_cases(TABLES)}, indent=1)  # JSON is YAML, too
    made.files["packages.yml"] = json.dumps(
        {"packages": [{"package": f"shop/{name}", "version": "1.0.0"} for name in PACKAGES]}
    )
    project = {"name": NAME, "version": "1.0", "config-version": 2, "profile": NAME}
    project |= {"models": {"+materialized": "table"}, "vars": {"dbt_date:time_zone": "UTC"}}
    made.files["dbt_project.yml"] = json.dumps(project)
    output = {"type": "spark", "method": "session", "schema": NAME, "host": "NA", "threads": 1}
    profile = {"target": "dev", "outputs": {"dev": {**output, "server_side_parameters": SETTINGS}}}
    made.files["profiles.yml"] = json.dumps({NAME: profile})
    return made


def install(folder: Path) -> None:
    """Write the packages to a project's folder, as `dbt deps` does."""
    for name in PACKAGES:
        package = folder / "dbt_packages" / name
        (package / "macros").mkdir(parents=True)
        project = {"name": name, "version": "1.0", "config-version": 2, "macro-paths": ["macros"]}
        (package / "dbt_project.yml").write_text(json.dumps(project))
        text = builtin_macros(name)[0].template.text
        (package / "macros" / "all.sql").write_text("\n".join([text, *_added_to(name)]))


def _added_to(package: str) -> list[str]:
    """Return the macros of a package in whose place an import takes those that are built in for dbt."""
    if package == "dbt_utils":
        return [
            _text_of("slugify"),
            "{% macro date_spine(datepart, start_date, end_date) -%}\n"
            "{{ dbt.date_spine(datepart, start_date, end_date) }}\n{%- endmacro %}",
        ]
    if package == "dbt_date":
        counted = _text_of("date_spine").replace("macro date_spine(", "macro counted_date_spine(")
        spine = _text_of("dbt_date_spine").replace("{{ date_spine(", "{{ dbt_date.counted_date_spine(")
        return [counted, spine.replace("macro dbt_date_spine(", "macro date_spine(")]
    return []


def _text_of(name: str) -> str:
    macro = next(macro for macro in builtin_macros(DBT) if macro.name == name)
    return macro.template.text[macro.block.start : macro.block.end]

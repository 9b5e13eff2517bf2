"""YAML of any shape where dbt expects another: what is wrong is told, and nothing ends in a traceback."""

import copy
import json
import tempfile
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from support.dbt import write_dbt
from support.torture import examples

from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.translation.project import translate
from rivet_dagster.errors import RivetError

TEST = {"name": "t", "config": {"severity": "warn", "where": "id > 1", "enabled": True, "tags": ["a"]}}
COLUMN = {
    "name": "id",
    "description": "{{ doc('d') }}",
    "data_type": "int",
    "quote": False,
    "meta": {"a": 1},
    "tags": ["x"],
    "constraints": [{"type": "not_null"}],
    "data_tests": [
        "unique",
        {"not_null": TEST},
        {"accepted_values": {"arguments": {"values": [1, 2], "quote": False}, **TEST}},
        {"relationships": {"to": "ref('s')", "field": "id"}},
        {"odd": {"above": 3}, "config": {"error_if": ">5", "limit": 10, "fail_calc": "sum(1)"}},
    ],
}
MODEL = {
    "name": "m",
    "description": "Text.",
    "config": {
        "materialized": "table",
        "tags": ["a", "b"],
        "group": "g",
        "meta": {"x": [1]},
        "contract": {"enforced": True},
    },
    "columns": [COLUMN],
    "data_tests": [{"test_name": "odd", "column_name": "id", "arguments": {"above": 2}}],
    "constraints": [{"type": "primary_key", "columns": ["id"]}],
    "access": "public",
}
VERSIONED = {
    "name": "v",
    "latest_version": 2,
    "columns": [COLUMN],
    "versions": [
        {"v": 1, "columns": [{"include": "all", "exclude": ["id"]}]},
        {"v": 2, "defined_in": "v_new", "config": {}},
    ],
}
SOURCE = {
    "name": "crm",
    "schema": "raw",
    "database": "db",
    "loader": "x",
    "freshness": {"warn_after": {"count": 12, "period": "hour"}},
    "loaded_at_field": "at",
    "config": {"enabled": True},
    "tables": [{"name": "visits", "identifier": "v", "columns": [COLUMN], "freshness": None, "data_tests": ["odd"]}],
}
SNAPSHOT = {
    "name": "h",
    "relation": "ref('m')",
    "config": {
        "unique_key": ["id"],
        "strategy": "check",
        "check_cols": "all",
        "hard_deletes": "invalidate",
        "snapshot_meta_column_names": {"dbt_valid_from": "f"},
    },
}
YAML = {
    "dbt_project.yml": {
        "name": "shop",
        "profile": "shop",
        "version": "1",
        "model-paths": ["models"],
        "vars": {"a": 1, "shop": {"b": [1, {"c": None}]}},
        "models": {"shop": {"+materialized": "table", "+tags": "x", "marts": {"schema": "s", "+meta": {"a": 1}}}},
        "seeds": {"shop": {"+column_types": {"id": "int"}, "+delimiter": ","}},
        "snapshots": {"+target_schema": "s"},
        "data_tests": {"+severity": "warn", "shop": {"+enabled": True}},
        "dispatch": [{"macro_namespace": "dbt_utils", "search_order": ["shop", "dbt_utils"]}],
        "on-run-start": ["{{ f() }}"],
        "flags": {"x": True},
    },
    "profiles.yml": {
        "shop": {
            "target": "dev",
            "outputs": {
                "dev": {
                    "type": "spark",
                    "method": "session",
                    "schema": "s",
                    "host": "h",
                    "port": 1,
                    "server_side_parameters": {"spark.x": 1, "my.password": "p"},
                },
                "db": {
                    "type": "postgres",
                    "host": "h",
                    "port": 5432,
                    "user": "u",
                    "password": "{{ env_var('P') }}",
                    "dbname": "db",
                    "schema": "s",
                    "sslmode": "require",
                    "sslrootcert": "c",
                    "threads": 4,
                },
            },
        }
    },
    "models/all.yml": {
        "version": 2,
        "models": [MODEL, VERSIONED],
        "sources": [SOURCE],
        "seeds": [{"name": "s", "config": {"column_types": {"id": "bigint"}}, "columns": [COLUMN]}],
        "snapshots": [SNAPSHOT],
        "macros": [{"name": "f", "arguments": [{"name": "x", "type": "int"}]}],
        "groups": [{"name": "g", "owner": {"name": "A", "email": "a@example.com"}}],
        "exposures": [{"name": "e", "type": "dashboard", "depends_on": ["ref('m')"]}],
        "unit_tests": [{"name": "u", "model": "m"}],
        "metrics": [{"name": "x"}],
    },
}
TEXTS = {
    "models/m.sql": "{{ config(alias='n') }}select id, '{{ var('a') }}' a, '{{ target.schema }}' b "
    "from {{ source('crm', 'visits') }}",
    "models/v_v1.sql": "select * from {{ ref('m') }}",
    "models/v_new.sql": "select * from {{ ref('v', v=1) }}",
    "seeds/s.csv": "id,name\n1,a\n",
    "macros/t.sql": "{% test odd(model, column_name='id', above=1) %}"
    "select * from {{ model }} where id > {{ above }}{% endtest %}",
    "models/d.md": "{% docs d %}A text.{% enddocs %}",
    "dbt_packages/p/models/q.sql": "select 1 as id",
}
ODD = st.recursive(
    st.sampled_from(
        [
            None,
            True,
            0,
            -1.5,
            float("nan"),
            "",
            "x",
            "{{ var('a') }}",
            "{{ env_var('X') }}",
            "{{ broken",
            "a.b",
            "ä b",
            "2024",
        ]
    )
    | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["name", "a", 1, None, "+b", True]), inner, max_size=2)
    ),
    max_leaves=4,
)


def locations(value, path=()):
    """Return the paths to all that is in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(found for key, item in items for found in locations(item, (*path, key)))]


PLACES = [(file, path) for file, value in YAML.items() for path in locations(value)]


def with_odd(changes, target):
    """Return the files with some values replaced; a place that an earlier change has taken away is passed over."""
    values = copy.deepcopy(YAML)
    values["profiles.yml"]["shop"]["target"] = target
    for (file, path), odd in changes:
        *way, last = file, *path
        holder = values
        try:
            for key in way:
                holder = holder[key]
            holder[last] = odd if holder[last] is not odd else None
        except (KeyError, IndexError, TypeError):
            continue
    return TEXTS | {file: yaml.safe_dump(value, allow_unicode=True) for file, value in values.items()}


@pytest.mark.slow
@settings(max_examples=examples(25, 150), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=3), st.sampled_from(["dev", "db"]))
def test_nothing_ends_in_a_traceback(changes, target):
    with tempfile.TemporaryDirectory() as folder:
        root = write_dbt(Path(folder), {"dbt_packages/p/dbt_project.yml": "name: p", **with_odd(changes, target)})
        try:
            result = translate(read_dbt_project(root), root)
        except RivetError as error:
            if error.diagnostics[0].code == "RVT-142":
                return
            raise
    json.dumps(result.report.to_dict())
    for entry in (*result.report.models, *result.report.tests, *result.report.others):
        assert all(isinstance(reason, str) for reason in entry.reasons)
        assert entry.location.line >= 1


def test_keys_that_are_not_used_are_told(tmp_path):
    model = (
        "{name: m, descripton: x, materialized: table, deprecation_date: x, columns: [{name: id, meta: {a: 1}, "
        "config: {tags: x}, constraints: [{type: not_null}], data_tests: [unique: {config: {meta: {a: 1}, tags: b}}]}]}"
    )
    source = "{name: crm, loader: x, quoting: {schema: true}, tables: [{name: t, external: {a: 1}, meta: {b: 1}}]}"
    files = {
        "models/m.sql": "select 1 as id",
        "models/m.yml": f"models: [{model}]\nsources: [{source}]\nfunctions: [{{name: f}}]",
        "macros/m.sql": "{% macro f() %}1{% endmacro %}",
        "macros/m.yml": "macros: [{name: f, description: Text.}]",
        "selectors.yml": "selectors: []",
    }
    root = write_dbt(tmp_path, files, "name: shop\nquoting: {schema: true}\nmodles: {shop: {+enabled: false}}")
    report = translate(read_dbt_project(root), root).report
    others = {(entry.kind, entry.name): entry for entry in report.others}
    assert report.models[0].reasons == (
        "`descripton` is not known; did you mean 'description'?",
        "`materialized` is not used: it belongs below `config`",
        "`deprecation_date` has no counterpart",
        "`meta` (id) has no counterpart",
        "`constraints` (id) have no counterpart: declare checks in their place",
        "`tags` (id) have no counterpart at a column",
    )
    assert others["source", "crm.t"].reasons == (
        "meta has no counterpart",
        "`loader` has no counterpart",
        "`quoting` is not used: names are quoted where they must be",
        "`external` has no counterpart: the table must be there",
    )
    assert others["setting", "quoting"].reasons == ("is a setting of dbt itself",)
    assert others["setting", "modles"].reasons[0].startswith("is not known; did you mean 'models'")
    assert others["setting", "modles"].location.line == 3
    assert {kind for kind, _ in others} >= {"selector", "macro_description", "function"}
    assert report.tests[0].reasons == (
        "its configuration `meta` has no counterpart",
        "its configuration `tags` has no counterpart",
    )

"""Frequent user errors, each a small project, with the complete output: text, JSON and exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from doctest import ELLIPSIS, NORMALIZE_WHITESPACE, OutputChecker
from pathlib import Path
from typing import NamedTuple

import pytest

from rivet_dagster import compile_directory
from rivet_dagster.cli.main import main
from rivet_dagster.errors import Diagnostic, RivetError

MANIFEST = "profiles: profiles.yaml\nsources: sources\njoints: joints\nsinks: sinks\n"
PROFILES = """\
default:
  catalogs:
    lake: {type: filesystem, path: lake}
    attic: {type: filesystem, path: attic}
  engines:
    - {name: spark, type: pyspark, catalogs: [lake]}
"""
SOURCE = "type: source\ncatalog: lake\ntable: raw\noptions: {schema: 'id BIGINT, net DOUBLE'}\n"
QUERY = "SELECT id, net FROM raw\n"
SINK = "type: sink\nupstream: orders\ncatalog: lake\ntable: report\n"
GOOD = {
    "rivet.yaml": MANIFEST,
    "profiles.yaml": PROFILES,
    "sources/raw.yaml": SOURCE,
    "joints/orders.sql": QUERY,
    "sinks/report.yaml": SINK,
}
SECRET = "s3cret"


class Case(NamedTuple):
    """``files`` that differ from the valid project (None: missing), and the output ``output``.

    In it ``...`` is any text, ROOT is the project's folder, and any whitespace matches any other.
    """

    files: Mapping[str, str | bytes | None]
    output: str
    profile: str | None = None


def sql(text: str, output: str) -> Case:
    return Case({"joints/orders.sql": text}, output)


def yaml(more: str, output: str) -> Case:
    """Return the case of a joint in YAML whose lines begin at the third."""
    return Case({"joints/orders.sql": None, "joints/orders.yaml": f"type: sql\nsql: SELECT * FROM raw\n{more}"}, output)


def source(more: str, output: str) -> Case:
    """Return the case of a source with additional lines from the fifth on."""
    return Case({"sources/raw.yaml": SOURCE + more}, output)


def sink(more: str, output: str) -> Case:
    """Return the case of a sink with additional lines from the fifth on."""
    return Case({"sinks/report.yaml": SINK + more}, output)


def python(text: str, output: str) -> Case:
    return Case({"joints/scores.py": text}, output)


def quality(text: str, output: str) -> Case:
    return Case({"quality/orders.yaml": text}, output)


def manifest(old: str, new: str, output: str) -> Case:
    assert old in MANIFEST
    return Case({"rivet.yaml": MANIFEST.replace(old, new)}, output)


def profiles(old: str, new: str, output: str) -> Case:
    assert old in PROFILES
    return Case({"profiles.yaml": PROFILES.replace(old, new)}, output)


CONFIGURATION = {
    "no manifest": Case({"rivet.yaml": None}, """
        RVT-101 there is no rivet.yaml in ROOT
            Name the project's directory with --project, or create one with a rivet.yaml in it.
    """),
    "manifest with the other extension": Case({"rivet.yaml": None, "rivet.yml": MANIFEST}, """
        RVT-101 there is no rivet.yaml in ROOT; did you mean 'rivet.yml'?
            Name the project's directory with --project, or create one with a rivet.yaml in it.
    """),
    "catalog: wrong options of its store": profiles(
        "path: attic}",
        "path: 's3a://x', options: {endpont: x, endpoint: 'minio:9000', region: 3, access_key: '${PATH}'}}", """
        RVT-104 profiles.yaml:4: catalog 'attic': `options` has the unknown key 'endpont'; did you mean 'endpoint'?;
        needs a URL like https://minio.example:9000 for `endpoint`; needs a text for `region`, not 3; needs both
        `access_key` and `secret_key`, or neither
            Correct the value.
    """),
    "catalog: a store that is none": profiles("path: attic", "path: 's3b://lake/x'", """
        RVT-104 profiles.yaml:4: catalog 'attic': `path` is in a kind of store that is not known, s3b://; did you mean
        's3' or 's3a'?
            Correct the value.
    """),
    "manifest: colon in a text": manifest("sinks: sinks", "sinks: my: sinks", """
        RVT-102 rivet.yaml:4: the YAML cannot be read: mapping values are not allowed ...
            Correct the YAML; a text with ': ' or ' #' in it, or that begins with one of {[@`%&*!|>, needs quotes.
    """),
    "manifest: unknown key": manifest("sinks: sinks", "sinks: sinks\nqualty: checks", """
        RVT-103 rivet.yaml:5: unknown key 'qualty'; did you mean 'quality'?
            Remove the key or correct its name.
    """),
    "manifest: vars": manifest("sinks: sinks", "sinks: sinks\nvars: {a-b: 1, c: ['${SET}'], d: '${x'}", """
        RVT-104 rivet.yaml:5: `vars`: `a-b` must be a name of letters, digits and '_' that does not begin with a digit
            ...
        RVT-104 rivet.yaml:5: `vars`: `c` holds a ${NAME} within a list or mapping; make a variable of its own of it
            ...
        RVT-104 rivet.yaml:5: `vars`: `d` holds a '${' that is no ${NAME}; write a literal one as '$${'
            ...
    """),
    "manifest: a variable that is not set": manifest("sinks: sinks", "sinks: sinks\nvars:\n  a: 1\n  e: '${GONE}'", """
        RVT-107 rivet.yaml:7: `vars.e` needs the environment variable GONE, which is not set
            ...
    """),
    "manifest: macros": manifest("sinks: sinks", "sinks: sinks\nmacros: makros", """
        RVT-108 rivet.yaml:5: `macros`: the folder 'makros' does not exist
            ...
    """),
    "manifest: fail_fast": manifest("sinks: sinks", "sinks: sinks\nfail_fast: no", """
        RVT-104 rivet.yaml:5: `fail_fast` must be true or false, not a text
            Correct the value.
    """),
    "manifest: no folder": manifest("joints: joints", "joints: joint", """
        RVT-108 rivet.yaml:3: `joints`: the folder 'joint' does not exist; did you mean 'joints'?
            Create the file or folder, or correct the path in rivet.yaml.
    """),
    "manifest: folder that is a file": manifest("joints: joints", "joints: rivet.yaml", """
        RVT-108 rivet.yaml:3: `joints`: the folder 'rivet.yaml' is no folder
            Create the file or folder, or correct the path in rivet.yaml.
    """),
    "no profiles": Case({"profiles.yaml": None, "profiles.yml": PROFILES}, """
        RVT-108 rivet.yaml:1: `profiles`: the file 'profiles.yaml' does not exist; did you mean 'profiles.yml'?
            Create the file or folder, or correct the path in rivet.yaml.
    """),
    "unknown profile": Case({}, """
        RVT-106 profiles.yaml: there is no profile 'defualt'; did you mean 'default'?
            Name a profile of profiles.yaml with --profile or RIVET_PROFILE.
    """, profile="defualt"),
    "profile: missing variable": profiles("path: attic", "path: '${ATTIC}', format: '${SET}'", """
        RVT-107 profiles.yaml:4: profile 'default': `catalogs.attic.path` needs the environment variable ATTIC, which is
        not set
            Set the environment variable before starting.
    """),
    "profile: variable without quotes": profiles("path: attic", "path: ${ATTIC}", """
        RVT-102 profiles.yaml:4: the YAML cannot be read: ...
            Correct the YAML; within { } and [ ] a text with ${...} needs quotes.
    """),
    "profile: tab": profiles("    lake:", "\tlake:", """
        RVT-102 profiles.yaml:3: a tab stands in the indentation
            Indent with spaces.
    """),
    "catalog: unknown type": profiles("attic: {type: filesystem", "attic: {type: filesytem", """
        RVT-109 profiles.yaml:4: catalog 'attic' is of type 'filesytem', which is not installed; did you mean
        'filesystem'?
            Install the plugin that provides this type, or correct the type.
    """),
    "catalog: misspelt type": profiles("attic: {type", "attic: {tpye", """
        RVT-105 profiles.yaml:4: catalog 'attic': `type` is missing; is it meant by `tpye`?
            Add the key.
    """),
    "engine: misspelt key that every engine has": profiles("type: pyspark", "type: pyspark, concurency_limit: 2", """
        RVT-103 profiles.yaml:6: engine 'spark' has the unknown option 'concurency_limit'; did you mean
        'concurrency_limit'?
            Remove the key or correct its name.
    """),
    "catalog: unknown option": profiles("path: attic", "path: attic, fromat: csv", """
        RVT-103 profiles.yaml:4: catalog 'attic' has the unknown option 'fromat'; did you mean 'format'?
            Remove the key or correct its name.
    """),
    "catalog: missing option": profiles("{type: filesystem, path: attic}", "{type: filesystem}", """
        RVT-105 profiles.yaml:4: catalog 'attic': `path` is missing
            Add the key.
    """),
    "catalog: wrong value": profiles("path: attic", "path: attic, format: cvs", """
        RVT-104 profiles.yaml:4: catalog 'attic': `format` must be one of parquet, csv, json, orc, not 'cvs'; did
        you mean 'csv'?
            Correct the value.
    """),
    "engine: unknown type": profiles("pyspark", "spark", """
        RVT-109 profiles.yaml:6: engine 'spark' is of type 'spark', which is not installed; did you mean 'pyspark'?
            Install the plugin that provides this type, or correct the type.
    """),
    "engine: unknown option": profiles("[lake]}", "[lake],\n       options: {\n         mastr: local}}", """
        RVT-103 profiles.yaml:8: engine 'spark' has the unknown option 'mastr'; did you mean 'master'?
            Remove the key or correct its name.
    """),
    "engine: unknown catalog": profiles("[lake]", "[lkae]", """
        RVT-104 profiles.yaml:6: engine 'spark': `catalogs` names no catalog of this profile: 'lkae'; did you mean
        'lake'?
            Correct the value.
    """),
    "engine: concurrency_limit": profiles("[lake]", "[lake], concurrency_limit: 0", """
        RVT-501 profiles.yaml:6: engine 'spark': `concurrency_limit` must be a whole number of at least 1
            Give `concurrency_limit` a whole number of at least 1, or leave it out.
    """),
    "manifest and profile at once": Case({
        "rivet.yaml": MANIFEST + "qualty: checks\n",
        "profiles.yaml": PROFILES.replace("[lake]", "[lake], concurrency_limit: many"),
    }, """
        RVT-501 profiles.yaml:6: engine 'spark': `concurrency_limit` must be a whole number of at least 1
            Give `concurrency_limit` a whole number of at least 1, or leave it out.
        RVT-103 rivet.yaml:5: unknown key 'qualty'; did you mean 'quality'?
            Remove the key or correct its name.
    """),
}  # fmt: skip

JOINT_FILES = {
    "YAML: tab": yaml("quality:\n\tassertions: []\n", """
        RVT-202 joints/orders.yaml:4: joint orders: a tab stands in the indentation
            Indent with spaces.
    """),
    "YAML: colon in a text": yaml("description: Orders: all of them\n", """
        RVT-202 joints/orders.yaml:3: joint orders: the YAML cannot be read: mapping values are not allowed ...
            Correct the YAML; a text with ': ' or ' #' in it, or that begins with one of {[@`%&*!|>, needs quotes.
    """),
    "YAML: repeated key": yaml("sql: SELECT 2\n", """
        RVT-202 joints/orders.yaml:3: joint orders: the key 'sql' is repeated, first given on line 2
            Correct the YAML.
    """),
    "YAML: unknown key": yaml("upstrem: raw\n", """
        RVT-203 joints/orders.yaml:3: joint orders: unknown key 'upstrem'; did you mean 'upstream'?
            Remove the key or correct its name.
    """),
    "YAML: wrong values": yaml("eager: yes\ntags: 5\nupstream: {raw: 1}\n", """
        RVT-204 joints/orders.yaml:3: joint orders: `eager` must be true or false, not 'yes'
            Correct the value.
        RVT-204 joints/orders.yaml:4: joint orders: `tags` must be a list or a mapping, not 5
            Correct the value.
        RVT-204 joints/orders.yaml:5: joint orders: `upstream` must be a list of texts, not a mapping
            Correct the value.
    """),
    "YAML: no type": Case({"sources/raw.yaml": SOURCE.replace("type: source\n", "")}, """
        RVT-205 sources/raw.yaml:1: joint raw: a joint in a YAML file needs `type`
            Add the key.
    """),
    "YAML: unknown type": Case({"sources/raw.yaml": SOURCE.replace("type: source", "type: sorce")}, """
        RVT-204 sources/raw.yaml:1: joint raw: `type` must be one of source, sql, python, sink, not 'sorce'
            Correct the value.
    """),
    "YAML: missing key": Case({"sources/raw.yaml": "type: source\ncatalog: lake\n"}, """
        RVT-205 sources/raw.yaml:1: joint raw: a source joint needs `table`
            Add the key.
    """),
    "YAML: syntax error in a query of several lines": Case(
        {"joints/more.yaml": "type: sql\nsql: |\n  SELECT id\n  FORM raw\n  WHERE net > 0\n"}, """
        RVT-315 joints/more.yaml:4: joint more: the SQL could not be read near 'FORM raw'
            Correct the SQL; where Spark reads it as it stands, declare `upstream`.
    """),
    "YAML: query of comments alone": Case({"joints/more.yaml": "type: sql\nsql: -- later\n"}, """
        RVT-207 joints/more.yaml:2: joint more: the SQL holds no query
            Correct the SQL; a joint is exactly one query.
    """),
    "name with a capital": Case({"joints/Monthly.sql": QUERY}, """
        RVT-201 joints/Monthly.sql:1: joint Monthly: `name` 'Monthly' is no name; names match ^[a-z][a-z0-9_]*$
            Names match ^[a-z][a-z0-9_]*$, have at most 128 characters and are none that Dagster keeps for itself; ...
    """),
    "name too long": Case({f"joints/{'a' * 129}.sql": QUERY}, """
        RVT-201 joints/aaa...aaa.sql:1: joint aaa...: `name` 'aaa... has 129 characters; names have at most 128
            Names match ^[a-z][a-z0-9_]*$, have at most 128 characters and are none that Dagster keeps for itself; ...
    """),
    "name that Dagster keeps": Case({"joints/input.sql": QUERY}, """
        RVT-201 joints/input.sql:1: joint input: 'input' is a word that Dagster keeps for itself
            Names match ^[a-z][a-z0-9_]*$, have at most 128 characters and are none that Dagster keeps for itself; ...
    """),
    "owner, tag and group that Dagster refuses": sql(
        f"-- rivet:owners: [me, \"o'brien@example.com\"]\n-- rivet:tags: [a b]\n-- rivet:group: my group\n{QUERY}", """
        RVT-204 joints/orders.sql:1: joint orders: Dagster refuses the owner "o'brien@example.com": it is neither an
        e-mail nor team:name
            An e-mail has ASCII letters, digits and . _ % + - before the @, and ends in 2 to 7 letters behind a dot.
        RVT-204 joints/orders.sql:1: joint orders: Dagster refuses the owner 'me': it is neither an e-mail nor team:name
            An e-mail has ASCII letters, digits and . _ % + - before the @, and ends in 2 to 7 letters behind a dot.
        RVT-204 joints/orders.sql:2: joint orders: Dagster refuses the tag a b=: letters, digits, '_', '-' and '.', at
        most 63 of them
            Correct the value.
        RVT-204 joints/orders.sql:3: joint orders: the group 'my group' holds more than letters, digits and '_'
            Correct the value.
    """),
    "source with sql": source("sql: SELECT 1\n", """
        RVT-206 sources/raw.yaml:5: joint raw: `sql` has no meaning on a source joint
            Remove the key: it has no meaning on this type of joint.
    """),
    "source with upstream": source("upstream: orders\n", """
        RVT-303 sources/raw.yaml:5: joint raw: a source has no upstream
            Remove `upstream`, or make it a joint of type sql.
    """),
    "source: subquery": source("filter: id IN (SELECT id FROM orders)\n", """
        RVT-207 sources/raw.yaml:5: joint raw: `filter` holds a subquery
            Write one expression over a row's own columns; whatever is more belongs in a SQL joint.
    """),
    "source: join": source("columns: {id: id FROM raw JOIN orders}\n", """
        RVT-207 sources/raw.yaml:5: joint raw: column 'id' is not one expression
            Write one expression over a row's own columns; whatever is more belongs in a SQL joint.
    """),
    "source: chance": source("columns: [id, dice: rand()]\n", """
        RVT-207 sources/raw.yaml:5: joint raw: column 'dice' uses rand, which gives another result each time
            Write one expression over a row's own columns; whatever is more belongs in a SQL joint.
    """),
    "source: aggregate": source("columns: {most: max(net)}\n", """
        RVT-207 sources/raw.yaml:5: joint raw: column 'most' aggregates over rows
            Write one expression over a row's own columns; whatever is more belongs in a SQL joint.
    """),
    "source: column twice": source("columns: [id, ID: net]\n", """
        RVT-204 sources/raw.yaml:5: joint raw: `columns` names id more than once
            Correct the value.
    """),
    "source: limit with two readers": Case(
        {"sources/raw.yaml": SOURCE + "limit: 9\n", "joints/more.sql": QUERY}, """
        RVT-314 sources/raw.yaml:5: joint raw: a source with `limit` has one reader, this one has more, orders
            Put the limit in a SQL joint that the others read.
    """),
    "source: limit and a reader that reads twice": Case(
        {"sources/raw.yaml": SOURCE + "limit: 9\n", "joints/orders.sql": "SELECT * FROM raw JOIN raw USING (id)"}, """
        RVT-314 sources/raw.yaml:5: joint raw: a source with `limit` is read once, orders reads it more than once
            Put the limit in a SQL joint that the others read.
    """),
    "sink without upstream": Case({"sinks/report.yaml": SINK.replace("upstream: orders\n", "")}, """
        RVT-304 sinks/report.yaml:1: joint report: a sink needs `upstream`
            Add `upstream` with the joint whose rows the sink writes.
    """),
    "sink: unknown mode": sink("write_strategy: merg\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` has no mode 'merg'; did you mean 'merge'?
            Correct the value.
    """),
    "sink: option that the mode has not": sink("write_strategy: {mode: replace, key_columns: [id]}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` has no option `key_columns` in mode replace;
        known: on_empty
            Correct the value.
    """),
    "write strategy: wrong at its own line": sink(
        "write_strategy:\n  mode: merge\n  key_columns: [id]\n  order_by: []\n", """
        RVT-204 sinks/report.yaml:8: joint report: `write_strategy` has a wrong `order_by`: it must name at least one
        column
            Correct the value.
    """),
    "write strategy: no such column, by another name": sink("write_strategy:\n  mode: merge\n  unique_key: [day]\n", """
        RVT-324 sinks/report.yaml:7: joint report: `key_columns` names day, which its upstream does not have; known: id,
        net
            Give the query that column, or correct the options of `write_strategy`.
    """),
    "step option: wrong at its own line": yaml("options:\n  timeout: 5m\n  retires: 3\n", """
        RVT-203 joints/orders.yaml:5: joint orders: unknown option 'retires'; did you mean 'retries'?
            Remove the key or correct its name.
    """),
    "sink: table and options that are none": Case(
        {"sinks/report.yaml": SINK.replace("report", "../report") + "options: {format: csv, retires: 3}\n"}, """
        RVT-204 sinks/report.yaml:4: joint report: no table can be called '../report'
            A table of a filesystem catalog has a plain name: ...
        RVT-203 sinks/report.yaml:5: joint report: unknown option 'retires'; did you mean 'retries'?
            Remove the key or correct its name.
        RVT-204 sinks/report.yaml:5: joint report: a table that is published here is always Parquet: `format` cannot be
        another
            Remove the option.
    """),
    "sink: in a store": profiles("path: lake", "path: 's3a://lake/x'", """
        RVT-402 sinks/report.yaml:3: joint report: the catalog is in a store that has no atomic switch from one version
        of a table to the next
            Publish there with a catalog of type iceberg, whose `warehouse` may be in that store.
    """),
    "source: format and braces that nobody reads": Case(
        {"sources/raw.yaml": SOURCE.replace("raw", "'{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}'")
            .replace("{schema", "{format: exe, schema")}, """
        RVT-204 sources/raw.yaml:3: joint raw: the {a,b} of `table` stand for more than 1000 patterns
            Name fewer, or use `*`.
        RVT-204 sources/raw.yaml:4: joint raw: no format is called 'exe'; known: csv, json, orc, parquet
            Correct the value.
    """),
    "sink: wrong on_empty": sink("write_strategy: {mode: replace, on_empty: ignore}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` has a wrong `on_empty`: it must be one of write,
        skip, fail, not 'ignore'
            Correct the value.
    """),
    "sink: mode without an option it needs": sink("write_strategy: incremental\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` needs `key_columns` in mode merge
            Correct the value.
    """),
    "sink: mode without either option": sink("write_strategy: {mode: delete_insert}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` needs `partition_by` or `key_columns` in mode
        delete_insert
            Correct the value.
    """),
    "sink: lookback where rows are only appended": sink(
        "write_strategy: {mode: incremental_append, watermark_column: at, lookback: 1d}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` has no option `lookback` in mode incremental_append;
        known: on_empty, on_schema_change, watermark_column
            Correct the value.
    """),
    "sink: one option under two names": sink("write_strategy: {mode: merge, unique_key: id, key_columns: id}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` gives `key_columns` twice, under both of its
        names
            Correct the value.
    """),
    "options of a step: on a joint within its group": sql(f"-- rivet:options: {{retries: 2}}\n{QUERY}", """
        RVT-326 joints/orders.sql:1: joint orders: the option `retries` belongs to 'report', which this joint runs in
        one step with
            Move it to 'report', or store this joint with `eager: true`.
    """),
    "options of a step: on a source": Case({"sources/raw.yaml": SOURCE.replace("{schema", "{retries: 1, schema")}, """
        RVT-326 sources/raw.yaml:4: joint raw: the option `retries` has no meaning on a source, which no step makes
            Remove the option: a source is read by the steps of other joints, which have options of their own.
    """),
    "options of a step: no duration": sink("options: {retry_delay: soon}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `options` has a wrong `retry_delay`: it must be a duration like 30s,
        15m, 24h or 7d, not 'soon'
            Correct the value.
    """),
    "options of a step: misspelt": sql(f"-- rivet:options: {{retrys: 2}}\n{QUERY}", """
        RVT-203 joints/orders.sql:1: joint orders: unknown option 'retrys'; did you mean 'retries'?
            Remove the key or correct its name.
    """),
    "options of a step: all of them on a joint within its group": sql(
        f"-- rivet:options: {{timeout: 1h, pool: nightly}}\n{QUERY}", """
        RVT-326 joints/orders.sql:1: joint orders: the option `pool` belongs to 'report', which this joint runs in
        one step with
            Move it to 'report', or store this joint with `eager: true`.
        RVT-326 joints/orders.sql:1: joint orders: the option `timeout` belongs to 'report', which this joint runs in
        one step with
            Move it to 'report', or store this joint with `eager: true`.
    """),
    "options of a step: settings of the application": sink(
        "options: {config: {spark.executor.memory: 8g, spark.sql.shuffle.partitions: 8}}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `config`: `spark.executor.memory` is a setting of the whole
        application: it belongs to the `config` of the engine
            Correct the value.
    """),
    "options of a step: a setting that is a list": sink("options: {config: {spark.sql.x: [1]}}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `options` has a wrong `config`: it must be a text, a number or a
        boolean, not a list
            Correct the value.
    """),
    "options of a step: no time at all": sink("options: {timeout: 0s}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `options` has a wrong `timeout`: it must be a duration like 30s, 15m,
        24h or 7d, not '0s'
            Correct the value.
    """),
    "options of a step: a pool that Dagster refuses": sink("options: {pool: at night}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `options` has a wrong `pool`: it must be a name without spaces, not
        'at night'
            Correct the value.
    """),
    "landing zone: archive alone": Case({"sources/raw.yaml": SOURCE.replace("{schema", "{archive: true, schema")}, """
        RVT-321 sources/raw.yaml:4: joint raw: the option `archive` needs `landing: true`
            Correct the source's `options`: `landing` and `archive` are for a source on a directory or a glob that the
            catalog can list.
    """),
    "landing zone: no boolean": Case({"sources/raw.yaml": SOURCE.replace("{schema", "{landing: daily, schema")}, """
        RVT-204 sources/raw.yaml:4: joint raw: `options` has a wrong `landing`: it must be true or false, not 'daily'
            Correct the value.
    """),
    "landing zone: whatever leaves out files or rows": Case({"sources/raw.yaml": SOURCE.replace(
        "{schema", "{landing: true, pathGlobFilter: '*.csv', modifiedbefore: '2026-01-01', schema") + "limit: 5\n"}, """
        RVT-321 sources/raw.yaml:4: joint raw: a landing zone has no `limit`: what it leaves out would never be read
            Correct the source's `options`: ...
        RVT-321 sources/raw.yaml:4: joint raw: a landing zone has no `modifiedbefore`: files that it leaves out would
        count as read
            Correct the source's `options`: ...
        RVT-321 sources/raw.yaml:4: joint raw: a landing zone has no `pathGlobFilter`: files that it leaves out would
        count as read
            Correct the source's `options`: ...
    """),
    "landing zone: on other joints": Case({
        "sinks/report.yaml": SINK + "options: {archive: true}\n",
        "joints/orders.sql": f"-- rivet:options: {{landing: true}}\n{QUERY}",
    }, """
        RVT-321 joints/orders.sql:1: joint orders: the option `landing` belongs to a source
            Correct the source's `options`: ...
        RVT-321 sinks/report.yaml:5: joint report: the option `archive` belongs to a source
            Correct the source's `options`: ...
    """),
    "source: in a store that is not the catalog's": Case({
        "sources/raw.yaml": SOURCE.replace("raw", "s3a://sea/raw"),
        "sources/other.yaml": SOURCE.replace("lake", "workspace").replace("raw", "s3://key:pass@sea/raw"),
        "profiles.yaml": PROFILES.replace("path: lake", "path: 's3://bucket/lake'"),
        "sinks/report.yaml": None,
    }, """
        RVT-204 sources/other.yaml:3: joint other: the table is in a store, and the catalog is not: s3://sea/raw
            Declare a catalog whose `path` is there.
        RVT-204 sources/raw.yaml:3: joint raw: the table is not in the catalog's store, s3a://bucket: s3a://sea/raw
            Declare a catalog whose `path` is there.
    """),
    "landing zone: others read what it archives": Case({
        "sources/raw.yaml": SOURCE.replace("{schema", "{landing: true, archive: true, schema"),
        "sources/all.yaml": SOURCE.replace("table: raw", "table: raw/"),
    }, """
        RVT-321 sources/raw.yaml:4: joint raw: the files that it archives are those of all, too
            Let one source archive them, and all others read that one in a SQL joint.
    """),
    "landing zone: in parts": Case({"sources/raw.yaml": SOURCE.replace("{schema", "{landing: true, schema")
        + "partitions: {type: static, column: id, values: ['1', '2']}\n"}, """
        RVT-321 sources/raw.yaml:5: joint raw: a landing zone has no `partitions`: what a run leaves out of a file would
        never be read
            Leave `partitions` out: the write strategies append, merge and delete_insert take whatever comes.
    """),
    "landing zone: a reader in parts": Case({
        "sources/raw.yaml": SOURCE.replace("{schema", "{landing: true, schema"),
        "sinks/report.yaml": SINK + "partitions: {type: static, column: id, values: ['1', '2']}\n",
        "joints/orders.sql": f"-- rivet:partitions: {{type: static, column: id, values: ['1', '2']}}\n{QUERY}",
    }, """
        RVT-321 sinks/report.yaml:5: joint report: a run of one partition would take the files of 'raw' for read by all
        of them
            Leave `partitions` out: the write strategies append, merge and delete_insert take whatever comes.
    """),
    "landing zone: a reader that forgets": Case({
        "sources/raw.yaml": SOURCE.replace("{schema", "{landing: true, schema"),
        "joints/orders.sql": f"-- rivet:retention: run\n-- rivet:eager: true\n{QUERY}",
    }, """
        RVT-321 joints/orders.sql:1: joint orders: with `retention: run` it would forget which files of 'raw' it has
        read
            Leave `retention` out.
    """),
    "on_error: a wrong mode": sink("on_error: quarantin\n", """
        RVT-204 sinks/report.yaml:5: joint report: `on_error` must be fail or quarantine, not 'quarantin'; did you mean
        'quarantine'?
            Correct the value.
    """),
    "on_error: an unknown key": sink("on_error:\n  mode: quarantine\n  max_error: 5\n", """
        RVT-203 sinks/report.yaml:7: joint report: `on_error` has the unknown key 'max_error'; did you mean
        'max_errors' or 'max_age'?
            Remove the key or correct its name.
    """),
    "on_error: a negative limit": sql(f"-- rivet:on_error: {{mode: quarantine, max_errors: -1}}\n{QUERY}", """
        RVT-204 joints/orders.sql:1: joint orders: `on_error` has a wrong `max_errors`: it must be a whole number of at
        least 0 or a part from 0% to 100%, not -1
            Correct the value.
    """),
    "on_error: an age in hours": sink("on_error:\n  mode: quarantine\n  max_age: 36h\n", """
        RVT-204 sinks/report.yaml:7: joint report: `on_error` has a wrong `max_age`: it must be a number of whole days
        like 90d, not '36h'
            Correct the value.
    """),
    "on_error: more than everything": sink("on_error:\n  mode: quarantine\n  max_errors: 101%\n", """
        RVT-204 sinks/report.yaml:7: joint report: `on_error` has a wrong `max_errors`: it must be a whole number of at
        least 0 or a part from 0% to 100%, not '101%'
            Correct the value.
    """),
    "on_error: a limit without quarantine": sink("on_error: {mode: fail, max_errors: 5}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `on_error` has `max_errors`, which goes with the mode quarantine, not
        fail
            Correct the value.
    """),
    "partitions: unknown type": sink("partitions: {type: yearly, column: day}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` needs a `type`, one of daily, hourly, weekly, monthly,
        static, not 'yearly'
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: no start": sink("partitions: {type: daily, column: day}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` needs `start` where the type is daily
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: no column": sink("partitions: {type: static, values: [a]}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` needs `column` where the type is static
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: start that is no date": sink("partitions: {type: daily, column: day, start: 2024-02-30}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has a wrong `start`: it must be a date like
        2024-01-31, not '2024-02-30'
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: minutes of an hour": sink("partitions: {type: hourly, column: day, start: '2024-02-03T05:30'}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has a wrong `start`: it must be a date or a
        whole hour like 2024-01-31T05:00, not '2024-02-03T05:30'
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: early end": sink("partitions: {type: monthly, column: c, start: 2024-02-03, end: 2024-02-03}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` ends on 2024-02-03, which is not after
        its start, 2024-02-03
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: time zone": sink("partitions: {type: daily, column: c, start: 2024-02-03, timezone: Berlin}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has a wrong `timezone`: it
        must be a time zone like Europe/Berlin, not 'Berlin'
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: time zone of keys": sink("partitions: {type: static, column: c, values: [a], timezone: UTC}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has no `timezone` where the type is static
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: option misspelt": sink("partitions: {type: daily, colum: day, start: 2024-01-01}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has no option `colum`; did you mean 'column'?
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: no values": sink("partitions: {type: static, column: c, values: []}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has a wrong `values`: it must hold at least one text
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: numbers for keys": sink("partitions: {type: static, column: c, values: [1, 2]}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has a wrong `values`: it must be a list of texts, not
        a list
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: a key twice": sink("partitions: {type: static, column: c, values: [a, a]}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has a wrong `values`: it names a more than once
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: a key that Dagster refuses": sink("partitions: {type: static, column: c, values: [a...b]}\n", """
        RVT-213 sinks/report.yaml:5: joint report: `partitions` has a wrong `values`: it holds 'a...b', which
        Dagster refuses: no '...', no line breaks, tabs and the like
            Write `{type: daily, column: day, start: 2024-01-31}` or `{type: static, column: c, values: [a, b]}`.
    """),
    "partitions: of a source with a limit": source(
        "limit: 5\npartitions: {type: static, column: id, values: ['1']}\n", """
        RVT-213 sources/raw.yaml:6: joint raw: a source with `limit` has no partitions: its rows would not be those of a
        run's window
            Put the limit in a SQL joint that reads the source.
    """),
    "partitions: column that is not there, and one of a wrong type": Case({
        "sources/raw.yaml": SOURCE + "partitions: {type: daily, column: day, start: 2024-01-31}\n",
        "sinks/report.yaml": SINK + "partitions: {type: static, column: net, values: [a]}\n",
    }, """
        RVT-322 sinks/report.yaml:5: joint report: the partition column 'net' is of type double, which tells no static
        key
            Name a column of the joint's own rows: ...
        RVT-322 sources/raw.yaml:5: joint raw: the partition column 'day' is none of id, net
            Name a column of the joint's own rows: ...
    """),
    "partitions: parameters of a joint that has none": sql(f"{QUERY}WHERE id > 1\nAND :partition_end > '2024'\n", """
        RVT-323 joints/orders.sql:3: joint orders: the SQL uses :partition_end, but the joint has no `partitions`
            Give the joint `partitions`, or leave the parameter out.
    """),
    "partitions: parameters of a source": source("filter: net > 0 AND :partition_start > '2024'\n", """
        RVT-323 sources/raw.yaml:5: joint raw: `filter` uses :partition_start, which only SQL joints may
            Give the source `partitions`: a run reads its window alone.
    """),
    "partitions: parameters of time in static ones": sql(
        "-- rivet:partitions: {type: static, column: id, values: ['1']}\n"
        f"{QUERY}WHERE id > 1 AND :partition_start > array_max(:partition_keys)\n", """
        RVT-323 joints/orders.sql:3: joint orders: the SQL uses :partition_start, but static partitions have no times
            Give the joint `partitions`, or leave the parameter out.
    """),
    "SQL: annotation misspelt": sql(f"-- rivet:upstrem: raw\n{QUERY}", """
        RVT-203 joints/orders.sql:1: joint orders: unknown key 'upstrem'; did you mean 'upstream'?
            Remove the key or correct its name.
    """),
    "SQL: annotation without its colon": sql(f"-- rivet assert: not_null(id)\n{QUERY}", """
        RVT-208 joints/orders.sql:1: joint orders: an annotation is written `-- rivet:key: value`
            Write annotations as `-- rivet:key: value` (Python: `# rivet:key: value`) before anything else.
    """),
    "SQL: annotation after the query began": sql("SELECT id, net\n-- rivet:eager: true\nFROM raw\n", """
        RVT-208 joints/orders.sql:2: joint orders: an annotation stands below the beginning of the file's own text
            Write annotations as `-- rivet:key: value` (Python: `# rivet:key: value`) before anything else.
    """),
    "SQL: list without brackets": sql("-- rivet:upstream: raw, items\nSELECT 1 AS id\n", """
        RVT-302 joints/orders.sql:1: joint orders: upstream 'raw, items' is no joint; a list is written [raw, items]
            Correct the name, or declare the missing joint.
    """),
    "SQL: two queries": sql("SELECT 1 AS id;\n\nSELECT 2 AS id\n", """
        RVT-207 joints/orders.sql:3: joint orders: the SQL holds more than one statement
            Correct the SQL; a joint is exactly one query.
    """),
    "SQL: empty": sql("", """
        RVT-207 joints/orders.sql:1: joint orders: the file holds no query
            Correct the SQL; a joint is exactly one query.
    """),
    "SQL: annotations alone": sql("-- rivet:tags: [new]\n-- to be written\n", """
        RVT-207 joints/orders.sql:1: joint orders: the file holds no query
            Correct the SQL; a joint is exactly one query.
    """),
    "SQL: no query": sql("-- rivet:eager: true\nINSERT INTO t SELECT 1\n", """
        RVT-207 joints/orders.sql:2: joint orders: the SQL is not a query (SELECT, FROM, VALUES or TABLE)
            Correct the SQL; a joint is exactly one query.
    """),
    "SQL: command": sql("SHOW TABLES\n", """
        RVT-207 joints/orders.sql:1: joint orders: the SQL is not a query (SELECT, FROM, VALUES or TABLE)
            Correct the SQL; a joint is exactly one query.
    """),
    "SQL: template: a loop": sql("SELECT id\n{% for x in range(10 ** 9) %}\n, {{ x }}{% endfor %}\nFROM raw\n", """
        RVT-212 joints/orders.sql:2: joint orders: the template takes more than 300,000 operations
            Correct the template; braces between {% raw %} and {% endraw %} stay as they are.
    """),
    "SQL: template: macros": Case({"macros/money.sql": "\n{% macro cents(x) %}\n{{ x.y }}{% endmacro %}\n",
                                   "macros/wrong.sql": "{% macro cents(x) %}{% endmacro %}\nSELECT 1\n",
                                   "joints/orders.sql": "SELECT\n{{ cents('net') }} FROM raw\n"}, """
        RVT-212 macros/money.sql:3: joint orders: the template fails: 'str object' has no attribute 'y' (in the macro
        'cents', called at joints/orders.sql:2)
            Correct the template; braces between {% raw %} and {% endraw %} stay as they are.
        RVT-212 macros/wrong.sql:1: the file of macros holds something besides {% macro %} blocks and comments
            Correct the template; braces between {% raw %} and {% endraw %} stay as they are.
    """),
    "SQL: template: SQL of a macro": Case({"macros/m.sql": "{% macro m(x) %}\n{{ x }},\n nte{% endmacro %}\n",
                                           "joints/orders.sql": "SELECT\n{{ m('id') }}\nFROM raw\n"}, """
        RVT-327 macros/m.sql:3: joint orders: there is no column 'nte'; did you mean 'net'? (in the macro 'm', called at
        joints/orders.sql:2)
            Correct the name; the `schema` of a source names all its columns, those of folders like `day=1`, too.
    """),
    "SQL: template: variable": sql("SELECT id, net\nFROM raw\nWHERE net > {{ var('least') }}\n", """
        RVT-212 joints/orders.sql:3: joint orders: the template does not know the variable 'least'
            Correct the template; braces between {% raw %} and {% endraw %} stay as they are.
    """),
    "SQL: template: open condition": sql("-- rivet:tags: [new]\nSELECT *\nFROM raw\n{% if is_incremental() %}\n", """
        RVT-212 joints/orders.sql:4: joint orders: the template cannot be read: Unexpected end of template. Jinja was
        looking for the following tags: 'elif' or 'else' or 'endif'. The innermost block that needs to be closed is
        'if'.
            Correct the template; braces between {% raw %} and {% endraw %} stay as they are.
    """),
    "SQL: template: unknown word and joint": sql("SELECT *\nFROM {{ ref('rwa') }}\nWHERE net > {{ watermark }}\n", """
        RVT-302 joints/orders.sql:2: joint orders: ref('rwa') names no joint; did you mean 'raw'?
            Correct the name, or declare the missing joint.
        RVT-212 joints/orders.sql:3: joint orders: the template does not know 'watermark'; did you mean
        'watermark_value'?
            Correct the template; braces between {% raw %} and {% endraw %} stay as they are.
    """),
    "SQL: template: value within quotes": sql("SELECT *\nFROM raw\nWHERE net > '{{ run_started_at }}'\n", """
        RVT-212 joints/orders.sql:3: joint orders: the template puts a value within quotes, which would make the text
        ':run_started_at' of it
            Leave the quotes out: a value is bound with its own type.
    """),
    "SQL: template: no landing zone": sql("SELECT *\nFROM {{ landing_zone('raw') }}\n", """
        RVT-319 joints/orders.sql:2: joint orders: landing_zone('raw') needs a landing source, 'raw' is a source without
        `landing: true`
            Name a source with `options: {landing: true}`; every other joint is read as ref('joint').
    """),
    "SQL: template: a target that is replaced": sql("SELECT *\nFROM raw\nWHERE net > {{ watermark_value }}\n", """
        RVT-320 joints/orders.sql:3: joint orders: the template uses watermark_value, but every run writes 'report' anew
        (replace)
            Put it under {% if is_incremental() %}, or give it another `write_strategy`.
    """),
    "SQL: template: not that sink": sql("SELECT *\nFROM raw\n{% if is_incremental('reports') %}{% endif %}\n", """
        RVT-320 joints/orders.sql:3: joint orders: the template asks for is_incremental('reports'), but this joint leads
        to report
            Name one of them.
    """),
    "SQL: template: in a check": sql("-- rivet:assert: custom(sql='SELECT {{ a }} FROM orders')\nFROM raw\n", """
        RVT-209 joints/orders.sql:1: joint orders: check custom: its SQL uses a template ({{ }}, {% %}), which only the
        SQL of a joint can
            Correct the check's SQL.
    """),
    "sink: lookback that is none": sink(
        "write_strategy: {mode: merge, key_columns: id, watermark_column: at, lookback: soon}\n", """
        RVT-204 sinks/report.yaml:5: joint report: `write_strategy` has a wrong `lookback`: it must be a duration like
        2h or 3d, or a number above 0, not 'soon'
            Correct the value.
    """),
    "SQL: syntax error": sql("-- rivet:eager: true\n\nSELECT id,\n  net\nFORM raw\nWHERE net > 0\n", """
        RVT-315 joints/orders.sql:5: joint orders: the SQL could not be read near 'FORM raw'
            Correct the SQL; where Spark reads it as it stands, declare `upstream`.
    """),
    "SQL: open parenthesis": sql("SELECT id\nFROM raw\nWHERE (net > 0\n", """
        RVT-207 joints/orders.sql:3: joint orders: the SQL holds a ( that is not closed
            Correct the SQL; a joint is exactly one query.
    """),
    "SQL: open text": sql("SELECT id\nFROM raw\nWHERE net > '0\nAND id > 1\n", """
        RVT-207 joints/orders.sql:3: joint orders: the SQL holds a text in quotes (') that is not closed
            Correct the SQL; a joint is exactly one query.
    """),
    "SQL: open comment": sql("SELECT id\n/* for now\nFROM raw\n", """
        RVT-207 joints/orders.sql:2: joint orders: the SQL holds a comment that is not closed
            Correct the SQL; a joint is exactly one query.
    """),
    "not UTF-8": Case({"joints/orders.sql": f"-- rivet:eager: true\n-- K\xe4se\n{QUERY}".encode("latin-1")}, """
        RVT-211 joints/orders.sql:2: joint orders: the file is not UTF-8 text
            Save the file as UTF-8 text.
    """),
    "Python: no function": python("rows = []\n", """
        RVT-210 joints/scores.py:1: joint scores: joints/scores.py defines no function 'transform' at its top level
            Define it; or, where the file is no joint, let its name begin with '_'.
    """),
    "Python: function misspelt": python("def tranform(orders): ...\n", """
        RVT-210 joints/scores.py:1: joint scores: joints/scores.py defines no function 'transform' at its top level; did
        you mean 'tranform'?
            Define it; or, where the file is no joint, let its name begin with '_'.
    """),
    "Python: generator": python("import os\n\ndef transform(orders):\n    yield orders\n", """
        RVT-210 joints/scores.py:3: joint scores: the function 'transform' is a generator; a joint's function
        returns its rows
            Correct the Python file; it must define the joint's function at its top level.
    """),
    "Python: syntax error": python("import os\n\ndef transform(orders)\n    return orders\n", """
        RVT-210 joints/scores.py:3: joint scores: the Python is wrong: ...
            Correct the Python file; it must define the joint's function at its top level.
    """),
    "Python: parameters are not the upstream": python(
        "# rivet:eager: true\n# rivet:upstream: [orders, raw]\ndef transform(orders, rows): ...\n", """
        RVT-311 joints/scores.py:2: joint scores: transform(orders, rows) in joints/scores.py:3 does not take the
        upstream orders, raw
            Make the function's parameters the names of its upstream joints.
    """),
    "Python: parameter is no joint": python("import os\n\ndef transform(oders): ...\n", """
        RVT-302 joints/scores.py:3: joint scores: the parameter 'oders' of transform is no joint; did you mean 'orders'?
            Correct the name, or declare the missing joint.
    """),
    "Python: no file": Case({"joints/scores.yaml": "type: python\nupstream: orders\nfunction: lib.scores:rate\n"}, """
        RVT-210 joints/scores.yaml:3: joint scores: there is neither lib/scores.py nor lib/scores/__init__.py in
        the project
            Correct `function`, or define it in the file that it names.
    """),
    "Python: path in place of a module": Case({"joints/scores.yaml": "type: python\nfunction: lib/scores.py\n"}, """
        RVT-210 joints/scores.yaml:2: joint scores: `function` is written `package.module:name`, not 'lib/scores.py'
            Correct `function`, or define it in the file that it names.
    """),
}  # fmt: skip

ASSEMBLY = {
    "name twice": Case({"joints/marts/orders.sql": QUERY}, """
        RVT-301 joints/orders.sql:1: joint orders: the name 'orders' is taken already, by joints/marts/orders.sql
            Rename one of them.
    """),
    "name of a file and name declared": Case({"joints/more.yaml": "type: sql\nsql: SELECT 1 AS id\nname: raw\n"}, """
        RVT-301 joints/more.yaml:3: joint raw: the name 'raw' is taken already, by sources/raw.yaml
            Rename one of them.
    """),
    "unknown upstream": Case({"sinks/report.yaml": SINK.replace("orders", "[ordres, orders]")}, """
        RVT-302 sinks/report.yaml:2: joint report: upstream 'ordres' is no joint; did you mean 'orders'?
            Correct the name, or declare the missing joint.
    """),
    "unknown upstream far from any": Case({"sinks/report.yaml": SINK.replace("orders", "invoices")}, """
        RVT-302 sinks/report.yaml:2: joint report: upstream 'invoices' is no joint; known: orders, raw
            Correct the name, or declare the missing joint.
    """),
    "upstream without what the query reads": Case(
        {"joints/more.sql": "-- rivet:eager: true\n-- rivet:upstream: raw\nSELECT id FROM raw NATURAL JOIN orders"}, """
        RVT-313 joints/more.sql:2: joint more: the query reads joint 'orders', which `upstream` does not name
            Add the joint to `upstream`, or leave `upstream` out.
    """),
    "cycles": Case({
        "joints/a.sql": "SELECT * FROM b", "joints/b.sql": "SELECT * FROM c", "joints/c.sql": "SELECT * FROM a",
        "joints/behind.sql": "SELECT * FROM a", "joints/z.yaml": "type: sql\nsql: SELECT 1 AS id\nupstream: z\n",
    }, """
        RVT-305 joints/a.sql:1: joint a: the joints form a cycle: a <- b <- c <- a
            Break the cycle: one of these joints must not read the next.
        RVT-305 joints/z.yaml:3: joint z: the joints form a cycle: z <- z
            Break the cycle: one of these joints must not read the next.
    """),
    "sink that is read": Case({"joints/more.sql": "-- rivet:eager: true\nSELECT * FROM report\n"}, """
        RVT-307 joints/more.sql:2: joint more: 'report' is a sink, which has no downstream: read orders instead
            Read the joint before the sink instead; a sink is the end of its line.
    """),
    "unknown engine": sql(f"-- rivet:eager: true\n-- rivet:engine: sprak\n{QUERY}", """
        RVT-308 joints/orders.sql:2: joint orders: the profile 'default' has no engine 'sprak'; did you mean 'spark'?
            Name an engine of the profile, or set `default_engine`.
    """),
    "no default engine": profiles("    - {", "    - {name: other, type: pyspark, catalogs: [lake]}\n    - {", """
        RVT-308 joints/orders.sql:1: joint orders: no engine: the joint names none and the profile has no default_engine
            Name an engine of the profile, or set `default_engine`.
        RVT-308 sinks/report.yaml:1: joint report: no engine: the joint names none and the profile has no default_engine
            Name an engine of the profile, or set `default_engine`.
    """),
    "unknown catalog": Case({"sinks/report.yaml": SINK.replace("lake", "leak")}, """
        RVT-309 sinks/report.yaml:3: joint report: the profile 'default' has no catalog 'leak'; did you mean 'lake'?
            Name a catalog of the profile, and list it under the engine's `catalogs`.
    """),
    "catalog out of the engine's reach": Case({"sinks/report.yaml": SINK.replace("lake", "attic")}, """
        RVT-309 sinks/report.yaml:3: joint report: the engine 'spark' does not reach the catalog 'attic'
            Name a catalog of the profile, and list it under the engine's `catalogs`.
    """),
    "two sinks on one table": Case({"sinks/again.yaml": SINK}, """
        RVT-310 sinks/report.yaml:4: joint report: sink 'again' writes the table lake.report already
            Give each joint its own table; to read a published table, read its joint, or the one before a sink.
    """),
    "source on a sink's table": Case({"sources/old.yaml": SOURCE.replace("table: raw", "table: Report")}, """
        RVT-310 sources/old.yaml:3: joint old: lake.Report is what the sink 'report' writes: read orders instead
            Give each joint its own table; to read a published table, read its joint, or the one before a sink.
    """),
    "published joint: what has no meaning without a catalog": yaml(
        "table: t\nwrite_strategy: {mode: merge, key_columns: id}\n", """
        RVT-206 joints/orders.yaml:3: joint orders: `table` has no meaning on a sql joint without a `catalog`
            Name the `catalog` in which the joint is published, in its file or in the `defaults` of its folder.
        RVT-206 joints/orders.yaml:4: joint orders: `write_strategy` has no meaning on a sql joint without a `catalog`
            Name the `catalog` in which the joint is published, in its file or in the `defaults` of its folder.
    """),
    "published joint: a header, and no catalog": sql(f"-- rivet:write_strategy: replace\n{QUERY}", """
        RVT-206 joints/orders.sql:1: joint orders: `write_strategy` has no meaning on a sql joint without a `catalog`
            Name the `catalog` in which the joint is published, in its file or in the `defaults` of its folder.
    """),
    "published joint: an option that no table has": sql(
        f"-- rivet:catalog: lake\n-- rivet:options: {{format: csv}}\n{QUERY}", """
        RVT-204 joints/orders.sql:2: joint orders: a table that is published here is always Parquet: `format` cannot be
        another
            Remove the option.
    """),
    "published joint: two on one table": Case({
        "joints/one.sql": "-- rivet:catalog: lake\nSELECT 1 AS id\n",
        "joints/two.sql": "-- rivet:catalog: lake\n-- rivet:table: one\nSELECT 1 AS id\n",
    }, """
        RVT-310 joints/two.sql:2: joint two: joint 'one' writes the table lake.one already
            Give each joint its own table; to read a published table, read its joint, or the one before a sink.
    """),
    "published joint: a source on its table": Case({
        "joints/one.sql": "-- rivet:catalog: lake\nSELECT 1 AS id\n",
        "sources/old.yaml": SOURCE.replace("table: raw", "table: one"),
    }, """
        RVT-310 sources/old.yaml:3: joint old: lake.one is what the joint 'one' publishes: read one instead
            Give each joint its own table; to read a published table, read its joint, or the one before a sink.
    """),
    "published joint: a template that leads to no table": Case({
        "sinks/report.yaml": None,
        "joints/orders.sql": "SELECT *\nFROM raw\n{% if is_incremental() %}{% endif %}\n",
    }, """
        RVT-320 joints/orders.sql:3: joint orders: the template asks for is_incremental, but this joint leads to no
        published table
            Give this joint a `catalog`, or add a sink that reads it.
    """),
    "column twice": sql("-- rivet:eager: true\nSELECT id, net AS ID FROM raw\n", """
        RVT-316 joints/orders.sql:2: joint orders: the result has more than one column named id
            Give each output column a name of its own, with AS.
    """),
    "all at once, in the order of the files": Case({
        "sources/raw.yaml": SOURCE.replace("table:", "tabel:").replace("lake", "leak"),
        "joints/orders.sql": "-- rivet:tgas: [x]\nSELECT id FROM raw; SELECT 2\n",
        "joints/scores.py": "def transform(oders): ...\n",
        "sinks/report.yaml": SINK.replace("lake", "leak"),
        "quality/orders.yaml": "assertions:\n  - {type: not_nul, columns: id}\n",
    }, """
        RVT-203 joints/orders.sql:1: joint orders: unknown key 'tgas'; did you mean 'tags'?
            Remove the key or correct its name.
        RVT-207 joints/orders.sql:2: joint orders: the SQL holds more than one statement
            Correct the SQL; a joint is exactly one query.
        RVT-302 joints/scores.py:1: joint scores: the parameter 'oders' of transform is no joint; did you mean 'orders'?
            Correct the name, or declare the missing joint.
        RVT-209 quality/orders.yaml:2: joint orders: no check is of kind 'not_nul'; did you mean 'not_null'?
            Write a check as `-- rivet:assert: not_null(id)`, or in YAML as `{type: not_null, columns: [id]}`.
        RVT-309 sinks/report.yaml:3: joint report: the profile 'default' has no catalog 'leak'; did you mean 'lake'?
            Name a catalog of the profile, and list it under the engine's `catalogs`.
        RVT-205 sources/raw.yaml:1: joint raw: a source joint needs `table`
            Add the key.
        RVT-203 sources/raw.yaml:3: joint raw: unknown key 'tabel'; did you mean 'table'?
            Remove the key or correct its name.
    """),
}  # fmt: skip

CHECKS = {
    "check: unknown kind": quality("assertions:\n  - type: uniqe\n    columns: id\n", """
        RVT-209 quality/orders.yaml:2: joint orders: no check is of kind 'uniqe'; did you mean 'unique'?
            Write a check as `-- rivet:assert: not_null(id)`, or in YAML as `{type: not_null, columns: [id]}`.
    """),
    "check: too many samples": quality("audits:\n  - type: not_null\n    columns: id\n    samples: 101\n", """
        RVT-204 quality/orders.yaml:4: joint orders: `samples` must be a whole number from 0 to 100, not 101
            Correct the value.
        """),
    "check: relationship to no joint": quality("audits:\n  - {type: relationship, column: id, to: rwa.id}\n", """
        RVT-302 quality/orders.yaml:2: joint orders: check audit_relationship_id: `to` names 'rwa', which is no joint;
        did you mean 'raw'?
            Correct the name, or declare the missing joint.
    """),
    "check: relationship to no column": quality("audits:\n  - {type: relationship, column: id, to: raw}\n", """
        RVT-204 quality/orders.yaml:2: joint orders: `to` must be `joint.column`, not 'raw'
            Correct the value.
    """),
    "check: misspelt columns": quality("assertions:\n  - type: not_null\n    column: id\n", """
        RVT-205 quality/orders.yaml:2: joint orders: a not_null check needs `columns`
            Add the key.
        RVT-203 quality/orders.yaml:3: joint orders: unknown key 'column' in a not_null check; did you mean 'columns'?
            Remove the key or correct its name.
    """),
    "check: no columns": quality("assertions:\n  - type: not_null\n    columns: []\n", """
        RVT-204 quality/orders.yaml:3: joint orders: `columns` must name at least one column
            Correct the value.
    """),
    "check: unknown severity": quality("assertions:\n  - type: not_null\n    columns: id\n    severity: warning\n", """
        RVT-204 quality/orders.yaml:4: joint orders: `severity` must be one of error, warn, not 'warning'
            Correct the value.
    """),
    "check: text in place of a mapping": quality("assertions: [not_null(id)]\n", """
        RVT-209 quality/orders.yaml:1: joint orders: a check must be a mapping with `type`, not 'not_null(id)'
            Write a check as `-- rivet:assert: not_null(id)`, or in YAML as `{type: not_null, columns: [id]}`.
    """),
    "check: bounds the wrong way round": quality("audits:\n  - {type: row_count, min: 9, max: 1}\n", """
        RVT-204 quality/orders.yaml:2: joint orders: `min` (9) is greater than `max` (1)
            Correct the value.
    """),
    "check: file of no joint": Case({"quality/ordres.yaml": "assertions: []\n"}, """
        RVT-302 quality/ordres.yaml: there is no joint 'ordres' for this file to judge; did you mean 'orders'?
            Correct the name, or declare the missing joint.
    """),
    "check: freshness without an age": quality("audits:\n  - {type: freshness, column: id, max_age: soon}\n", """
        RVT-204 quality/orders.yaml:2: joint orders: `max_age` must be a duration like 30s, 15m, 24h or 7d, not 'soon'
            Correct the value.
    """),
    "check: SQL file": Case({"quality/orders/late.sql": "-- @severity: fatal\nSELECT * FROM orders\n"}, """
        RVT-204 quality/orders/late.sql:1: joint orders: `severity` must be one of error, warn, not 'fatal'
            Correct the value.
    """),
    "check: SQL file with headers that are none": Case({
        "quality/orders/late.sql": "-- late ones\n-- @severty: warn\n-- @tags: a\n-- @tags: [b\nSELECT * FROM orders\n",
    }, """
        RVT-203 quality/orders/late.sql:2: joint orders: unknown header '@severty'; did you mean 'severity'?
            Remove the key or correct its name.
        RVT-208 quality/orders/late.sql:4: joint orders: '@tags' stands here twice
            Write headers as `-- @severity: warn` before anything else.
    """),
    "check: SQL file of a phase that is none": Case(
        {"quality/orders/late.sql": "\n-- @phase: audits\nSELECT * FROM orders\n"}, """
        RVT-204 quality/orders/late.sql:2: joint orders: '@phase': must be one of assertion, audit, not 'audits'
            Correct the value.
    """),
    "check: SQL file with headers that are not written as such": Case({
        "quality/orders/late.sql":
            "-- @phase audit\n-- @SEVERITY = warn\n-- @anne looks after it\nSELECT * FROM orders\n-- @phase: audit\n",
    }, """
        RVT-208 quality/orders/late.sql:1: joint orders: a header is written `-- @phase: value`
            Write headers as `-- @severity: warn` before anything else.
        RVT-208 quality/orders/late.sql:2: joint orders: a header is written `-- @severity: value`
            Write headers as `-- @severity: warn` before anything else.
        RVT-208 quality/orders/late.sql:5: joint orders: '@phase' stands after the query has begun
            Write headers as `-- @severity: warn` before anything else.
    """),
    "check: SQL file with a bad list": Case({"quality/orders/late.sql": "-- @tags: [b\nSELECT * FROM orders\n"}, """
        RVT-204 quality/orders/late.sql:1: joint orders: '@tags': ...
            Correct the value.
    """),
    "check: empty SQL file": Case({"quality/orders/late.sql": "\n"}, """
        RVT-209 quality/orders/late.sql: joint orders: the file is empty
            Write a query whose rows are violations, or remove the file.
    """),
    "check: SQL file of no joint": Case({"quality/ordres/late.sql": "SELECT * FROM {{ this }}\n"}, """
        RVT-302 quality/ordres/late.sql: there is no joint 'ordres' for this file to judge; did you mean 'orders'?
            Correct the name, or declare the missing joint.
    """),
    "check: two queries": Case({"quality/orders/late.sql": "SELECT * FROM orders;\n\nSELECT 1\n"}, """
        RVT-209 quality/orders/late.sql:3: joint orders: check late: its SQL holds more than one statement
            Correct the check's SQL.
    """),
    "check: a query over something else": quality("assertions:\n  - {type: custom, sql: SELECT 1}\n", """
        RVT-209 quality/orders.yaml:2: joint orders: check custom: its SQL does not read the rows it judges, 'orders' or
        {{ this }}
            Correct the check's SQL.
    """),
    "check: a query over a sink": quality(
        "assertions:\n  - {type: custom, sql: SELECT * FROM orders JOIN report USING (id)}\n", """
        RVT-307 quality/orders.yaml:2: joint orders: check custom: it reads the sink 'report', which has no downstream
            Read the joint before the sink instead; a sink is the end of its line.
    """),
    "check: no type": quality("assertions:\n  - {type: schema, columns: {id: LONG, net: dubble}}\n", """
        RVT-209 quality/orders.yaml:2: joint orders: check schema: no type of Spark's: net: dubble
            Write types as Spark's SQL does: BIGINT, STRING, DECIMAL(10, 2), ARRAY<DATE>, ...
    """),
    "check: annotation without parentheses": sql(f"-- rivet:assert: not_null id\n{QUERY}", """
        RVT-209 joints/orders.sql:1: joint orders: a check is written `kind` or `kind(arguments)`
            Write a check as `-- rivet:assert: not_null(id)`, or in YAML as `{type: not_null, columns: [id]}`.
    """),
    "check: annotation left open": sql(f"-- rivet:eager: true\n-- rivet:audit: not_null(id\n{QUERY}", """
        RVT-209 joints/orders.sql:2: joint orders: a bracket is not closed
            Write a check as `-- rivet:assert: not_null(id)`, or in YAML as `{type: not_null, columns: [id]}`.
    """),
    "check: option misspelt in an annotation": sql(f"-- rivet:assert: row_count(mim=1, max=9)\n{QUERY}", """
        RVT-203 joints/orders.sql:1: joint orders: unknown key 'mim' in a row_count check; did you mean 'min'...?
            Remove the key or correct its name.
    """),
}  # fmt: skip

WARNINGS = {
    "SQL that only Spark may know, with upstream": sql("-- rivet:upstream: raw\nSELECT id\nFORM raw\nWHERE net", """
        RVT-315 joints/orders.sql:3: joint orders: the SQL could not be read near 'FORM raw'; its schema and lineage are
        unknown
            Correct the SQL; where Spark reads it as it stands, declare `upstream`.
    """),
    "table that is nearly a joint": sql("SELECT id\nFROM raws\n", """
        RVT-302 joints/orders.sql:1: joint orders: 'raws' is no joint and is left to the engine; did you mean 'raw'?
            Correct the name, or declare the missing joint.
    """),
    "sink of joints with other columns": Case({
        "joints/more.sql": "SELECT id FROM raw", "sinks/report.yaml": SINK.replace("orders", "[orders, more]"),
    }, """
        RVT-317 sinks/report.yaml:2: joint report: orders and more have different columns: only one of them has net
            Give the joints that one sink writes the same columns, of the same types.
    """),
    "sink of joints with other types": Case({
        "joints/more.sql": "SELECT '1' AS id, net FROM raw",
        "sinks/report.yaml": SINK.replace("orders", "[orders, more]"),
    }, """
        RVT-317 sinks/report.yaml:2: joint report: orders and more have different types: id is bigint and string
            Give the joints that one sink writes the same columns, of the same types.
    """),
}  # fmt: skip


def in_one_file(cases: Mapping[str, Case]) -> dict[str, Case]:
    """Return the cases of the sink as those of a SQL joint that is published in its place."""
    path, head = "sinks/report.yaml", "type: sink\nupstream: orders\n"
    return {
        f"in one file: {name}": Case(
            {path: None, "joints/report.yaml": str(case.files[path]).replace(head, "type: sql\nsql: FROM orders\n")},
            case.output.replace(path, "joints/report.yaml").replace("which its upstream", "which its query"),
        )
        for name, case in cases.items()
        if case.files.keys() == {path} and str(case.files[path]).startswith(head)
    }


WRONG_JOINTS = JOINT_FILES | ASSEMBLY | CHECKS
BY_EXIT_CODE = {10: CONFIGURATION, 1: WRONG_JOINTS | in_one_file(WRONG_JOINTS), 0: WARNINGS}

Write = Callable[[Mapping[str, str | bytes | None]], str]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes the valid project with differing files."""
    monkeypatch.delenv("RIVET_PROFILE", raising=False)
    monkeypatch.delenv("ATTIC", raising=False)
    monkeypatch.setenv("SET", SECRET)

    def write(files: Mapping[str, str | bytes | None]) -> str:
        for name, content in {**GOOD, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if content is not None:
                path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(tmp_path)

    return write


def test_the_valid_project_has_no_errors(write: Write) -> None:
    plan = compile_directory(write({}))
    assert (plan.errors, plan.warnings) == ((), ())


@pytest.mark.parametrize(
    ("exit_code", "case"),
    [pytest.param(code, case, id=name) for code, cases in BY_EXIT_CODE.items() for name, case in cases.items()],
)
def test_bad_input(
    write: Write,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    exit_code: int,
    case: Case,
) -> None:
    root = write(case.files)
    found = diagnostics(root, case.profile)
    output = "\n".join(map(str, found))
    is_expected = OutputChecker().check_output(
        case.output.replace("ROOT", root), output, ELLIPSIS | NORMALIZE_WHITESPACE
    )
    assert is_expected, output

    command = ["-p", root, *(["--profile", case.profile] if case.profile else []), "compile"]
    code, (out, err) = main([*command, "--format", "json"]), capsys.readouterr()
    report = json.loads(out)
    assert (code, report["success"], err) == (exit_code, exit_code == 0, "")
    assert report["errors" if exit_code else "warnings"] == [diagnostic.to_dict() for diagnostic in found]

    code, (out, err) = main(command), capsys.readouterr()
    assert code == exit_code
    assert err.replace("warning: ", "") == output + "\n"
    assert bool(out) is (exit_code == 0)
    assert SECRET not in output + out + err
    assert not caplog.records


def test_an_unexpected_exception_is_reported(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*_: object) -> None:
        raise KeyError("lost")

    monkeypatch.setattr("rivet_dagster.loading.compile_project", lost)
    with pytest.raises(RivetError, match="KeyError: 'lost'") as raised:
        compile_directory(write({}))
    assert raised.value.code == "RVT-599"
    assert isinstance(raised.value.__cause__, KeyError)


def test_an_unknown_target_is_an_error(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, (out, _) = main(["-p", write({}), "compile", "ordres", "--format", "json"]), capsys.readouterr()
    assert code == 1
    assert json.loads(out)["errors"] == [{
        "code": "RVT-306", "message": "no joint is named 'ordres'; did you mean 'orders'?",
        "joint": None, "file": None, "line": None, "remediation": "Name a joint of this project.",
    }]  # fmt: skip


def diagnostics(root: str, profile: str | None) -> tuple[Diagnostic, ...]:
    """Return the errors of a project, or its warnings if there are none."""
    try:
        plan = compile_directory(root, profile)
    except RivetError as error:
        return error.diagnostics
    return plan.errors or plan.warnings

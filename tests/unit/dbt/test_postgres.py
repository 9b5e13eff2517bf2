"""Projects whose profile has PostgreSQL databases: their catalogs, the sources in them, and models in their SQL."""

import json

import pytest
from support.dbt import model, notes, translated, write_dbt

from rivet_dagster.catalogs.jdbc.options import wrong_options
from rivet_dagster.catalogs.jdbc.postgres.connection import PostgresDatabase as Database
from rivet_dagster.cli.main import main
from rivet_dagster.dbt.declared import DbtLocation
from rivet_dagster.dbt.reading.profile import read_postgres, read_profile

DEV = "{type: postgres, host: db, user: reader, password: \"{{ env_var('DB_PASSWORD') }}\", dbname: shop, schema: main}"
SPARK = "{type: spark, method: session, schema: main}"
VIEW = "select id from {{ source('raw', 'orders') }}"
RAW = "sources: [{name: raw, tables: [{name: orders, identifier: Orders}]}]"


def profiles(target="dev", **outputs):
    entries = ", ".join(f"{name}: {output}" for name, output in ({"dev": DEV} | outputs).items())
    return f"shop: {{target: {target}, outputs: {{{entries}}}}}"


def database(**output):
    return read_postgres("dev", {"host": "db", "user": "u", "dbname": "shop"} | output, DbtLocation("profiles.yml"))


@pytest.mark.parametrize(
    ("output", "url", "told"),
    [
        ({}, "//db:5432/shop", ""),
        ({"port": 5433}, "//db:5433/shop", ""),
        ({"port": "{{ env_var('DB_PORT') | int }}"}, "//db:${DB_PORT}/shop", ""),
        ({"port": "{{ env_var('DB_PORT', '5433') | as_number }}"}, "//db:5433/shop", "the default of its env_var"),
        ({"port": "x"}, "//db:5432/shop", "'x' is no number"),
        ({"host": "::1"}, "//[::1]:5432/shop", ""),
        ({"host": "[fe80::1]"}, "//[fe80::1]:5432/shop", ""),
        ({"host": "a, b"}, "//a:5432,b:5432/shop", ""),
        ({"host": "{{ env_var('DB_HOST') }}.local"}, "//${DB_HOST}.local:5432/shop", ""),
        ({"host": "{{ env_var('DB_HOST', 'a') ~ 'x' }}"}, "//${PGHOST}:5432/shop", "it is computed"),
        ({"host": "/var/run/postgresql"}, "//localhost:5432/shop", "is a socket"),
        ({"host": None}, "//${PGHOST}:5432/shop", ""),
        ({"dbname": "a b"}, "//db:5432/${PGDATABASE}", "a URL cannot hold 'a b'"),
        ({"dbname": None, "database": "other"}, "//db:5432/other", ""),
        ({"dbname": "a${b}"}, "//db:5432/a$${b}", ""),
    ],
)
def test_urls(output, url, told):
    read = database(**output)
    assert read.options["url"] == f"jdbc:postgresql:{url}"
    assert (told in " ".join(read.notes)) if told else read.notes == ()
    assert wrong_options(read.options) == {}


def test_an_ipv6_host_is_a_server_of_the_catalog(tmp_path):
    (server,) = Database.of("shop", database(host="::1").options, tmp_path).servers
    assert (server.host, server.port) == ("::1", 5432)


@pytest.mark.parametrize(
    ("output", "password", "told"),
    [
        ({}, None, ""),
        ({"password": "hunter2"}, "", ""),
        ({"pass": "hunter2"}, "", ""),
        ({"password": 1234}, "", ""),
        ({"password": "{{ env_var('PW') }}"}, "PW", ""),
        ({"pass": "{{ env_var('PW') | as_text }}"}, "PW", ""),
        ({"password": "{{ env_var('PW', 'hunter2') }}"}, "PW", "its default is a secret"),
        ({"password": "hunter2{{ env_var('PW') }}"}, "", ""),
        ({"password": "{{ 'hunter' ~ 2 }}"}, "", ""),
    ],
)
def test_passwords(output, password, told):
    read = database(**output)
    assert read.password == password
    assert told in " ".join(read.notes)
    assert "hunter" not in repr(read)


@pytest.mark.parametrize(
    ("output", "options", "told"),
    [
        (
            {"sslmode": "verify-full", "sslrootcert": "/ca.crt"},
            {"sslmode": "verify-full", "sslrootcert": "/ca.crt"},
            "",
        ),
        ({"sslmode": "always"}, {}, "`sslmode` is left out: it must be one of"),
        ({"sslrootcert": "certs/ca.crt"}, {"sslrootcert": "certs/ca.crt"}, "relative to the new project"),
        ({"sslrootcert": "system"}, {}, "name the file"),
        ({"schema": "{{ env_var('S') }}"}, {"schema": "${S}"}, ""),
        ({"threads": 4}, {}, "`threads` is not used: `connections`"),
        ({"role": "r"}, {}, "`role` has no counterpart: the user itself needs the rights"),
        ({"search_path": "a"}, {}, "named with their schemas"),
        ({"sslcert": "a"}, {}, "by a certificate"),
        ({"sslkey": "a"}, {}, "by a certificate"),
        ({"connect_timeout": 5}, {}, "10 seconds"),
        ({"keepalives_idle": 0}, {}, "has its own"),
        ({"retries": 2}, {}, "joints have"),
        ({"keepalive_idle": 1}, {}, "did you mean 'keepalives_idle'?"),
    ],
)
def test_other_keys(output, options, told):
    read = database(**output)
    assert {key: value for key, value in read.options.items() if key not in ("url", "user")} == options
    assert (told in " ".join(read.notes)) if told else read.notes == ()


def test_the_target_is_a_catalog(tmp_path):
    files = {"models/m.sql": VIEW, "models/s.yml": RAW, "profiles.yml": profiles()}
    result = translated(tmp_path, files)
    assert (
        'shop: {type: jdbc, url: "jdbc:postgresql://db:5432/shop", user: reader, password: "${DB_PASSWORD}", '
        "schema: main}"
    ) in result.files["profiles.yaml"]
    assert "catalogs: [shop]" in result.files["profiles.yaml"]
    assert "spark.sql.ansi.enabled" not in result.files["profiles.yaml"]
    source = result.files["sources/raw/orders.yaml"]
    assert "catalog: shop\n" in source
    assert "table: raw.Orders\n" in source
    (entry,) = notes(result, "profile")
    assert (entry.name, entry.status) == ("dev", "changed")
    assert "by `rivet-dagster adopt JOINT`" in " ".join(entry.reasons)
    assert "models that are views are computed where they are read" in " ".join(entry.reasons)
    assert "${DB_PASSWORD}" in result.variables
    assert result.report.is_whole


def published(result):
    """Return catalog and table of the joints that declare a catalog, by name."""
    found = {}
    for path, text in result.files.items():
        if path.startswith("joints/") and "rivet:catalog: " in text:
            keys = dict(line[9:].split(": ", 1) for line in text.splitlines() if line.startswith("-- rivet:"))
            found[path.rpartition("/")[2].removesuffix(".sql")] = (keys["catalog"], keys.get("table"))
    return found


def test_models_are_published_to_the_target_where_dbt_has_their_tables(tmp_path):
    table = "materialized='table'"
    files = {
        "models/plain.sql": f"{{{{ config({table}) }}}}select 1 as id",
        "models/other.sql": f"{{{{ config({table}, alias='Named', schema='mart') }}}}select 1 as id",
        "models/same.sql": f"{{{{ config({table}, alias='Named') }}}}select 1 as id",
        "models/mine.sql": f"{{{{ config({table}, schema='mart') }}}}select '{{{{ this.identifier }}}}' as id",
        "models/dotted.sql": f"{{{{ config({table}, alias='a.b') }}}}select 1 as id",
        "models/seen.sql": "select 1 as id",
        "snapshots/s.sql": "{% snapshot s %}{{ config(unique_key='id', strategy='check', check_cols='all', "
        "target_schema='history') }}select id from {{ ref('plain') }}{% endsnapshot %}",
        "profiles.yml": profiles(),
    }
    result = translated(tmp_path, files)
    assert published(result) == {
        "plain": ("shop", None),
        "other": ("shop", "main_mart.Named"),
        "same": ("shop", "Named"),
        "mine": ("shop", "main_mart.mine"),
        "s": ("shop", "history.s"),
    }
    assert "{{ 'mine' }}" in result.files["joints/mine.sql"]
    assert model(result, "dotted").reasons[0] == "a catalog of the type jdbc has no table 'a.b', with a dot in its name"
    assert model(result, "plain").reasons == ()
    (told,) = [entry for entry in result.report.models if entry.name == "s"] or notes(result, "snapshot")
    assert any("rename it, or name another `table`" in reason for reason in told.reasons)
    assert "warehouse" not in result.files["profiles.yaml"]


def test_schemas_that_nobody_knows_are_told(tmp_path):
    model_of_mart = "{{ config(materialized='table', schema='mart') }}select 1 as id"
    own = "{% macro generate_schema_name(name, node) %}{{ name }}{% endmacro %}"
    files = {"models/m.sql": model_of_mart, "profiles.yml": profiles(), "macros/s.sql": own}
    result = translated(tmp_path / "macro", files)
    assert published(result) == {"m": ("shop", "main_mart.m")}
    assert "without the project's macro generate_schema_name" in " ".join(model(result, "m").reasons)
    dev = DEV.replace("schema: main", "schema: \"{{ env_var('S') }}\"")
    result = translated(tmp_path / "variable", {"models/m.sql": model_of_mart, "profiles.yml": profiles(dev=dev)})
    assert published(result) == {"m": ("shop", None)}
    assert "its schema in dbt is '${S}_mart', which only a run knows" in " ".join(model(result, "m").reasons)


def test_a_literal_password_is_not_copied(tmp_path):
    dev = DEV.replace("\"{{ env_var('DB_PASSWORD') }}\"", "hunter2")
    result = translated(tmp_path, {"models/m.sql": "select 1 as id", "profiles.yml": profiles(dev=dev)})
    assert 'password: "${SHOP_PASSWORD}"' in result.files["profiles.yaml"]
    assert "it is a secret, and is not copied" in " ".join(notes(result, "profile")[0].reasons)
    assert not any("hunter2" in text for text in (*result.files.values(), json.dumps(result.report.to_dict())))


def test_sources_of_a_database_beside_spark(tmp_path):
    """A source is in a database where its ``database`` is the name of one, or of an output; others are Spark's."""
    crm = "{type: postgres, host: crm, user: u, dbname: crm, schema: x}"
    env = "{type: postgres, host: env, user: u, dbname: \"{{ env_var('D') }}\", schema: x}"
    sources = """sources:
    - {name: a, database: shop, tables: [{name: t1}]}
    - {name: b, database: of_crm, schema: s, tables: [{name: t2}]}
    - {name: c, database: "{{ env_var('D') }}", tables: [{name: t3}]}
    - {name: d, tables: [{name: t4}]}
    - {name: e, database: elsewhere, tables: [{name: t5}]}
    - {name: f, database: "{{ target.database }}", tables: [{name: t6}]}
    """
    written = profiles("local", local=SPARK, prod=DEV.replace("host: db", "host: prod"), of_crm=crm, env=env)
    result = translated(tmp_path, {"models/m.sql": "select 1 as id", "models/s.yml": sources, "profiles.yml": written})
    read = {
        path.rsplit("/")[-1][:2]: tuple(line.split(": ")[1] for line in text.splitlines()[2:4])
        for path, text in result.files.items()
        if path.startswith("sources/")
    }
    assert read == {
        "t1": ("shop", "a.t1"),
        "t2": ("crm", "s.t2"),
        "t3": ("postgres", "c.t3"),
        "t4": ("session", "d.t4"),
        "t5": ("session", "e.t5"),
        "t6": ("session", "f.t6"),
    }
    told = {entry.name: " ".join(entry.reasons) for entry in result.report.others}
    assert "that of the outputs dev, prod: the first one's is taken" in told["a.t1"]
    assert "its database 'elsewhere' is not used" in told["e.t5"]
    assert "no source is in its database 'shop'" in told["prod"]
    assert "catalogs: [warehouse, session, shop, crm, postgres]" in result.files["profiles.yaml"]
    assert "prod" not in result.files["profiles.yaml"]
    assert "spark.sql.ansi.enabled" in result.files["profiles.yaml"]
    assert result.report.is_whole


def test_a_database_that_the_target_cannot_read(tmp_path):
    sources = "sources: [{name: raw, database: other, tables: [{name: orders}]}]"
    result = translated(tmp_path, {"models/m.sql": VIEW, "models/s.yml": sources, "profiles.yml": profiles()})
    assert "is that of no output" in notes(result, "source")[0].reasons[0]
    assert model(result, "m").reasons == ("reads orders, which is left out",)


def test_names_of_catalogs(tmp_path):
    """No two are alike, and none is that of a catalog of every import."""
    sources = "sources: [{name: a, database: Seeds, tables: [{name: t1}]}]"
    outputs = {"b": DEV.replace("dbname: shop", "dbname: Seeds"), "c": DEV}
    written = profiles(**outputs)
    result = translated(tmp_path, {"models/m.sql": "select 1 as id", "models/s.yml": sources, "profiles.yml": written})
    assert "catalogs: [shop, seeds_b]" in result.files["profiles.yaml"]
    assert "catalog: seeds_b" in result.files["sources/a/t1.yaml"]


def test_models_that_spark_reads_alike_are_taken(tmp_path):
    files = {
        "models/alike.sql": "{{ config(materialized='table') }}\nselect id, avg(amount) as mean\n"
        "from {{ source('raw', 'orders') }}\ngroup by 1",
        "models/odd.sql": "{{ config(materialized='table') }}\n\nselect\n  id::text as id,\n"
        "{% if true %}  amount / 2 as half{% endif %}\nfrom {{ ref('alike') }}",
        "models/after.sql": "select * from {{ ref('odd') }}",
        "models/keyed.sql": "{{ config(materialized='incremental', unique_key='id') }}select id from {{ ref('alike') }}"
        "{% if is_incremental() %} where id::int > 1{% endif %}",
        "models/merged.sql": "{{ config(materialized='incremental', unique_key='id') }}select 1 as id",
        "models/macro.sql": "select {{ cents('id') }} as id from {{ ref('alike') }}",
        "macros/m.sql": "{% macro cents(column) %}({{ column }} * 100)::numeric(10, 2){% endmacro %}",
        "snapshots/s.sql": "{% snapshot s %}{{ config(unique_key='id', strategy='check', check_cols='all') }}"
        "select id, mean || '' as mean from {{ ref('alike') }}{% endsnapshot %}",
        "models/s.yml": RAW,
        "profiles.yml": profiles(),
    }
    result = translated(tmp_path, files)
    assert {entry.name: entry.status for entry in result.report.models} == {
        "alike": "changed",
        "odd": "left_out",
        "after": "left_out",
        "keyed": "left_out",
        "merged": "changed",
        "macro": "unchanged",
    }
    assert "the last digits of a result" in " ".join(model(result, "alike").reasons)
    assert model(result, "odd").reasons == (
        "models/odd.sql:4: the type `text`: Spark's is `string`",
        "models/odd.sql:5: `amount / 2`: of integers it is an integer in PostgreSQL, and none in Spark",
        "the SQL is PostgreSQL's: change this in the dbt project to what both know, or write the joint by hand",
    )
    assert "`CAST(id AS INT)`" in model(result, "keyed").reasons[0]
    assert "mode: delete_insert" in result.files["joints/merged.sql"]
    assert "is delete+insert on postgres" in " ".join(model(result, "merged").reasons)
    assert "joints/snapshots/s.sql" in result.files


def test_tests_in_other_sql_are_left_out(tmp_path):
    files = {
        "models/m.sql": VIEW,
        "models/s.yml": RAW + "\nmodels: [{name: m, columns: [{name: id, quote: true, data_tests: [unique, "
        "{not_null: {config: {where: id > 3}}}, {unique: {name: odd, config: {where: \"id::text <> 'x'\"}}}]}]}]",
        "tests/same.sql": "select * from {{ ref('m') }} where id < 0",
        "tests/other.sql": "select * from {{ ref('m') }} where id ~ 'x'",
        "profiles.yml": profiles(),
    }
    found = {entry.name: entry for entry in translated(tmp_path, files).report.tests}
    assert {name: entry.status for name, entry in found.items()} == {
        "unique_m_id": "unchanged",
        "not_null_m_id": "changed",
        "odd": "left_out",
        "same": "changed",
        "other": "left_out",
    }
    assert "its SQL is PostgreSQL's: the type `text`" in found["odd"].reasons[0]


def test_sql_of_spark_is_not_compared(tmp_path):
    files = {"models/m.sql": "select id / 2 as x from {{ source('raw', 'orders') }}", "models/s.yml": RAW}
    result = translated(tmp_path, files | {"profiles.yml": profiles("local", local=SPARK)})
    assert model(result, "m").status == "changed"


def test_types_of_seeds(tmp_path):
    files = {
        "seeds/s.csv": "id,at,part\n1,2024-01-01 10:00:00,0.5\n",
        "seeds/n.csv": "id\n1\n",
        "seeds/s.yml": "seeds: [{name: s, config: {column_types: {part: float}}}, "
        "{name: n, config: {column_types: {id: numeric}}}]",
        "profiles.yml": profiles(),
    }
    result = translated(tmp_path, files)
    assert 'schema: "id bigint, at timestamp_ntz, part double"' in result.files["sources/seeds/s.yaml"]
    assert "any number of digits" in next(e for e in notes(result, "seed") if e.name == "n").reasons[0]


def test_the_text_that_dbt_compiled(tmp_path):
    """Names of tables are in double quotes there, and three parts long."""
    manifest = {
        "nodes": {"a": {"package_name": "shop", "name": "a", "relation_name": '"shop"."main"."a"'}},
        "sources": {
            "o": {
                "resource_type": "source",
                "source_name": "raw",
                "name": "orders",
                "relation_name": '"shop"."raw"."Orders"',
            }
        },
    }
    files = {
        "models/a.sql": VIEW,
        "models/m.sql": "select {{ run_query('select 1') }} from {{ ref('a') }}",
        "models/s.yml": RAW,
        "target/manifest.json": json.dumps(manifest),
        "target/compiled/shop/models/m.sql": 'select a.id from "shop"."main"."a" a join "shop"."raw"."Orders" o '
        "on o.id = a.id and o.kind <> 'raw.Orders'",
        "profiles.yml": profiles(),
    }
    result = translated(tmp_path, files)
    assert model(result, "m").status == "compiled"
    assert (
        "select a.id from a a join orders o on o.id = a.id and o.kind <> 'raw.Orders'" in result.files["joints/m.sql"]
    )


def test_a_profile_elsewhere(tmp_path):
    """Without profiles.yml the manifest says which adapter the SQL is for."""
    manifest = json.dumps({"metadata": {"adapter_type": "postgres"}})
    files = {"models/m.sql": VIEW, "models/s.yml": RAW, "target/manifest.json": manifest}
    result = translated(tmp_path, files)
    assert (
        'postgres: {type: jdbc, url: "jdbc:postgresql://${PGHOST}:5432/${PGDATABASE}", user: "${PGUSER}", '
        'password: "${PGPASSWORD}"}'
    ) in result.files["profiles.yaml"]
    assert "catalog: postgres\n" in result.files["sources/raw/orders.yaml"]
    assert any("there is no profiles.yml" in entry.reasons[0] for entry in notes(result, "profile"))
    write_dbt(tmp_path / "other", {"target/manifest.json": "[]"})
    assert read_profile(tmp_path / "other", None).target.adapter == "spark"


def test_the_imported_project_compiles(tmp_path, capsys, monkeypatch):
    files = {
        "models/totals.sql": "{{ config(materialized='table') }}\nselect customer, sum(amount) as total\n"
        "from {{ source('raw', 'orders') }} group by 1",
        "models/s.yml": RAW,
        "profiles.yml": profiles(),
    }
    monkeypatch.delenv("DB_PASSWORD", raising=False)
    old, new = write_dbt(tmp_path / "old", files), tmp_path / "new"
    assert main(["import", "dbt", str(old), "--to", str(new), "--format", "json"]) == 0
    capsys.readouterr()
    monkeypatch.setenv("DB_PASSWORD", "x")
    assert main(["-p", str(new), "compile", "--format", "json"]) == 0
    joints = {joint["name"]: joint for joint in json.loads(capsys.readouterr().out)["joints"]}
    assert set(joints) == {"orders", "totals"}

"""Seeds and snapshots of dbt as joints."""

import csv
import io

import pytest
from support.dbt import model, notes, translated, write_dbt

from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.report import Refused
from rivet_dagster.dbt.translation.project import translate
from rivet_dagster.dbt.translation.seeds import read_seed


@pytest.mark.parametrize(
    ("cells", "kind", "written"),
    [
        (["1", "2"], "bigint", ["1", "2"]),
        (["1.0", "2"], "bigint", ["1", "2"]),
        (["1.5", "", "null"], "double", ["1.5", "", ""]),
        (["$1,200", "-3%"], "bigint", ["1200", "-3"]),
        (["€1.25"], "double", ["1.25"]),
        (["007", "01"], "bigint", ["7", "1"]),
        (["2024-01-31", "2024-2-3"], "date", ["2024-01-31", "2024-02-03"]),
        (["2024-01-31 10:00:00"], "timestamp", ["2024-01-31 10:00:00"]),
        (["2024-01-31T10:00:00Z"], "timestamp", ["2024-01-31T10:00:00Z"]),
        (["2024-01-31 10:00:00.5"], "string", ["2024-01-31 10:00:00.5"]),
        (["2024-01-31", "2024-01-31 10:00:00"], "string", ["2024-01-31", "2024-01-31 10:00:00"]),
        (["TRUE", "false", ""], "boolean", ["true", "false", ""]),
        (["yes", "no"], "string", ["yes", "no"]),
        (["1", "x"], "string", ["1", "x"]),
        (["a", " NULL ", " b "], "string", ["a", "", " b "]),
        (["", ""], "bigint", ["", ""]),
    ],
)
def test_types_that_dbt_guesses(cells, kind, written):
    """The expectations were seen in tables that dbt-spark 1.10 made of such seeds."""
    text = "k,v\n" + "".join(f'{n},"{cell}"\n' if "," in cell else f"{n},{cell}\n" for n, cell in enumerate(cells))
    seed = read_seed(text)
    assert seed.columns[1] == ("v", kind)
    rows = list(csv.reader(io.StringIO(seed.text if seed.text is not None else text)))
    assert [row[1] for row in rows[1:]] == written
    assert (seed.text is None) == (written == cells)


def test_the_note_shows_the_first_value_of_each_column_that_is_written_otherwise():
    seed = read_seed("id,paid,note\n1,TRUE,a\n2,FALSE,null\n3,true,NULL\n")
    assert seed.notes == ("the values are written as dbt reads them (paid: 'TRUE' is 'true', note: 'null' is NULL)",)


def test_column_types_delimiter_and_quotes(tmp_path):
    files = {
        "seeds/ref/s.csv": 'code;note\n01;"a ""b""; c"\n',
        "seeds/s.yml": "seeds: [{name: s, config: {delimiter: ';', column_types: {code: varchar(4), note: text}}}]",
        "models/m.sql": "select * from {{ ref('s') }}",
    }
    result = translated(tmp_path, files)
    assert result.files["sources/seeds/ref/s.yaml"] == (
        "name: s\ntype: source\ncatalog: seeds\ntable: ref/s.csv\noptions:\n"
        '  schema: "code string, note string"\n  sep: ";"\n  escape: "\\""\n'
    )
    assert dict(result.copies) == {"seeds/ref/s.csv": "seeds/ref/s.csv"}
    assert model(result, "m").status == "unchanged"


@pytest.mark.parametrize("delimiter", ["", ";;", '"', "\n"])
def test_a_delimiter_is_one_character_that_cannot_end_a_value_or_line(delimiter):
    with pytest.raises(ValueError, match="is no single character"):
        read_seed("id\n1\n", delimiter)


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
def test_values_of_several_lines(end):
    seed = read_seed(f'id,note\n1,"a{end}b"\n')
    assert seed.options == {"multiLine": True}
    assert seed.text is None


@pytest.mark.parametrize("text", ["", "a,b\n1,2,3\n"])
def test_seeds_that_cannot_be_read(tmp_path, text):
    result = translated(tmp_path, {"seeds/s.csv": text, "models/m.sql": "select * from {{ ref('s') }}"})
    (seed,) = notes(result, "seed")
    assert (seed.status, seed.location.file) == ("left_out", "seeds/s.csv")
    assert model(result, "m").reasons == ("reads s, which is left out",)
    assert not result.report.is_whole


def snapshot(tmp_path, config, reader="select * from {{ ref('s') }}"):
    text = f"{{% snapshot s %}}\n{{{{ config({config}) }}}}\nselect * from {{{{ ref('a') }}}}\n{{% endsnapshot %}}\n"
    files = {"snapshots/s.sql": text, "models/a.sql": "select 1 as id", "models/reader.sql": reader}
    return translated(tmp_path, files)


@pytest.mark.parametrize(
    ("config", "write"),
    [
        (
            "unique_key='id', strategy='timestamp', updated_at='at'",
            "{mode: scd2, key_columns: [id], effective_at: at, track_columns: [at], ",
        ),
        (
            "unique_key=['a', 'b'], strategy='check', check_cols=['x'], invalidate_hard_deletes=true",
            "{mode: scd2, key_columns: [a, b], track_columns: [x], close_missing: true, ",
        ),
        ("unique_key='id', strategy='check', check_cols='all'", "{mode: scd2, key_columns: [id], "),
    ],
)
def test_snapshots(tmp_path, config, write):
    result = snapshot(tmp_path, config)
    names = "valid_from: dbt_valid_from, valid_to: dbt_valid_to, is_current: dbt_is_current, on_schema_change: add}"
    assert result.files["joints/snapshots/s.sql"] == (
        f"-- rivet:catalog: warehouse\n-- rivet:write_strategy: {write}{names}\n\nselect * from {{{{ ref('a') }}}}\n"
    )
    (entry,) = notes(result, "snapshot")
    assert entry.status == "changed"
    assert "a key that is NULL equals itself" in " ".join(entry.reasons)


def test_columns_that_only_dbt_has(tmp_path):
    """A reader that names them reads a joint that adds them to the table's."""
    config = "unique_key='id', strategy='timestamp', updated_at='at'"
    result = snapshot(tmp_path, config, "select dbt_scd_id from {{ ref('s') }} where dbt_updated_at > '2024'")
    assert "-- rivet:table: s\n" in result.files["joints/snapshots/s_history.sql"]
    assert result.files["joints/snapshots/s.sql"].endswith("FROM {{ ref('s_history') }}\n")
    assert "`dbt_valid_from` AS dbt_updated_at" in result.files["joints/snapshots/s.sql"]
    assert model(result, "reader").status == "unchanged"


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("strategy='check', check_cols='all'", "has no unique_key"),
        ("unique_key='id', strategy='timestamp'", "has no updated_at"),
        ("unique_key='id', strategy='check'", "has no check_cols"),
        ("unique_key='id', strategy='other'", "the strategy 'other' has no counterpart"),
        ("unique_key='a || b', strategy='check', check_cols='all'", "'a || b' is an expression"),
        ("unique_key='id', strategy='check', check_cols='all', hard_deletes='new_record'", "new_record"),
    ],
)
def test_snapshots_that_are_left_out(tmp_path, config, reason):
    result = snapshot(tmp_path, config)
    (entry,) = notes(result, "snapshot")
    assert (entry.status, reason in entry.reasons[0], entry.location.file) == ("left_out", True, "snapshots/s.sql")
    assert model(result, "reader").reasons == ("reads s, which is left out",)


def test_seeds_of_one_path_have_files_of_their_own(tmp_path):
    files = {
        "seeds/pkg/x.csv": "id\n1\n",
        "dbt_packages/pkg/dbt_project.yml": "name: pkg",
        "dbt_packages/pkg/seeds/x.csv": "id\nnull\n",
    }
    result = translated(tmp_path, files)
    assert dict(result.copies) == {"seeds/pkg/x.csv": "seeds/pkg/x.csv"}
    assert result.files["seeds/pkg_x.csv"] == "id\n\\N\n"
    assert "table: pkg_x.csv\n" in result.files["sources/pkg/seeds/pkg_x.yaml"]
    assert "another seed's is 'pkg/x.csv'" in " ".join(notes(result, "seed")[0].reasons)


def test_snapshots_of_properties_files_are_configured_by_folder(tmp_path):
    files = {
        "snapshots/daily/all.yml": "snapshots: [{name: s, relation: ref('a'), "
        "config: {unique_key: id, strategy: check, check_cols: all}}]",
        "models/a.sql": "select 1 as id",
    }
    result = translated(tmp_path, files, "name: shop\nsnapshots: {shop: {daily: {s: {+tags: nightly}}}}")
    assert "-- rivet:tags: [nightly]\n" in result.files["joints/snapshots/daily/s.sql"]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("hard_deletes='weird'", "hard_deletes 'weird' has no counterpart"),
        ("snapshot_meta_column_names=[1]", "snapshot_meta_column_names must be a mapping"),
    ],
)
def test_wrong_settings_of_snapshots(tmp_path, config, reason):
    (entry,) = notes(snapshot(tmp_path, f"unique_key='id', strategy='check', check_cols='all', {config}"), "snapshot")
    assert (entry.status, entry.reasons[0]) == ("left_out", reason)


def test_a_seed_that_the_compiler_refuses_is_left_out(tmp_path):
    root = write_dbt(tmp_path, {"seeds/s.csv": "id\n1\n", "models/m.sql": "select * from {{ ref('s') }}"})
    result = translate(read_dbt_project(root), root, Refused({"s": ["a reason"]}))
    assert (notes(result, "seed")[0].status, notes(result, "seed")[0].reasons) == ("left_out", ("a reason",))
    assert model(result, "m").status == "left_out"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("hard_deletes='invalidate'", True),
        ("hard_deletes='ignore'", False),
        ("invalidate_hard_deletes=True", True),
        ("invalidate_hard_deletes=False", False),
        ("hard_deletes='new_record'", "new_record has no counterpart"),
        ("hard_deletes='INVALIDATE'", "'INVALIDATE' has no counterpart"),
        ("hard_deletes='ignore', invalidate_hard_deletes=False", "cannot both be given"),
        ("snapshot_meta_column_names={'dbt_valid_to': 'a b'}", "'a b' in snapshot_meta_column_names is no name"),
    ],
)
def test_hard_deletes(tmp_path, config, expected):
    result = snapshot(tmp_path, f"unique_key='id', strategy='check', check_cols='all', {config}")
    (entry,) = notes(result, "snapshot")
    if isinstance(expected, str):
        assert (entry.status, expected in entry.reasons[0]) == ("left_out", True)
    else:
        assert ("close_missing: true" in result.files["joints/snapshots/s.sql"]) is expected


def test_own_names_of_dbts_columns(tmp_path):
    config = (
        "unique_key='id', strategy='check', check_cols='all', "
        "snapshot_meta_column_names={'dbt_scd_id': 'version_id', 'dbt_valid_from': none}"
    )
    result = snapshot(tmp_path, config, "select version_id from {{ ref('s') }}")
    assert "AS version_id" in result.files["joints/snapshots/s.sql"]
    assert "valid_from: dbt_valid_from" in result.files["joints/snapshots/s_history.sql"]


def test_configuration_of_sources(tmp_path):
    """As dbt: the tags of a package's folders do not count, and the whole project's are in place of all others."""
    source = "{name: crm, tags: [a], config: {meta: {x: 1}}, tables: [{name: visits, config: {tags: b}}]}"
    files = {
        "models/s.yml": f"sources: [{source}]",
        "dbt_packages/pkg/dbt_project.yml": "name: pkg\nsources: {pkg: {+tags: own, +enabled: false}}",
        "dbt_packages/pkg/models/s.yml": "sources: [{name: erp, tables: [{name: t, config: {enabled: false}}]}]",
    }
    project = "name: shop\nsources: {shop: {+tags: folder}, pkg: {+enabled: true, erp: {+tags: outer}}}"
    result = translated(tmp_path, files, project)
    assert "tags: [a, b]\n" in result.files["sources/crm/visits.yaml"]
    assert "tags: [outer]\n" in result.files["sources/erp/t.yaml"]

"""Which files of a dbt project are read, and what cannot be read."""

import os
import re

import pytest
from support.dbt import model, notes, translated, write_dbt

from rivet_dagster.dbt.files import read_mapping
from rivet_dagster.dbt.reading.project import read_dbt_project
from rivet_dagster.dbt.translation.project import translate
from rivet_dagster.project.text_file import TextError

VIEW = "select 1 as id"


def test_files_that_dbt_ignores(tmp_path):
    files = {
        ".dbtignore": "models/old/\n*.tmp.sql\n",
        "models/m.sql": VIEW,
        "models/old/o.sql": "{% broken",
        "models/t.tmp.sql": "{% broken",
        "models/#a.sql": "{% broken",
        "models/.hidden/h.sql": VIEW,
        "elsewhere/e.sql": VIEW,
    }
    root = write_dbt(tmp_path, files)
    (root / "models" / "linked").symlink_to(root / "elsewhere")
    (root / "models" / "f.sql").symlink_to(root / "elsewhere" / "e.sql")
    result = translate(read_dbt_project(root), root)
    assert [entry.name for entry in result.report.models] == ["h", "f", "m"]
    assert result.report.is_whole
    assert notes(result, "link")[0].name == "models/linked"


def test_a_pattern_that_is_none_is_told(tmp_path):
    result = translated(tmp_path, {".dbtignore": "models/old/\n!\n", "models/old/o.sql": VIEW})
    (problem,) = notes(result, "file")
    assert (problem.location.file, problem.location.line) == (".dbtignore", 2)
    assert "all files are read" in problem.reasons[0]
    assert [entry.name for entry in result.report.models] == ["o"]


def test_a_pipe_in_the_folder_is_told(tmp_path):
    files = {"models/m.sql": VIEW}
    root = write_dbt(tmp_path, files)
    for name in ("models/p.sql", "models/p.yml", "p.md", "seeds.csv", ".dbtignore"):
        os.mkfifo(root / name)
    (root / "seeds").mkdir()
    os.rename(root / "seeds.csv", root / "seeds" / "s.csv")
    result = translate(read_dbt_project(root), root)
    assert model(result, "m").status == "unchanged"
    for entry in (model(result, "p"), *notes(result, "properties"), *notes(result, "seed"), *notes(result, "file")):
        assert "it is no ordinary file" in entry.reasons[0]


def test_docs_blocks_of_docs_paths(tmp_path):
    files = {
        "models/m.sql": VIEW,
        "models/m.yml": "models: [{name: m, description: \"{{ doc('a') }}\"}]",
        "texts/a.md": "{% docs a %}From there.{% enddocs %}",
        "models/b.md": "{% docs a %}Not from here.{% enddocs %}",
    }
    result = translated(tmp_path, files, "name: shop\ndocs-paths: [texts]")
    assert "-- rivet:description: From there." in result.files["joints/m.sql"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested more than 100 deep"),
        ("a: " + "- " * 100_000, "block sequence entries are not allowed"),
        ("- " * 100_000, "nested more than 100 deep"),
        ("a: &a {b: *a}", "the alias *a stands within its own value"),
        ("a: 2024-13-01", "cannot be read as a date"),
        (f"a: {'1' * 5000}", "cannot be read as a number"),
        ("a: !!map [1]", "tagged as a mapping, but is none"),
        ("a: !!python/object:os.system {}", "could not determine a constructor"),
        ("a: b\nc: \x01", "a character that YAML does not have"),
    ],
)
def test_yaml_that_cannot_be_read(text, reason):
    with pytest.raises(TextError, match=re.escape(reason)):
        read_mapping(text)


def test_aliases_of_aliases_are_bounded():
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(TextError, match="aliases repeat more than"):
        read_mapping("\n".join(["l0: &l0 [x]", *levels]))
    assert read_mapping("\n".join(["l0: &l0 [x]", *levels[:3]]))["l3"][9][9][9] == ["x"]


def test_folders_of_models(tmp_path):
    """Folders within each other, beside the project, and that are not there."""
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "b.sql").write_text(VIEW)
    project = f"name: shop\nmodel-paths: [models, models/in, ./models/, ../beside, {tmp_path}/beside, nowhere]"
    files = {"models/in/m.sql": VIEW, "models/in/m.yml": "models: [{name: m, description: Text.}]"}
    result = translated(tmp_path / "dbt", files, project)
    assert [(entry.name, entry.status) for entry in result.report.models] == [("b", "unchanged"), ("m", "unchanged")]
    assert [entry.reasons[0] for entry in notes(result, "setting")] == ["names 'nowhere', which is no folder"]
    assert not notes(result, "properties")


def test_names_that_differ_in_case(tmp_path):
    reader = "select * from {{ ref('AA') }}, {{ ref('aa') }}"
    result = translated(tmp_path, {"models/AA.sql": VIEW, "models/aa.sql": VIEW, "models/x.sql": reader})
    assert [(entry.name, entry.joint) for entry in result.report.models][:2] == [("AA", "aa_2"), ("aa", "aa")]
    assert "{{ ref('aa_2') }}, {{ ref('aa') }}" in result.files["joints/x.sql"]

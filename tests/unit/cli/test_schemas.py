"""The JSON Schemas of a project's files: what the product takes they take, and what it refuses by name they refuse."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from rivet_dagster.cli.main import main
from rivet_dagster.cli.schema_command import SCHEMAS
from rivet_dagster.model.joint import KEYS, TYPES
from rivet_dagster.project.yaml_text import plain, read_yaml

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "example_repo"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def errors(name, document):
    return [f"{list(e.path)} {e.message[:200]}" for e in Draft7Validator(SCHEMAS[name]()).iter_errors(document)]


def kind_of(file):
    """Return which schema a file of the example is for."""
    if file.name in ("rivet.yaml", "profiles.yaml"):
        return file.stem
    folder = file.relative_to(EXAMPLE).parts[0]
    return "joint" if folder in ("sources", "joints", "sinks") else None


def files_of_the_example():
    return [file for file in sorted(EXAMPLE.rglob("*.yaml")) if ".rivet" not in file.parts and kind_of(file)]


def documented():
    """Yield the blocks of YAML in the docs that are whole files, as their first line says."""
    for page in PAGES:
        for block in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL):
            first = re.match(r"# ((?:sources|joints|sinks|tests)/\S+|rivet|profiles)\.yaml\n", block)
            plugin = page.name == "catalogs.md" and "type: arrow_" in block  # its own, which is not installed
            if first and "..." not in block and not plugin:
                kind = "test" if first[1].startswith("tests/") else "joint"
                name = first[1] if first[1] in SCHEMAS else kind
                yield pytest.param(name, block, id=f"{page.name}: {first[1]}")


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_is_a_schema_and_is_printed(name, capsys):
    Draft7Validator.check_schema(SCHEMAS[name]())
    assert main(["schema", name]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMAS[name]()


@pytest.mark.parametrize("file", files_of_the_example(), ids=lambda file: str(file.relative_to(EXAMPLE)))
def test_the_files_of_the_example_are_right(file):
    assert errors(kind_of(file), plain(read_yaml(file.read_text()))) == []


@pytest.mark.parametrize(("name", "text"), list(documented()))
def test_the_files_of_the_docs_are_right(name, text):
    document = plain(read_yaml(text))
    if name == "rivet":  # some blocks show what a page is about, and no more
        document = {"profiles": "p", "sources": "s", "joints": "j", "sinks": "s"} | document
    elif name == "profiles":
        document = {profile: {"engines": [], **declared} for profile, declared in document.items()}
    assert errors(name, document) == []


JOINT = {"type": "sink", "catalog": "lake", "table": "t", "upstream": ["a"]}


@pytest.mark.parametrize("own", [{"type": "sql", "sql": "SELECT 1"}, {"type": "python", "function": "a:b"}])
def test_joints_may_be_published(own):
    table = {"catalog": "lake", "table": "t", "write_strategy": "append", "options": {"compression": "zstd"}}
    assert errors("joint", own | table) == []


@pytest.mark.parametrize(
    ("name", "document", "words"),
    [
        ("joint", {**JOINT, "tabel": "t"}, "'tabel'"),
        ("joint", {"type": "sink", "table": "t"}, "'catalog' is a required property"),
        ("joint", {**JOINT, "sql": "SELECT 1"}, "does not allow 'SELECT 1'"),
        ("joint", {"type": "snk"}, "'snk' is not one of"),
        ("joint", {**JOINT, "write_strategy": "mrge"}, "mrge"),
        ("joint", {**JOINT, "quality": {"audits": [{"type": "not_nul", "columns": ["id"]}]}}, "not_nul"),
        (
            "joint",
            {**JOINT, "quality": {"audits": [{"type": "unique", "columns": ["id"], "min": 1}]}},
            "does not allow 1",
        ),
        ("joint", {**JOINT, "options": {"retries": -1}}, "-1 is less than the minimum"),
        ("rivet", {"profiles": "p", "sources": "s", "joints": "j", "snks": "s"}, "snks"),
        (
            "rivet",
            {"profiles": "p", "sources": "s", "joints": "j", "sinks": "s", "defaults": {"name": "x"}},
            "defaults",
        ),
        ("profiles", {"default": {"engines": [{"name": "s", "type": "spark"}]}}, "spark"),
        ("profiles", {"default": {"catalogs": {"a": {"path": "x"}}, "engines": []}}, "'type' is a required property"),
        ("test", {"target": "a", "expectd": {}}, "expectd"),
        ("test", {"target": "a", "compare": "sorted"}, "sorted"),
    ],
)
def test_what_is_misspelt_is_marked(name, document, words):
    found = errors(name, document)
    assert any(words in error for error in found), found


def test_a_new_project_names_its_schemas(tmp_path):
    assert main(["init", str(tmp_path), "--example"]) == 0
    settings = json.loads((tmp_path / ".vscode" / "settings.json").read_text())["yaml.schemas"]
    assert all((tmp_path / file).is_file() for file in settings)
    for file in tmp_path.rglob("*.yaml"):
        first, _, rest = file.read_text().partition("\n")
        schema = file.parent / first.removeprefix("# yaml-language-server: $schema=")
        validator = Draft7Validator(json.loads(schema.read_text()))
        assert not list(validator.iter_errors(plain(read_yaml(rest)))), file


def test_the_page_of_joints_has_every_key_with_its_types():
    page = (ROOT / "docs/joints.md").read_text().partition("## Keys")[2]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \|", page, re.MULTILINE)
    documented = {key: types for keys, types in rows for key in re.findall(r"`(\w+)`", keys)}
    assert documented.keys() == KEYS.keys()
    for name, key in KEYS.items():
        if name not in ("upstream", "write_strategy"):  # refused on a source by its own error; of what is published
            assert documented[name] == ("all" if key.types == TYPES else ", ".join(key.types))

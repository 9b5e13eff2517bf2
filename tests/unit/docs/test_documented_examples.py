"""The examples of README and docs: files of projects are read and compiled, commands are those of the program."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import dedent

import click
import pytest
import yaml
from support.commands import COMMANDS

from rivet_dagster.cli.main import program
from rivet_dagster.errors import RivetError
from rivet_dagster.loading import compile_directory
from rivet_dagster.project.yaml_text import plain, read_yaml

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

MANIFEST = {"profiles": "profiles.yaml", "sources": "sources", "joints": "joints", "sinks": "sinks"}
CATALOGS = {name: {"type": "filesystem", "path": name} for name in ("raw", "warehouse", "lake")}
ENGINES = [{"name": "spark", "type": "pyspark", "catalogs": list(CATALOGS), "master": "local[*]"}]
"""What is added to a section that shows a part of a project."""

COMPLETE = {"README.md", "getting-started.md", "coming-from-notebooks.md"}
"""Pages with a whole project in one of their sections."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and where it begins."""

    page: Path
    section: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of a project's file, which stands in a comment on the first line."""
        folders = "sources|joints|sinks|macros|quality"
        named = re.match(rf"(?:#|--) ((?:rivet|profiles|(?:{folders})/[\w/]+)\.(?:yaml|sql|py))\n", self.text)
        return named[1] if named else None

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks() -> Iterator[Block]:
    for page in PAGES:
        text, section = page.read_text(), ""
        for found in re.finditer(r"^## ([^\n]*)$|^( *)```(\S*)\n(.*?)^\2```$", text, re.MULTILINE | re.DOTALL):
            if found[1] is not None:
                section = found[1]
            else:
                line = text.count("\n", 0, found.start()) + 1
                yield Block(page, section, line, found[3], dedent(found[4]))


BLOCKS = list(blocks())


def of(*languages: str) -> list:
    return [pytest.param(block, id=str(block)) for block in BLOCKS if block.language in languages]


@pytest.mark.parametrize("block", of("yaml"))
def test_yaml_is_read(block):
    for document in re.split(r"^---$", block.text, flags=re.MULTILINE):
        read_yaml(document)


@pytest.mark.parametrize("block", of("json", "toml"))
def test_json_and_toml_are_read(block):
    {"json": json.loads, "toml": tomllib.loads}[block.language](block.text)


@pytest.mark.parametrize("block", of("python"))
def test_python_is_parsed(block):
    compile(block.text, str(block), "exec", dont_inherit=True)


def completed(profile: dict) -> dict:
    return {"engines": ENGINES, **profile, "catalogs": CATALOGS | profile.get("catalogs", {})}


def sections() -> list:
    """Return the blocks with names of files, by page and section; plugins of catalogs.md are not installed here."""
    found: dict[tuple[str, str], list[Block]] = {}
    for block in BLOCKS:
        if block.file and block.page.name != "catalogs.md":
            found.setdefault((block.page.name, block.section), []).append(block)
    return [pytest.param(group, id=f"{page}: {section}") for (page, section), group in found.items()]


@pytest.mark.parametrize("group", sections())
def test_the_files_of_a_section_are_a_project(tmp_path, group):
    """It compiles; a part of a project may read joints that the section does not show (RVT-302)."""
    files = {block.file: block.text for block in group}
    profiles = plain(read_yaml(files.get("profiles.yaml", "{}"))) or {"default": {}}
    manifest = plain(read_yaml(files.get("rivet.yaml", "{}")))
    whole = manifest.keys() >= MANIFEST.keys() and all("engines" in profile for profile in profiles.values())
    if not whole:
        files["rivet.yaml"] = yaml.safe_dump(MANIFEST | manifest)
        files["profiles.yaml"] = yaml.safe_dump({name: completed(profile) for name, profile in profiles.items()})
    for folder in ("sources", "joints", "joints/marts", "sinks", "data"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", files["profiles.yaml"]), "value")
    plan = compile_directory(tmp_path, next(iter(profiles)), environ=environ)
    wrong = [error for error in plan.errors if whole or error.code != "RVT-302"]
    assert not wrong, "\n".join(map(str, wrong))


def test_the_pages_with_a_whole_project_are_found():
    groups = [parameter.values[0] for parameter in sections()]
    pages = {
        group[0].page.name for group in groups if {"rivet.yaml", "profiles.yaml"} <= {block.file for block in group}
    }
    assert pages >= COMPLETE


def calls(text: str) -> Iterator[str]:
    """Yield the calls of the program in a line of a shell; one that only describes its arguments is none."""
    words = shlex.shlex(text, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    for between, part in groupby(words, lambda word: set(word) <= set("();<>|&")):
        call = list(part)
        if not between and call[0] == "rivet-dagster" and not any(word.startswith("[") for word in call):
            yield shlex.join(call)


def commands() -> list:
    """Return the calls on lines of blocks, which are whole, and those in the text, which may name an option alone."""
    found: dict[tuple[str, bool], str] = {}
    for block in BLOCKS:
        for line in block.text.splitlines():
            if (shell := line.removeprefix("- run: ").removeprefix("$ ")).startswith("rivet-dagster "):
                found |= {(call, True): str(block) for call in calls(shell)}
    for page in PAGES:
        text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for code in re.findall(r"`(rivet-dagster [^`]+)`", text):
            found |= {(call, False): page.name for call in calls(code.replace("\\|", "|"))}
    return [pytest.param(call, whole, id=f"{place} {call}") for (call, whole), place in found.items()]


@pytest.fixture
def parsed_only(monkeypatch):
    """Have commands parse their arguments and do nothing."""
    for command in COMMANDS.values():
        monkeypatch.setattr(command, "callback", lambda **_: None)


@pytest.mark.parametrize(("call", "whole"), commands())
@pytest.mark.usefixtures("parsed_only")
def test_commands_are_those_of_the_program(call, whole):
    incomplete = () if whole else (click.MissingParameter, click.BadOptionUsage, RivetError)
    with suppress(*incomplete):
        program.main(shlex.split(call)[1:], "rivet-dagster", standalone_mode=False)

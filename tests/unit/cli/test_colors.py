"""Colours of commands: on a terminal alone, and not where NO_COLOR or TERM=dumb is set."""

import sys

import pytest
from support.folders import ProjectFolder, source
from support.terminal import terminal

from rivet_dagster.cli.main import main

ESCAPE = "\x1b"


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("NO_COLOR", "RIVET_PROFILE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    files = {"sources/orders.yaml": source("orders.csv", "id BIGINT"), "joints/paid.sql": "SELECT id FROM orders"}
    return ProjectFolder(tmp_path / "shop", files).root


def shown(monkeypatch, *arguments: object) -> tuple[int, str]:
    """Return the exit code of a command whose output is a terminal's, and that output."""
    with terminal() as (stream, seen), monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stream)
        patch.setattr(sys, "stderr", stream)
        code = main([*map(str, arguments)])
    return code, seen.text.replace("\r\n", "\n")


def test_an_error_has_its_code_its_place_and_its_remedy_in_styles_of_their_own(root, monkeypatch, capsys):
    (root / "joints/paid.sql").write_text("-- rivet:egaer: true\nSELECT id FROM orders")
    code, text = shown(monkeypatch, "compile", "-p", root)
    assert code == main(["compile", "-p", str(root)]) == 1
    plain = capsys.readouterr().err
    assert "\x1b[1;31mRVT-203\x1b[0m \x1b[1mjoints/paid.sql:1\x1b[0m: joint paid: unknown key" in text
    assert "\x1b[2mRemove the key or correct its name.\x1b[0m" in text
    assert ESCAPE not in plain
    assert "RVT-203 joints/paid.sql:1: joint paid: unknown key" in plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(monkeypatch, "compile", "-p", root) == (1, plain)


@pytest.mark.parametrize("command", [("compile",), ("lineage", "paid"), ("catalog", "list")])
@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_plans_trees_and_tables_have_colours_on_a_terminal(root, monkeypatch, capsys, command, name, value):
    code, text = shown(monkeypatch, *command, "-p", root)
    assert (code, ESCAPE in text) == (0, True)
    monkeypatch.setenv(name, value)
    assert ESCAPE not in shown(monkeypatch, *command, "-p", root)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main([*command, "-p", str(root)]) == 0
    assert ESCAPE not in capsys.readouterr().out


def test_an_encoding_without_line_drawing_gets_ascii(root, monkeypatch):
    for command in (("compile",), ("lineage", "paid")):
        with terminal() as (stream, seen), monkeypatch.context() as patch:
            stream.reconfigure(encoding="ascii")
            patch.setattr(sys, "stdout", stream)
            assert main([*command, "-p", str(root)]) == 0
        assert seen.text.isascii()
        assert "paid" in seen.text


def test_a_difference_of_plans_has_the_colours_of_its_marks(root, monkeypatch, capsys):
    assert main(["compile", "-p", str(root), "--format", "json"]) == 0
    (root / "old.json").write_text(capsys.readouterr().out)
    (root / "joints/paid.sql").write_text("SELECT id + 1 AS id FROM orders")
    (root / "joints/more.sql").write_text("SELECT id FROM paid")
    code, text = shown(monkeypatch, "compile", "-p", root, "--diff", root / "old.json")
    assert (code, text) == (0, "\x1b[32m+ more\x1b[0m\n\x1b[33m~ paid  (its own logic)\x1b[0m\n")

"""The program as a whole: help with examples, wrong usage, options before and after the command, completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import click
import pytest
from support.folders import ProjectFolder, source

from rivet_dagster.cli.main import main, program

COMPLETE = "import sys; from rivet_dagster.cli.main import main; sys.exit(main())"
LOADED = (
    "import sys; from rivet_dagster.cli.main import main; main({arguments}); print('', *sys.modules, file=sys.stderr)"
)


@pytest.fixture
def shop(tmp_path):
    """A project of a source, two joints and a sink."""
    return ProjectFolder(
        tmp_path / "shop",
        {
            "data/orders.csv": "id,amount\n1,2\n",
            "sources/orders.yaml": source("orders.csv", "id BIGINT, amount BIGINT"),
            "joints/paid.sql": "SELECT id, amount * 2 AS net, count(*) OVER () AS n FROM orders",
            "joints/large.sql": "SELECT id, net AS total FROM paid WHERE net > 10",
            "sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: large\n"
            "write_strategy: {mode: merge, key_columns: [id]}\n",
        },
    )


def commands(group=program, path=()):
    """Yield all commands with their names as one types them."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name)


@pytest.mark.parametrize("path", list(commands()), ids=" ".join)
def test_each_help_has_an_example_that_calls_the_command(path, capsys):
    assert main([*path, "--help"]) == 0
    help_, _, example = capsys.readouterr().out.partition("\nExample:\n")
    assert help_.startswith(f"Usage: rivet-dagster {' '.join(path)} ")
    lines = example.splitlines()
    assert lines
    assert all(line.startswith("  rivet-dagster ") for line in lines)
    assert f"rivet-dagster {' '.join(path)}" in example


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "name a command: init, compile"),
        (("verions",), "there is no command 'verions'; did you mean 'versions'?"),
        (("spark", "strat"), "there is no command 'spark strat'; did you mean"),
        (("spark",), "name a command: start, stop, status"),
        (("compile", "--formt", "json"), "--format"),
        (("compile", "--format", "jsn"), "'visual', 'json', 'mermaid'"),
        (("versions", "publish", "out"), "Missing argument 'VERSION'"),
        (
            ("run", "--partition", "a", "--partition-range", "a...b"),
            "--partition-range is not allowed with --partition",
        ),
        (("completion", "tcsh"), "'bash', 'zsh', 'fish'"),
    ],
)
def test_wrong_usage_ends_with_10(arguments, words, capsys):
    assert main(list(arguments)) == 10
    out, err = capsys.readouterr()
    assert (out, words in err, "RVT-110" in err, "--help`" in err) == ("", True, True, True)


def test_wrong_usage_is_json_where_json_was_asked_for(capsys):
    assert main(["run", "--format", "json", "--nothing"]) == 10
    out, err = capsys.readouterr()
    (error,) = json.loads(out)["errors"]
    assert (error["code"], error["remediation"], err) == ("RVT-110", "See `rivet-dagster run --help`.", "")


def test_options_of_the_project_stand_before_or_after_the_command(shop, capsys):
    for arguments in (["-p", str(shop.root), "compile", "out"], ["compile", "out", "--project", str(shop.root)]):
        assert main([*arguments, "--profile", "default"]) == 0
        assert "writes  lake.out" in capsys.readouterr().out


def test_lineage_of_joints_and_columns(shop, capsys):
    def shown(*arguments):
        code = main(["lineage", *arguments, "-p", str(shop.root)])
        return code, capsys.readouterr().out.splitlines()

    assert shown("out") == (
        0,
        ["out  sink, lake.out", "└── large  sql", "    └── paid  sql", "        └── orders  source, raw.orders.csv"],
    )
    assert shown("out.TOTAL")[1] == [
        "out.total",
        "└── large.total",
        "    └── paid.net",
        "        └── orders.amount  source",
    ]
    assert shown("orders.amount", "--downstream")[1] == [
        "orders.amount",
        "└── paid.net",
        "    └── large.total",
        "        └── out.total",
    ]
    assert shown("paid.n")[1] == ["paid.n  from no column"]


@pytest.mark.parametrize(
    ("name", "words"), [("pad", "did you mean 'paid'?"), ("paid.nt", "no column 'nt'; did you mean"), ("x.y", "'x'")]
)
def test_lineage_of_what_there_is_not(shop, name, words, capsys):
    assert main(["lineage", name, "-p", str(shop.root)]) == 1
    assert words in capsys.readouterr().err


def test_a_dry_run_shows_what_would_run(shop, capsys):
    assert main(["run", "--dry-run", "-p", str(shop.root)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(
        "-- out: orders -> paid -> large -> out\n-- writes lake.out (merge)\nWITH paid AS (\nSELECT id, amount * 2"
    )
    assert main(["run", "+out", "--dry-run", "--format", "json", "-p", str(shop.root)]) == 0
    found = json.loads(capsys.readouterr().out)
    (group,) = found["groups"]
    assert (found["success"], group["name"], group["joints"]) == (True, "out", ["orders", "paid", "large", "out"])
    assert group["write"] == {"table": "lake.out", "mode": "merge"}
    assert group["sql"] in out
    assert (err, (shop.root / "lake").exists()) == ("", False)
    assert main(["run", "nothing", "--dry-run", "-p", str(shop.root)]) == 1
    assert main(["run", "orders", "--dry-run", "-p", str(shop.root)]) == 0


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--partition", "2026-01-01"), 10, "none of these joints has partitions"),
        (("--environment", "No Name"), 10, "RVT-129"),
        (("--select", "key:("), 10, "RVT-115"),
    ],
)
def test_a_dry_run_refuses_what_the_run_would(shop, options, code, words, capsys):
    assert main(["run", "--dry-run", *options, "-p", str(shop.root)]) == code
    out, err = capsys.readouterr()
    assert (out, words in err) == ("", True), err


def test_a_dry_run_shows_a_full_refresh(shop, capsys):
    new = "SELECT id, net AS total FROM paid\n{% if is_incremental() %} WHERE id > 7 {% endif %}"
    shop.write({"joints/large.sql": new})
    assert main(["run", "--dry-run", "-p", str(shop.root)]) == 0
    assert "WHERE id > 7" in capsys.readouterr().out
    assert main(["run", "--dry-run", "--full-refresh", "-p", str(shop.root)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("-- out: orders -> paid -> large -> out\n-- writes lake.out (replace, a full refresh)\nWITH")
    assert "WHERE id > 7" not in out
    assert main(["run", "--dry-run", "--full-refresh", "--format", "json", "-p", str(shop.root)]) == 0
    (group,) = json.loads(capsys.readouterr().out)["groups"]
    assert group["write"] == {"table": "lake.out", "mode": "replace", "full_refresh": True}
    assert (group["sql"] in out, "sql_incremental" in group) == (True, False)


def test_a_dry_run_names_its_environment(shop, capsys):
    assert main(["run", "--dry-run", "--environment", "pr-7", "-p", str(shop.root)]) == 0
    assert "-- writes lake.out (merge), in the environment pr-7" in capsys.readouterr().out.splitlines()
    assert not (shop.root / "lake").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_of_completion_asks_the_program(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert f"_RIVET_DAGSTER_COMPLETE={shell}_complete" in script.replace("env ", "")
    assert "rivet-dagster" in script


def completed(line, cwd):
    """Return what bash would be given for the last word of a line."""
    words = line.split(" ")
    asked = {"_RIVET_DAGSTER_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    command = [sys.executable, "-c", COMPLETE]
    done = subprocess.run(command, env={**os.environ, **asked}, cwd=cwd, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [entry.partition(",")[2] for entry in done.stdout.split()]


@pytest.mark.slow
def test_commands_options_and_joints_are_completed(shop, tmp_path):
    assert completed("rivet-dagster com", tmp_path) == ["compile", "completion"]
    assert completed("rivet-dagster compile --for", tmp_path) == ["--format"]
    assert completed("rivet-dagster compile --format m", tmp_path) == ["mermaid"]
    assert completed("rivet-dagster run p", shop.root) == ["paid"]
    assert completed("rivet-dagster run +o", shop.root) == ["+orders", "+out"]
    assert completed(f"rivet-dagster -p {shop.root} lineage l", tmp_path) == ["large"]
    assert completed("rivet-dagster compile o", tmp_path) == []  # no project


def test_help_and_completion_load_neither_dagster_nor_pyspark_nor_the_compiler():
    for arguments in (["--help"], ["completion", "bash"]):
        code = LOADED.format(arguments=arguments)
        loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr.split()
        assert not {"dagster", "pyspark", "sqlglot", "yaml", "rich"} & set(loaded)


def test_compile_loads_the_separation_of_row_errors_only_where_rows_are_quarantined(shop):
    def loaded() -> set[str]:
        code = LOADED.format(arguments=["-p", str(shop.root), "compile"])
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return set(done.stderr.split())

    assert "rivet_dagster.sql.row_errors" not in loaded()
    shop.write({"sinks/out.yaml": "type: sink\ncatalog: lake\ntable: out\nupstream: large\non_error: quarantine\n"})
    assert "rivet_dagster.sql.row_errors" in loaded()

"""The completion scripts in the shells that they are for, which ask the installed program."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from support.folders import PROFILES
from support.forked import SCRIPT
from support.maven import missing
from support.small_shop import small_shop

from rivet_dagster.cli.main import main

pytestmark = pytest.mark.slow


@pytest.fixture
def shell(request, tmp_path, monkeypatch, capsys) -> str:
    """Return the path of a shell that has read nobody's files; its completion script is in ``tmp_path``."""
    name = request.node.name.split("_")[2]
    found = shutil.which(name)
    if found is None:
        missing(f"{name} is not installed (Debian: apt-get install {name})")
    assert main(["completion", name]) == 0
    (tmp_path / f"script.{name}").write_text(capsys.readouterr().out)
    for variable in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR", "DAGSTER_HOME", "RIVET_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{SCRIPT.parent}:{os.environ['PATH']}")
    small_shop(tmp_path / "shop", {"profiles.yaml": PROFILES})
    return found


def answers(command: list[str], folder: Path) -> list[str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, timeout=120)
    assert done.stderr == ""
    return done.stdout.split()


def test_in_bash_commands_options_and_joints_are_completed(shell, tmp_path):
    program = """
        source ../script.bash
        complete -p rivet-dagster > /dev/null || exit 1
        function asked { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _rivet_dagster_completion rivet-dagster "${!#}"; echo "${COMPREPLY[@]}"; }
        asked rivet-dagster compi
        asked rivet-dagster watermark r
        asked rivet-dagster show by_
    """
    command = [shell, "--noprofile", "--norc", "-c", program]
    assert answers(command, tmp_path / "shop") == ["compile", "reset", "by_customer"]


def test_in_fish_commands_options_and_joints_are_completed(shell, tmp_path):
    place = tmp_path / ".config/fish/completions/rivet-dagster.fish"
    place.parent.mkdir(parents=True)
    (tmp_path / "script.fish").rename(place)
    lines = ("rivet-dagster compi", "rivet-dagster show --form", "rivet-dagster show by_")
    program = "; ".join(f"complete -C '{line}' | cut -f 1" for line in lines)
    assert answers([shell, "-c", program], tmp_path / "shop") == ["compile", "--format", "by_customer"]


def test_in_zsh_commands_and_joints_are_completed(shell, tmp_path):
    place = tmp_path / ".zfunc/_rivet-dagster"
    place.parent.mkdir()
    (tmp_path / "script.zsh").rename(place)
    (tmp_path / ".zshrc").write_text("fpath=(~/.zfunc $fpath)\nautoload -U compinit\ncompinit -u -D\nPS1=ready:\n")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path / "shop")
        os.execvpe(shell, [shell, "-i"], {**os.environ, "TERM": "dumb"})
    try:
        _until(terminal, "ready:")
        os.write(terminal, b"rivet-dagster compi\t")
        _until(terminal, "compile ")
        os.write(terminal, b"\x15rivet-dagster show by_\t")  # after a new line
        _until(terminal, "by_customer ")
    finally:
        os.close(terminal)
        os.waitpid(pid, 0)


def _until(terminal: int, text: str) -> None:
    """Read what the shell shows until a text appears."""
    shown, deadline = "", time.monotonic() + 60
    while text not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 4096).decode(errors="replace")

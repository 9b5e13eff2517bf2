"""Completion in shells: the script for each of them, and the answer to what such a script asks."""

from __future__ import annotations

import os
from collections.abc import Mapping

import click
from click.shell_completion import get_completion_class, shell_complete

PROGRAM = "rivet-dagster"
_ASKED = "_RIVET_DAGSTER_COMPLETE"

_FIRST_CALL, _EACH_CALL = "== loadautofunc ]]", "== (loadautofunc|shfunc) ]]"
"""How click's script for zsh finds out that a file of $fpath is called, which is true of the first call alone."""


def completion_script(program: click.Command, shell: str) -> str:
    """Return the script that registers completion in a shell: bash, zsh or fish."""
    found = get_completion_class(shell)
    assert found is not None, "the command's argument is one of the known shells"
    completion = found(program, {}, PROGRAM, _ASKED)
    # `source()` of bash would start the bash of this machine, which need not be that of the reader.
    script = completion.source_template % completion.source_vars()
    return script.replace(_FIRST_CALL, _EACH_CALL) if shell == "zsh" else script


def answer_shell(program: click.Command, environ: Mapping[str, str] = os.environ) -> bool:
    """Print the completions that a script asks for by the environment; return whether one does."""
    asked = environ.get(_ASKED)
    return asked is not None and shell_complete(program, {}, PROGRAM, _ASKED, asked) == 0

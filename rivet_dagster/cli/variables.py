"""The variables of templates that a command was given by ``--var``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

VARIABLES = "rivet_dagster.variables"
"""Their key in the ``meta`` of the command's context."""


def command_variables() -> Mapping[str, Any]:
    """Return the variables that the command at hand was given; none outside of a command."""
    context = click.get_current_context(silent=True)
    variables: Mapping[str, Any] = {} if context is None else context.meta.get(VARIABLES, {})
    return variables

"""Texts of a dbt project whose templates are variables of the environment alone, as texts with ``${NAME}``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jinja2 import nodes

from rivet_dagster.dbt.template import DbtTemplateError, constant, read_template

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONVERSIONS = frozenset(("as_text", "as_number", "as_native", "as_bool", "int", "string"))
"""Filters that change the type of a value, and not its text."""


def reference(name: str) -> str:
    """Return ``${NAME}`` for a variable of the environment. Raise ValueError for a name that it cannot hold.

    >>> reference("BUCKET")
    '${BUCKET}'
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"the environment variable '{name}' has no name that ${{...}} could hold")
    return f"${{{name}}}"


def escape(text: str) -> str:
    """Return a text in which ``${`` is no reference.

    >>> escape("a${b}")
    'a$${b}'
    """
    return text.replace("${", "$${")


def refer_to_environment(text: str) -> str | None:
    """Return the value of a text whose only templates are variables of the environment; None for any other.

    >>> refer_to_environment("s3://{{ env_var('BUCKET') }}/${x}")
    's3://${BUCKET}/$${x}'
    """
    try:
        return "".join(_part(node) for node in _parts(text))
    except (DbtTemplateError, ValueError):
        return None


def convert_setting(text: str) -> str | None:
    """Return the text of a setting as ``refer_to_environment`` does, with defaults in place of variables that have one.

    >>> convert_setting("{{ env_var('DB_PORT') | int }}"), convert_setting("{{ env_var('DB_HOST', 'db') }}.local")
    ('${DB_PORT}', 'db.local')
    """
    try:
        return "".join(_part(_unconverted(node), True) for node in _parts(text))
    except (DbtTemplateError, ValueError):
        return None


def name_only_variable(text: str) -> str | None:
    """Return the variable of the environment that a text is, with a default or without; None for any other text.

    >>> name_only_variable("{{ env_var('DB_PASSWORD', 'x') }}"), name_only_variable("a{{ env_var('B') }}")
    ('DB_PASSWORD', None)
    """
    try:
        node, *others = map(_unconverted, _parts(text.strip()))
        if others or not isinstance(node, nodes.Call):
            return None
        name, *_ = _arguments(node)
        return reference(name)[2:-1]
    except (DbtTemplateError, ValueError):
        return None


def _parts(text: str) -> Iterator[nodes.Node | None]:
    for node in read_template(text).tree.body:
        yield from node.nodes if isinstance(node, nodes.Output) else [None]


def _unconverted(node: nodes.Node | None) -> nodes.Node | None:
    while isinstance(node, nodes.Filter) and node.name in _CONVERSIONS and not node.args:
        node = node.node
    return node


def _part(node: nodes.Node | None, with_defaults: bool = False) -> str:
    if isinstance(node, nodes.TemplateData):
        return escape(node.data)
    if isinstance(node, nodes.Call):
        name, *default = _arguments(node)
        if not default:
            return reference(name)
        if with_defaults:
            return escape(default[0])
    raise ValueError("is computed")


def _arguments(call: nodes.Call) -> list[str]:
    """Return the name, and the default, that a call of ``env_var`` has. Raise ValueError for any other call."""
    if not isinstance(call.node, nodes.Name) or call.node.name != "env_var" or call.kwargs or not call.args:
        raise ValueError("is computed")
    return [str(constant(arg)) for arg in call.args[:2]]

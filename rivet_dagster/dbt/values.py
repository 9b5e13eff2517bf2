"""Values of YAML files that are templates, as dbt renders them: without macros, and here without the environment."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, Undefined, nodes
from jinja2.nativetypes import NativeEnvironment, NativeTemplate
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

_MISSING = object()
_FAILURES = (
    TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    SyntaxError,
    TypeError,
    ValueError,
)
"""Errors that a template can raise; a SyntaxError, where Python cannot compile what Jinja made of it."""
_LARGEST = 10_000
"""The largest factor or exponent: a value in YAML needs none that is larger, and a template shall not take forever."""


class UnknownValueError(ValueError):
    """A template whose value is not known when the project is read."""


class _Native(str):
    """A text that a filter (``as_bool``, ``as_number``, ``as_native``) wants to be read as a value of Python."""


def _concat(values: Iterable[Any]) -> Any:
    """Return the value of a template's one expression, or the text of several; as in dbt a text remains one."""
    found = list(values)
    if len(found) != 1:
        return "".join(str(value) for value in found)
    value = found[0]
    if isinstance(value, Undefined):
        str(value)  # raises, since it is a strict one
    if not isinstance(value, _Native):
        return value
    try:
        return literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return str(value)


def _native(value: Any) -> Any:
    return _Native(value) if isinstance(value, str) else value


class _Environment(SandboxedEnvironment, NativeEnvironment):
    """Jinja's sandbox, in which a template of one expression has that expression's value."""

    intercepted_binops = frozenset(("**", "*"))
    concat = staticmethod(_concat)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        numbers = [abs(value) for value in (left, right) if isinstance(value, int | float)]
        if (len(numbers) < 2 or operator == "**") and max(numbers, default=0) > _LARGEST:
            raise UnknownValueError(f"a factor or an exponent of more than {_LARGEST} is not computed")
        return super().call_binop(context, operator, left, right)


class _NativeTemplate(NativeTemplate):
    environment_class = _Environment


def _environment() -> _Environment:
    environment = _Environment(undefined=StrictUndefined, extensions=["jinja2.ext.do"])
    environment.template_class = _NativeTemplate
    environment.filters |= dict.fromkeys(("as_bool", "as_number", "as_native"), _native) | {"as_text": str}
    environment.globals.pop("lipsum", None)
    return environment


_ENVIRONMENT = _environment()


def value_context(variable: Callable[[str], Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a value can name: variables, the target, and environment variables that have a default.

    ``variable`` returns the value of one; it raises KeyError.
    """

    def var(name: str, default: Any = _MISSING) -> Any:
        try:
            value = variable(name)
        except KeyError:
            if default is _MISSING:
                raise UnknownValueError(f"the variable '{name}' has no value") from None
            return default
        return render_value(value, context) if isinstance(value, str) else value

    def env_var(name: str, default: Any = _MISSING) -> Any:
        if default is _MISSING:
            raise UnknownValueError(f"it depends on the environment variable {name}, which is not read")
        return default

    context = {"var": var, "env_var": env_var, "target": dict(target), "true": True, "false": False, "none": None}
    return context


def project_file_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a value of dbt_project.yml can name: dbt knows none of its variables there, only their defaults.

    One without a default has the value that the project declares, as if it were given on dbt's command line.
    """
    declared = context["var"]

    def var(name: str, default: Any = _MISSING) -> Any:
        return declared(name) if default is _MISSING else default

    return {**context, "var": var}


def render_value(value: Any, context: Mapping[str, Any]) -> Any:
    """Return a value with the templates in its texts rendered. Raise UnknownValueError.

    >>> render_value({"tags": ["a", "{{ var('x') }}"]}, value_context({"x": "b"}.__getitem__, {}))
    {'tags': ['a', 'b']}
    """
    if isinstance(value, str):
        return _rendered(value, context) if "{{" in value or "{%" in value else value
    if isinstance(value, Mapping):
        return {key: render_value(item, context) for key, item in value.items()}
    return [render_value(item, context) for item in value] if isinstance(value, list) else value


def _rendered(text: str, context: Mapping[str, Any]) -> Any:
    try:
        return _ENVIRONMENT.from_string(text).render(dict(context))
    except UnknownValueError:
        raise
    except _FAILURES as error:
        raise UnknownValueError(f"'{text}' cannot be rendered: {error}") from None


def evaluate_statements(statements: list[nodes.Node], context: Mapping[str, Any]) -> None:
    """Run statements of a template for what they call in ``context``. Raise UnknownValueError."""
    tree = nodes.Template(statements, lineno=1)
    tree.set_environment(_ENVIRONMENT)
    try:
        _ENVIRONMENT.from_string(tree).render(dict(context))
    except UnknownValueError:
        raise
    except _FAILURES as error:
        raise UnknownValueError(f"it cannot be evaluated: {error}") from None

"""Values of YAML files that are templates, as dbt renders them: without macros, and here without the environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, nodes
from jinja2.nativetypes import NativeEnvironment
from jinja2.sandbox import SandboxedEnvironment

from rivet_dagster.dbt.template import Template

_MISSING = object()


class UnknownValueError(ValueError):
    """A template whose value is not known when the project is read."""


class _Environment(SandboxedEnvironment, NativeEnvironment):
    """Jinja's sandbox, in which a template of one expression has that expression's value."""


def _environment() -> _Environment:
    environment = _Environment(undefined=StrictUndefined, extensions=["jinja2.ext.do"])
    environment.filters |= {name: lambda value: value for name in ("as_bool", "as_number", "as_native", "as_text")}
    environment.globals.pop("lipsum", None)
    return environment


_ENVIRONMENT = _environment()


def value_context(variable: Callable[[str], Any], target: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a value can name: variables, the target, and environment variables that have a default.

    ``variable`` returns the value of one; it raises KeyError.
    """

    def var(name: str, default: Any = _MISSING) -> Any:
        try:
            return variable(name)
        except KeyError:
            if default is _MISSING:
                raise UnknownValueError(f"the variable '{name}' has no value") from None
            return default

    def env_var(name: str, default: Any = _MISSING) -> Any:
        if default is _MISSING:
            raise UnknownValueError(f"it depends on the environment variable {name}, which is not read")
        return default

    return {"var": var, "env_var": env_var, "target": dict(target), "true": True, "false": False, "none": None}


def rendered(value: Any, context: Mapping[str, Any]) -> Any:
    """Return a value with the templates in its texts rendered. Raise UnknownValueError.

    >>> rendered({"tags": ["a", "{{ var('x') }}"]}, value_context({"x": "b"}.__getitem__, {}))
    {'tags': ['a', 'b']}
    """
    if isinstance(value, str):
        return _rendered(value, context) if "{{" in value or "{%" in value else value
    if isinstance(value, Mapping):
        return {key: rendered(item, context) for key, item in value.items()}
    return [rendered(item, context) for item in value] if isinstance(value, list) else value


def _rendered(text: str, context: Mapping[str, Any]) -> Any:
    try:
        return _ENVIRONMENT.from_string(text).render(dict(context))
    except UnknownValueError:
        raise
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise UnknownValueError(f"'{text}' cannot be rendered: {error}") from None


def called_with(template: Template, call: nodes.Call, context: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call in a template, whose ``set`` before it counts. Raise UnknownValueError."""
    given: list[tuple[list[Any], dict[str, Any]]] = []

    def capture(*args: Any, **kwargs: Any) -> str:
        given.append((list(args), kwargs))
        return ""

    before = [node for node in template.tree.body if isinstance(node, nodes.Assign) and node.lineno < call.lineno]
    caller = nodes.Name("__capture", "load", lineno=1)
    captured = nodes.Call(caller, call.args, call.kwargs, call.dyn_args, call.dyn_kwargs, lineno=1)
    tree = nodes.Template([*before, nodes.ExprStmt(captured, lineno=1)], lineno=1)
    tree.set_environment(_ENVIRONMENT)
    try:
        _ENVIRONMENT.from_string(tree).render({**context, "__capture": capture})
    except UnknownValueError:
        raise
    except (TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        start, end = template.span(call)
        raise UnknownValueError(f"'{template.text[start:end]}' cannot be evaluated: {error}") from None
    return given[0]

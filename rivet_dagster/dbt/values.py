"""Values of YAML files that are templates, as dbt renders them: without macros.

A text whose templates are variables of the environment alone is one with ``${NAME}`` in their place, where a run reads
it. Anywhere else the variables have the values of the process that imports.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from jinja2 import StrictUndefined, TemplateError, Undefined, nodes
from jinja2.nativetypes import NativeEnvironment, NativeTemplate
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment

from rivet_dagster.dbt.declared import DbtLocation
from rivet_dagster.dbt.template import DbtTemplateError, constant, read_template
from rivet_dagster.secrets.redaction import names_secret, secrets_in

_MISSING = object()
_ITSELF = " environment"
"""The key of a context for the environment itself, which no template can name."""
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
    items = list(values)
    if len(items) != 1:
        return "".join(str(value) for value in items)
    value = items[0]
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


class ImportEnvironment:
    """The variables of the environment of the process that imports; without ``environ`` none is read.

    ``taken`` are those whose values the new project has, with where each was asked for first; ``location`` is where
    the next one is asked for.

    >>> environment = ImportEnvironment({"SCHEMA": "raw", "TOKEN": "x"})
    >>> environment.read("SCHEMA"), list(environment.taken)
    ('raw', ['SCHEMA'])
    >>> environment.read("TOKEN")
    Traceback (most recent call last):
        ...
    rivet_dagster.dbt.values.UnknownValueError: the environment variable TOKEN is a secret, whose value is not copied
    """

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        self._environ = environ
        self.taken: dict[str, DbtLocation | None] = {}
        self.location: DbtLocation | None = None

    def read(self, name: str, default: Any = _MISSING) -> Any:
        """Return the value of a variable, else the default. Raise UnknownValueError where there is neither."""
        is_secret = self._is_secret(name)
        if self._environ is not None and name in self._environ and not is_secret:
            self.taken.setdefault(name, self.location)
            return self._environ[name]
        if default is not _MISSING:
            return default
        if self._environ is None:
            raise UnknownValueError(f"it depends on the environment variable {name}, which is not read")
        if is_secret:
            raise UnknownValueError(f"the environment variable {name} is a secret, whose value is not copied")
        raise UnknownValueError(f"the environment variable {name} is not set: set it for the import")

    def knows(self, names: Iterable[str]) -> bool:
        """Return whether all variables have a value, and none is a secret."""
        return self._environ is not None and all(name in self._environ and not self._is_secret(name) for name in names)

    def _is_secret(self, name: str) -> bool:
        return names_secret(name) or bool(secrets_in((self._environ or {}).get(name, "")))

    def expand(self, text: str, location: DbtLocation | None) -> str:
        """Return a text with the values of the variables to which it refers. Raise UnknownValueError.

        >>> ImportEnvironment({"ENV": "dev"}).expand("${ENV}_raw $${x}", DbtLocation("models/a.sql"))
        'dev_raw ${x}'
        """
        self.location = location
        return _REFERENCE.sub(lambda match: str(self.read(match[1])) if match[1] else "${", text)


NOT_READ = ImportEnvironment()


def value_context(
    variable: Callable[[str], Any], target: Mapping[str, Any], environment: ImportEnvironment = NOT_READ
) -> dict[str, Any]:
    """Return what a value can name: variables, the target, and variables of the environment.

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
        return environment.read(str(name), default)

    context = {"var": var, "env_var": env_var, "target": dict(target), "true": True, "false": False, "none": None}
    context[_ITSELF] = environment
    return context


def without_environment(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return a context that reads no variable of the environment."""
    return {**context, "env_var": NOT_READ.read, _ITSELF: NOT_READ}


def project_file_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a value of dbt_project.yml can name: dbt knows none of its variables there, only their defaults.

    One without a default has the value that the project declares, as if it were given on dbt's command line.
    """
    declared = context["var"]

    def var(name: str, default: Any = _MISSING) -> Any:
        return declared(name) if default is _MISSING else default

    return {**context, "var": var}


def render_value(value: Any, context: Mapping[str, Any], location: DbtLocation | None = None) -> Any:
    """Return a value with the templates in its texts rendered. Raise UnknownValueError.

    ``location`` is where the value is declared.

    >>> render_value({"tags": ["a", "{{ var('x') }}"]}, value_context({"x": "b"}.__getitem__, {}))
    {'tags': ['a', 'b']}
    """
    if location is not None:
        context[_ITSELF].location = location
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


def evaluate_statements(
    statements: list[nodes.Node], context: Mapping[str, Any], location: DbtLocation | None = None
) -> None:
    """Run statements of a template for what they call in ``context``. Raise UnknownValueError."""
    if location is not None:
        context[_ITSELF].location = location
    tree = nodes.Template(statements, lineno=1)
    tree.set_environment(_ENVIRONMENT)
    try:
        _ENVIRONMENT.from_string(tree).render(dict(context))
    except UnknownValueError:
        raise
    except _FAILURES as error:
        raise UnknownValueError(f"it cannot be evaluated: {error}") from None


_REFERENCE = re.compile(r"\$\$\{|\$\{(\w+)\}")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CONVERSIONS = frozenset(("as_text", "as_number", "as_native", "as_bool", "int", "string"))
"""Filters that change the type of a value, and not its text."""


def reference(name: str) -> str:
    """Return ``${NAME}`` for a variable of the environment. Raise ValueError for a name that it cannot hold.

    >>> reference("BUCKET")
    '${BUCKET}'
    """
    if not _VARIABLE_NAME.fullmatch(name):
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

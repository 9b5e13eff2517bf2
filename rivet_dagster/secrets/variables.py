"""References to environment variables, ``${NAME}``; ``$${`` is a literal ``${``.

The compiled plan holds them unexpanded; only the process of a run expands them, and redacts the values in its texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rivet_dagster.secrets.names import names_secret
from rivet_dagster.secrets.options import leaves, remember_literals
from rivet_dagster.secrets.redaction import remember, secrets_in

_PLACES = ("path", "dir", "warehouse", "jars")
"""The suffixes of options whose variables are part of a path, which must stay readable in messages."""

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


class UnsetVariablesError(LookupError):
    """Variables that a text refers to and that are not set; the message names all of them."""


class MalformedReferenceError(ValueError):
    """A ``${`` that begins no reference; the message shows nothing of the surrounding text."""


def references(text: str) -> tuple[str, ...]:
    """Return the variables to which a text refers, in order. Raise MalformedReferenceError.

    >>> references("jdbc://${HOST}:${PORT}/$${literal}")
    ('HOST', 'PORT')
    """
    names = []
    for match in _REFERENCE.finditer(text):
        if match[0] == "${":
            raise MalformedReferenceError("holds a '${' that is no ${NAME}; write a literal one as '$${'")
        if match[1]:
            names.append(match[1])
    return tuple(names)


def variables_in(value: Any) -> list[str]:
    """Return the variables to which texts in ``value`` refer, also inside lists and mappings, sorted.

    >>> variables_in({"url": "jdbc://${HOST}:${PORT}", "hosts": ["${HOST}"]})
    ['HOST', 'PORT']
    """
    return sorted({name for text in _texts(value) for name in references(text)})


def expand(value: Any, environ: Mapping[str, str]) -> Any:
    """Return ``value`` with every reference in its texts replaced, also inside lists and mappings, except mapping keys.

    From now on the values of the variables and the literal secrets in ``value`` are redacted in all texts of this
    process, except variables of a ``path`` which neither have the name of a secret nor look like one. Raise
    UnsetVariablesError.

    >>> expand({"url": "jdbc://${HOST}", "literal": "$${HOST}"}, {"HOST": "db"})
    {'url': 'jdbc://db', 'literal': '${HOST}'}
    """
    missing = [name for name in variables_in(value) if name not in environ]
    if missing:
        raise UnsetVariablesError(f"the environment variable {', '.join(missing)} is not set")
    _redact(value if isinstance(value, Mapping) else {"": value}, environ)
    return _expanded(value, environ)


def _redact(options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Redact the literal secrets of ``options`` and the values of their variables in all texts of this process."""
    remember_literals(options)
    for path, text in leaves(options):
        names = references(text) if isinstance(text, str) else ()
        secrets = secrets_in(_expanded(text, environ)) if names else ()
        is_path = path[-1].endswith(_PLACES) and not secrets
        for name in names:
            if not is_path or names_secret(name):
                remember(environ[name], f"${{{name}}}")
        for secret in secrets:
            remember(secret)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(item)


def _expanded(value: Any, environ: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _REFERENCE.sub(lambda match: environ[match[1]] if match[1] else "${", value)
    if isinstance(value, Mapping):
        return {key: _expanded(item, environ) for key, item in value.items()}
    return [_expanded(item, environ) for item in value] if isinstance(value, list | tuple) else value

"""References to environment variables, ``${NAME}``; ``$${`` stands for a literal ``${``.

The compiled plan keeps them as written; only the process that runs expands them, and keeps the values out of its texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rivet_dagster.errors import RivetError
from rivet_dagster.model.secret_options import leaves, remember_literals
from rivet_dagster.redaction import remember, secrets_in
from rivet_dagster.secret_names import names_secret

_PLACES = ("path", "dir")
"""The ends of options whose variables say where something lies, which a person must be able to read."""

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")


class MalformedReferenceError(ValueError):
    """A ``${`` that is no reference; the message shows nothing of the text around it."""


def references(text: str) -> tuple[str, ...]:
    """The variables that a text refers to, in order; raises MalformedReferenceError.

    >>> references("jdbc://${HOST}:${PORT}/$${literal}")
    ('HOST', 'PORT')
    """
    found = []
    for match in _REFERENCE.finditer(text):
        if match[0] == "${":
            raise MalformedReferenceError("holds a '${' that is no ${NAME}; write a literal one as '$${'")
        if match[1]:
            found.append(match[1])
    return tuple(found)


def variables_in(value: Any) -> list[str]:
    """The variables that texts of ``value`` refer to, in lists and mappings too, sorted.

    >>> variables_in({"url": "jdbc://${HOST}:${PORT}", "hosts": ["${HOST}"]})
    ['HOST', 'PORT']
    """
    return sorted({name for text in _texts(value) for name in references(text)})


def expand(value: Any, environ: Mapping[str, str]) -> Any:
    """``value`` with every reference in its texts replaced, in lists and mappings too; mapping keys stay.

    From now on no text of this process shows the values, nor what literal secrets ``value`` holds; but for variables
    of a ``path`` that neither are called as secrets are nor look like one. Raises RVT-107 with every variable that is
    not set.

    >>> expand({"url": "jdbc://${HOST}", "literal": "$${HOST}"}, {"HOST": "db"})
    {'url': 'jdbc://db', 'literal': '${HOST}'}
    """
    missing = [name for name in variables_in(value) if name not in environ]
    if missing:
        raise RivetError("RVT-107", f"the environment variable {', '.join(missing)} is not set")
    _keep_secret(value if isinstance(value, Mapping) else {"": value}, environ)
    return _expanded(value, environ)


def _keep_secret(options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
    """Have no text of this process show the literal secrets of ``options``, and what their variables hold."""
    remember_literals(options)
    for path, text in leaves(options):
        names = references(text) if isinstance(text, str) else ()
        secrets = secrets_in(_expanded(text, environ)) if names else ()
        is_place = path[-1].endswith(_PLACES) and not secrets
        for name in names:
            if not is_place or names_secret(name):
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

"""Secrets in the options of catalogs and engines, which should be references to environment variables, ``${NAME}``.

``$${`` is a literal ``${``. The compiled plan holds references unexpanded; only the process of a run expands them, and
redacts the values in its texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rivet_dagster.secrets.redaction import MASK, names_secret, remember, secrets_in, without_shapes

Path = tuple[str, ...]
"""The keys that lead to a value, beginning with the option's."""


def leaves(options: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield each value that is neither a mapping nor a list, with the keys that lead to it.

    >>> list(leaves({"config": {"a": 1}, "hosts": ["x", "y"]}))
    [(('config', 'a'), 1), (('hosts',), 'x'), (('hosts',), 'y')]
    """
    return _leaves((), options)


def literal_secrets(options: Mapping[str, Any]) -> list[tuple[Path, frozenset[str]]]:
    """Return the values that contain literal secrets: for each the keys that lead to it and its secret parts.

    >>> literal_secrets({"user": "ann", "password": "pw", "url": "${URL}", "remote": "sc://spark/;token=tk"})
    [(('password',), frozenset({'pw'})), (('remote',), frozenset({'tk'}))]
    """
    by_path = ((path, _secrets(path, value)) for path, value in leaves(options))
    return [(path, secrets) for path, secrets in by_path if secrets]


def remember_literals(options: Mapping[str, Any]) -> None:
    """Redact the literal secrets of ``options`` in all texts of this process."""
    for _, secrets in literal_secrets(options):
        for secret in secrets:
            remember(secret)


def mask_secrets(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for display, with ``***`` instead of their literal secrets.

    >>> mask_secrets({"user": "ann", "config": {"fs.s3a.secret.key": "pw", "x.password": "${PASSWORD}"}})
    {'user': 'ann', 'config': {'fs.s3a.secret.key': '***', 'x.password': '${PASSWORD}'}}
    """
    return {key: _masked((key,), value) for key, value in options.items()}


def _leaves(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _leaves((*path, str(key)), item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(path, item)
    else:
        yield path, value


def _secrets(path: Path, value: Any) -> frozenset[str]:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        return frozenset()
    if any(map(names_secret, path)):
        return frozenset() if "${" in str(value) else frozenset({str(value)})
    return frozenset(secret for secret in secrets_in(str(value)) if "${" not in secret)


def _masked(path: Path, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _masked((*path, str(key)), item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(path, item) for item in value]
    if not _secrets(path, value):
        return value
    return MASK if any(map(names_secret, path)) else without_shapes(value)


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

"""Literal secrets in the options of catalogs and engines, which should be ``${VAR}`` references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rivet_dagster.secrets.names import names_secret
from rivet_dagster.secrets.redaction import MASK, remember, secrets_in, without_shapes

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

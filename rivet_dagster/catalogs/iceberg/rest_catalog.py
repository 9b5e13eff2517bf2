"""PyIceberg's client of REST catalogs, with a limit to the time that it waits for a server."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.rest.auth import AuthManager
from requests import Response, Session

CONNECT, ANSWER, CHANGE = 10.0, 20.0, 60.0
"""Seconds that a client waits for a connection, and for each part of the answer to a question and to a change.

A server that is silent for longer may have carried out a change all the same.
"""

_CONNECT, _ANSWER = "rest.client.connection-timeout-ms", "rest.client.socket-timeout-ms"
"""Iceberg's own options for these times, in milliseconds."""


class PatientRestCatalog(RestCatalog):
    """A REST catalog whose requests end, with an error if need be; by itself PyIceberg waits for ever."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        send = session.request

        def request(method: str, *arguments: Any, **options: Any) -> Response:
            return send(method, *arguments, **{**options, "timeout": patience(method, self.properties)})

        session.request = request  # type: ignore[method-assign]
        return session

    def _create_legacy_oauth2_auth_manager(self, session: Session) -> AuthManager:
        # It asks for a token at once, before the session is ready.
        session.request = partial(session.request, timeout=patience("GET", self.properties))  # type: ignore[method-assign]
        return super()._create_legacy_oauth2_auth_manager(session)


def patience(method: str, properties: Mapping[str, Any]) -> tuple[float, float]:
    """Return how many seconds a request waits for a connection, and for each part of its answer.

    >>> patience("GET", {}), patience("POST", {"rest.client.connection-timeout-ms": "500"})
    ((10.0, 20.0), (0.5, 60.0))
    """
    defaults = CONNECT, ANSWER if method in ("GET", "HEAD") else CHANGE
    connect, answer = (
        int(properties[option]) / 1000 if option in properties else default
        for option, default in zip((_CONNECT, _ANSWER), defaults, strict=True)
    )
    return connect, answer

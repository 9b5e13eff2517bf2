"""PyIceberg's client of REST catalogs, with a limit to the time that it waits for a server."""

from __future__ import annotations

from functools import partial

from pyiceberg.catalog.rest import RestCatalog
from requests import Session

CONNECT, ANSWER = 10.0, 60.0
"""Seconds that the client waits for a connection, and for each part of an answer; by itself it waits for ever."""


class PatientRestCatalog(RestCatalog):
    """A REST catalog whose requests end, with an error if need be."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        session.request = partial(session.request, timeout=(CONNECT, ANSWER))  # type: ignore[method-assign]
        return session

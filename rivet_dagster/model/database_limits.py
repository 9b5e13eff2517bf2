"""Limits of PostgreSQL, and of PgBouncer in front of it, by which statements and sessions are ended."""

from __future__ import annotations

from dataclasses import dataclass

_OF_ROLE = "Have it raised for the catalog's user: ALTER ROLE ... SET {setting} = '1h' (0: no limit)."
_OF_POOLER = "Have `{setting}` of PgBouncer raised, or name the port of the database itself in the catalog's `url`."
_MODE = (
    "Have PgBouncer use `pool_mode = transaction` or `session` for the database, or name the port of the database "
    "itself in the catalog's `url`."
)
_POOL = (
    "Have PgBouncer's `pool_size` be twice the catalog's `connections` for each group that runs at once, or give the "
    "catalog fewer `connections`."
)


@dataclass(frozen=True)
class Limit:
    """A limit that has ended a statement or a session: its setting, whose it is, and the error that it is told by."""

    setting: str
    owner: str
    code: str
    remedy: str

    @property
    def told(self) -> str:
        """The words that name the setting."""
        return f"`{self.setting}` of {self.owner} has ended it"


def _of_role(setting: str) -> Limit:
    return Limit(setting, "the database, or of its user,", "RVT-528", _OF_ROLE.format(setting=setting))


def _of_pooler(setting: str, remedy: str = _OF_POOLER, code: str = "RVT-528") -> Limit:
    return Limit(setting, "PgBouncer", code, remedy.format(setting=setting))


_LIMITS = {
    "canceling statement due to statement timeout": _of_role("statement_timeout"),
    "canceling statement due to lock timeout": _of_role("lock_timeout"),
    "terminating connection due to idle-in-transaction timeout": _of_role("idle_in_transaction_session_timeout"),
    "terminating connection due to transaction timeout": _of_role("transaction_timeout"),
    "transaction blocks not allowed in statement pooling mode": _of_pooler("pool_mode = statement", _MODE),
    "unsupported startup parameter": _of_pooler("ignore_startup_parameters"),
    "idle transaction timeout": _of_pooler("idle_transaction_timeout"),
    "query timeout": _of_pooler("query_timeout"),
    # A later attempt may find a session.
    "query_wait_timeout": _of_pooler("query_wait_timeout", _POOL, "RVT-510"),
    "no more connections allowed": _of_pooler("max_client_conn", code="RVT-510"),
}
"""The limits by parts of the messages of their errors."""


def exceeded_limit(message: str) -> Limit | None:
    """Return the limit that an error of a database names; None for another error.

    >>> exceeded_limit("ERROR: canceling statement due to statement timeout").setting
    'statement_timeout'
    """
    return next((limit for sign, limit in _LIMITS.items() if sign in message), None)

"""The errors of an Iceberg catalog, of its storage and of commits whose outcome is unknown, as RivetErrors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.errors import RivetError

OTHER_NAME = "Choose another name for the table, or remove what has this one."
"""The remedy where something else has the name of a table."""

_REACH = "Check the catalog's options, and that its server runs and can be reached from here."
_SERVER = "Look at the log of the catalog's server."
_RIGHTS = "Correct the credentials in the catalog's options, or have the rights granted."


@contextmanager
def translate_errors(catalog: str, what: str = "", code: str = "RVT-403") -> Iterator[None]:
    """Turn errors of PyIceberg and of the libraries below it into RivetErrors of ``code``.

    ``what`` names what was to be reached, as in ``the table shop.orders``. RivetErrors pass through.
    """
    try:
        yield
    except RivetError:  # also the one that says that PyIceberg is not installed
        raise
    except Exception as error:
        translated = _translated(catalog, what, code, error)
        if translated is None:
            raise
        raise translated from error


def _translated(catalog: str, what: str, code: str, error: Exception) -> RivetError | None:
    from pyiceberg import exceptions as iceberg

    about = f"catalog '{catalog}': {what}" if what else f"catalog '{catalog}'"
    text = first_line(error)
    match error:
        case iceberg.NoSuchIcebergTableError() | iceberg.NoSuchPropertyException():
            return RivetError(code, f"{about} is not an Iceberg table: {text}", remediation=OTHER_NAME)
        case iceberg.TableAlreadyExistsError():
            return RivetError("RVT-404", f"{about}: {text}", remediation=OTHER_NAME)
        case iceberg.NoSuchTableError() | iceberg.NoSuchNamespaceError():
            return RivetError("RVT-403", f"{about} does not exist")
        case iceberg.UnauthorizedError() | iceberg.ForbiddenError() | iceberg.OAuthError() | PermissionError():
            return RivetError(code, f"{about}: access is refused: {text}", remediation=_RIGHTS)
        case iceberg.RESTError():
            return RivetError(code, f"{about}: the server answers: {text}", remediation=_SERVER)
        case iceberg.ValidationError() | iceberg.ValidationException() | FileNotFoundError():
            return RivetError(code, f"{about}: {text}")
        case OSError() | TimeoutError() | ConnectionError():
            return RivetError(code, f"{about} cannot be reached: {text}", remediation=_REACH)
    module = type(error).__module__.partition(".")[0]
    if module in ("requests", "urllib3", "sqlalchemy", "psycopg2", "sqlite3", "botocore", "thrift", "pyiceberg"):
        return RivetError(code, f"{about} cannot be reached: {text}", remediation=_REACH)
    return None


def first_line(error: Exception) -> str:
    """Return the first line of an error's text; of a request that was tried several times, why the last one failed."""
    reason = getattr(error.args[0], "reason", None) if error.args else None
    text = str(reason or error).strip() or type(error).__name__
    return text.partition("\n")[0]


def unknown_outcome(tables: str, identity: str, error: Exception) -> RivetError:
    """Return RVT-419 for a publication under ``identity`` whose commit failed by ``error``."""
    message = f"it is not known whether {tables} has been published under '{identity}': {error}"
    return RivetError("RVT-419", message)

"""The errors of the connector as RivetErrors, with the line of the query that they are about."""

from __future__ import annotations

from rivet_dagster.engines.pyspark.messages import is_row_error, line_in, summary
from rivet_dagster.errors import RivetError
from rivet_dagster.secrets.redaction import redacted

_CONNECT = "Correct the engine's `host`, `http_path` and `token`, or start the warehouse."


def not_connected(error: Exception, host: str) -> RivetError:
    """Return RVT-502 for a warehouse that could not be connected to."""
    return RivetError("RVT-502", f"no session on {host}: {redacted(summary(error))}", remediation=_CONNECT)


def warehouse_error(error: Exception, skipped: int, lines: int) -> RivetError:
    """Return the error of a query of ``lines`` lines that begin after ``skipped`` lines of what the warehouse got.

    RVT-510 if the warehouse did not answer, RVT-520 if a row cannot be evaluated, else RVT-503.
    """
    from databricks.sql import exc

    message = redacted(summary(error))
    if isinstance(error, exc.RequestError | exc.InterfaceError):
        return RivetError("RVT-510", message)
    found = line_in(str(error))
    line = found - skipped if found is not None and 0 < found - skipped <= lines else None
    return RivetError("RVT-520" if is_row_error(str(error)) else "RVT-503", message, line=line)

"""The messages of Spark's exceptions, without the stack traces and plans that they contain."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Iterator
from subprocess import TimeoutExpired
from typing import Any

from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX
from rivet_dagster.errors import RivetError
from rivet_dagster.model.convert import shorten_text
from rivet_dagster.model.database_limits import exceeded_limit
from rivet_dagster.secrets.redaction import redacted

_POSITION = re.compile(r"; line (\d+) pos \d+;?|\(line (\d+), pos \d+\)|== SQL \(line (\d+), position \d+\) ==")
_DATA_EXCEPTION = re.compile(r"SQLSTATE: (?:22\w{3}|P0001)")
"""A row that cannot be evaluated: SQL's class of data exceptions, and what `raise_error` raises."""
_SQLSTATE = re.compile(r"(?<!\s)\s*SQLSTATE: \w{5}")
_JAVA_CALL = re.compile(r"^An error occurred while calling \S+\n: ")
_JAVA_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w*Exception: ")
_CAUSED_BY = re.compile(r"^Caused by: (.*(?:\n(?![ \t]+at |[ \t]+\.\.\. |Caused by: ).*)*)", re.MULTILINE)
_NO_CLASS = re.compile(r"^.{0,100}?\bjava\.lang\.ClassNotFoundException[:)] ?([\w.$]+)", re.DOTALL)
_OWN_ERROR = re.compile(r'"(RVT-\d{3}) ([^"]+)"|octet_length\(\'(RVT-\d{3}) ([^\']+)\'\)')
"""An error that a query of ours has a database raise: a value that cannot be cast, or a length that is too great."""
_OF_DATABASE = re.compile(r"\b(?:ERROR|FATAL): |\bpsycopg\.")
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ ].*\n|\n)+(\S.*)")

_WRAPPERS = ("Exception thrown in awaitResult", "Job aborted")

_SHOWN, _LOOKED_AT = 5_000, 20_000
"""The most characters of a message, and of those that are looked at for it."""

_OUT_OF_MEMORY = 52
"""Spark's exit code after it ran out of memory."""
_MEMORY = "Spark's output above may say more; memory is set by `spark.driver.memory` in the engine's `config`."
_SPACE = "Free space on the disk of the table, or of Spark's own files: `spark.local.dir` in the engine's `config`."
_LOST = (
    "ExecutorLostFailure",
    "FetchFailed",
    "MetadataFetchFailedException",
    "SparkContext was shut down",
    "Connection refused",
    "Connection reset",
    "ConnectException",
    "SocketTimeoutException",
    "Stale file handle",
    "StatusCode.UNAVAILABLE",
    "RETRIES_EXCEEDED",
    "An I/O error occurred while sending to the backend",
    "terminating connection due to",
    "the database system is",
)
"""Parts of messages about a machine or storage that was not available for a while, which is no error of the query."""
_PACKAGES = (
    "Install pyarrow, and psycopg[binary] or PyMySQL, for the Python of Spark's executors, or name another Python in "
    "`spark.pyspark.python` of the engine's `config`."
)
_RECURSION = "Spark 4.0 cannot compute WITH RECURSIVE: use Spark 4.1 or newer (pip install 'pyspark>=4.1,<5')."
_REMEDIES = {
    "No space left on device": _SPACE,
    "No module named 'pyarrow'": _PACKAGES,
    "No module named 'psycopg'": _PACKAGES,
    "No module named 'pymysql'": _PACKAGES,
    "Disk quota exceeded": _SPACE,
    "[FAILED_READ_FILE": "Correct the file, or the source's `options`.",
    "[UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE": "Give the column another type, with CAST.",
    "[UNSUPPORTED_TIME_TYPE": "Give the column another type, with CAST.",
    "OutOfMemoryError": _MEMORY,
    "No plan for UnionLoop": _RECURSION,
    "transpose requires all collections have the same size": _RECURSION,
    "Syntax error at or near ':'": "Correct the SQL. A path like `v:a.b` needs Spark 4.1; on Spark 4.0 write "
    "variant_get(v, '$.a.b', 'INT').",
}


def spark_error(error: Exception, remediation: str | None = None) -> RivetError | None:
    """Return RVT-503 with Spark's message, RVT-502 if its JVM has died, RVT-510 for a transient failure.

    RVT-520 if a row of the query cannot be evaluated, RVT-528 if a limit of a database has ended its query; None for an
    exception that is not Spark's. The ``line`` of RVT-503 and RVT-520 is that of the query. A ``remediation`` is to be
    passed if it was not a query that failed.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if isinstance(error, Py4JError | OSError) and (code := _exit_code()) is not None:
        reason = "out of memory" if code == _OUT_OF_MEMORY else f"with exit code {code}"
        return RivetError("RVT-502", f"Spark's JVM has ended, {reason}", remediation=_MEMORY)
    if not isinstance(error, PySparkException | Py4JError):
        return None
    if own := _OWN_ERROR.search(str(error)):
        return RivetError(own[1] or own[3], own[2] or own[4])
    if missing := _NO_CLASS.match(str(error)):
        message = f"no jar of Spark's session has the class {missing[1]}"
        remedy = "Add the jar to the engine's `packages` or `jars`, or to those of its server."
        return RivetError("RVT-502", message, remediation=remedy)
    message = summary(error)
    if _OF_DATABASE.search(message) and (limit := exceeded_limit(message)) is not None:
        return RivetError(limit.code, f"{limit.told}: {message}", remediation=limit.remedy)
    if any(sign in text for sign in _LOST for text in (str(error), *_java_causes(error))):
        return RivetError("RVT-510", message)
    line = line_in(str(error)) if remediation is None else None
    if remediation is None and any(map(is_row_error, (str(error), *_java_causes(error)))):
        return RivetError("RVT-520", message, line=line)
    for sign, remedy in _REMEDIES.items():
        if sign in message:
            remediation = remedy
    return RivetError("RVT-503", message, line=line, remediation=remediation)


def _exit_code() -> int | None:
    """Return the exit code of the JVM that this process started, None while it runs."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    launched = getattr(gateway, "proc", None)
    try:
        return launched.wait(1.0) if launched else None
    except TimeoutExpired:
        return None


def summary(error: BaseException) -> str:
    """Return the part of an exception's message that helps a user, of at most 5,000 characters."""
    text = str(error)
    python_error = _PYTHON_ERROR.search(text)
    if python_error:
        return _bounded(python_error[1])
    messages = [_sentence(text), *(_sentence(cause) for cause in _java_causes(error))]
    useful = [message for message in messages if message and not message.startswith(_WRAPPERS)] or messages
    first, root = useful[0], useful[-1]
    return _bounded(first if root in first else f"{first.rstrip('.')}: {root}")


def _bounded(message: str) -> str:
    # Secrets first, of more than is shown: nobody recognizes a part of one. A message may quote a cell of 50 MB.
    return message if len(message) <= _SHOWN else shorten_text(redacted(message[:_LOOKED_AT]), _SHOWN)


def _sentence(text: str) -> str:
    """Return the first paragraph of ``text``, or its first line if that is a complete message with an error class.

    >>> _sentence("[X] No column `a`. SQLSTATE: 42703; line 1 pos 7;\\n'Project ['a]\\n+- OneRowRelation\\n")
    '[X] No column `a`.'
    """
    text = _JAVA_CLASS.sub("", _JAVA_CALL.sub("", text.strip()))
    paragraph = re.split(r"\n\s*\n|\n\s*at |\n== |\nJVM stacktrace", text)[0]
    first = paragraph.partition("\n")[0]
    named = first.startswith("[") and not first.rstrip().endswith(":")
    sentence = first if named else " ".join(paragraph.split())
    return _SQLSTATE.sub("", _POSITION.sub("", sentence)).strip()


def is_row_error(text: str) -> bool:
    """Return whether the text of an exception is about a row that cannot be evaluated.

    >>> is_row_error("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"), is_row_error("[X] No table.")
    (True, False)
    """
    return _DATA_EXCEPTION.search(text) is not None


def line_in(text: str) -> int | None:
    """Return the line of the query that the text of an exception names.

    >>> line_in("[X] No column `a`. SQLSTATE: 42703; line 3 pos 7;\\n'Project ['a]\\n"), line_in("[Y] No table.")
    (3, None)
    """
    position = _POSITION.search(text)
    return next(int(group) for group in position.groups() if group) if position else None


def _java_causes(error: BaseException) -> Iterator[str]:
    """Yield the messages of the Java exceptions that caused ``error``, the innermost last."""
    # Over Connect there are no Java objects, only the printed stack trace.
    yield from _CAUSED_BY.findall(getattr(error, "_stacktrace", None) or "")
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    for _ in range(30):
        cause = cause.getCause() if cause is not None else None
        if cause is None:
            return
        yield str(cause.getMessage() or "")


def keep_reported_errors_off_the_terminal() -> None:
    """Stop pyspark from logging, as JSON, errors that our sessions raise; those of other code are still logged."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger: logging.Logger = PySparkLogger.getLogger(name)
        logger.addFilter(_is_not_ours)


def _is_not_ours(_: logging.LogRecord) -> bool:
    return not threading.current_thread().name.startswith(THREAD_PREFIX)

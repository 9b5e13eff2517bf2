"""What Spark's exceptions say, without the JVM's stack traces and plans around it."""

from __future__ import annotations

import logging
import re
import threading
from typing import Any

from rivet_dagster.engines.pyspark.waiting import THREAD_PREFIX
from rivet_dagster.errors import RivetError

_POSITION = re.compile(r"; line (\d+) pos (\d+);?|\(line (\d+), pos(?:ition)? (\d+)\)")
_SQLSTATE = re.compile(r"\s*SQLSTATE: \w{5}")
_JAVA_CALL = re.compile(r"^An error occurred while calling \S+\n: ")
_JAVA_CLASS = re.compile(r"^(?:[a-z_]\w*\.)+[A-Z]\w*(?:Exception|Error): ")
_PYTHON_ERROR = re.compile(r"Traceback \(most recent call last\):\n(?:[ ].*\n|\n)+(\S.*)")

_REMEDIES = {
    "FAILED_READ_FILE": "Correct the file, or the source's `options`.",
    "UNABLE_TO_INFER_SCHEMA": "Give the source a `schema` among its `options`, or correct its `format`.",
    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE": "Give the column another type, with CAST.",
    "UNSUPPORTED_TIME_TYPE": "Give the column another type, with CAST.",
}


def spark_error(error: Exception) -> RivetError | None:
    """RVT-503 with Spark's own words; None for an exception that is not Spark's."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    if not isinstance(error, PySparkException | Py4JError):
        return None
    message = summary(error)
    condition = re.match(r"\[(\w+)", message)
    return RivetError("RVT-503", message, remediation=_REMEDIES.get(condition[1]) if condition else None)


def summary(error: BaseException) -> str:
    """The sentence of an exception that a user can use, with the place in the SQL where Spark names one."""
    text = str(error)
    python_error = _PYTHON_ERROR.search(text)
    if python_error:
        return python_error[1]
    message = _sentence(text)
    root = _sentence(_root_cause(error))
    return message if root in message else f"{message.rstrip('.')}: {root}"


def _sentence(text: str) -> str:
    """The first line of ``text``, the whole first paragraph where that line only announces it.

    >>> _sentence("[X] No column `a`. SQLSTATE: 42703; line 1 pos 7;\\n'Project ['a]\\n+- OneRowRelation\\n")
    '[X] No column `a`. (line 1, pos 7)'
    """
    text = _JAVA_CLASS.sub("", _JAVA_CALL.sub("", text.strip()))
    position = _POSITION.search(text)
    paragraph = re.split(r"\n\s*\n|\n\s*at |\n== |\nJVM stacktrace", text)[0]
    first = paragraph.partition("\n")[0]
    sentence = " ".join(paragraph.split()) if first.rstrip().endswith(":") else first
    sentence = _SQLSTATE.sub("", _POSITION.sub("", sentence)).strip().rstrip(";")
    if position:
        line, column = (group for group in position.groups() if group)
        sentence += f" (line {line}, pos {column})"
    return sentence


def _root_cause(error: BaseException) -> str:
    """What the innermost Java exception says, empty where there is none inside."""
    cause: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if cause is None:
        return ""
    message = ""
    for _ in range(30):
        cause = cause.getCause()
        if cause is None:
            break
        message = cause.getMessage() or message
    return str(message)


def keep_reported_errors_off_the_terminal() -> None:
    """Have pyspark not print, as JSON, the errors that our sessions raise; those of other code stay as they are."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger: logging.Logger = PySparkLogger.getLogger(name)
        logger.addFilter(_is_not_ours)


def _is_not_ours(_: logging.LogRecord) -> bool:
    return not threading.current_thread().name.startswith(THREAD_PREFIX)

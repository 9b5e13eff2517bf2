"""Errors of failing queries, each reported once."""

import pytest
from pyspark.errors import PySparkException
from support.tables import refused

from rivet_dagster.engines.pyspark.messages import spark_error
from rivet_dagster.errors import RivetError


@pytest.mark.parametrize(
    ("sql", "message", "line"),
    [
        ("SELECT xx FROM (SELECT 1 AS xy)", "Did you mean one of the following? [`xy`].", 1),
        ("SELECT *\nFORM x", "[PARSE_SYNTAX_ERROR] Syntax error at or near 'x': extra input 'x'.", 2),
        ("WITH a AS (\n\nSELECT no_such FROM range(1))\nSELECT * FROM a", "`no_such` cannot be resolved", 3),
        ("SELECT\n1 UNION SELECT 1, 2", "[NUM_COLUMNS_MISMATCH]", 1),
        ("SELECT :v", "[UNBOUND_SQL_PARAMETER] Found the unbound parameter: v.", None),
    ],
)
def test_an_error_in_a_query_has_its_location(session, sql, message, line, capfd):
    error = refused(session.query, sql)
    assert (error.code, error.diagnostics[0].line) == ("RVT-503", line)
    assert message in str(error)
    assert_short(error, capfd)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Job aborted due to stage failure: ExecutorLostFailure (executor 3 exited)", "RVT-510"),
        ("org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location", "RVT-510"),
        ("java.net.ConnectException: Connection refused", "RVT-510"),
        ("Job 3 cancelled because SparkContext was shut down", "RVT-510"),
        ("[DIVIDE_BY_ZERO] Division by zero.", "RVT-503"),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table `retries` cannot be found.", "RVT-503"),
    ],
)
def test_transient_errors_are_distinguished_from_mistakes(application, message, code):
    error = spark_error(PySparkException(message))
    assert (error.code, error.is_transient) == (code, code == "RVT-510")
    assert message.rpartition(": ")[2] in str(error)


@pytest.mark.parametrize(
    ("sql", "message", "line"),
    [
        ("SELECT 1 / id AS v FROM range(3)", "[DIVIDE_BY_ZERO] Division by zero.", 1),
        ("SELECT CAST('a' || id AS INT) AS v FROM range(1)", "The value 'a0' of the type \"STRING\" cannot be cast", 1),
        ("SELECT if(id = 0, raise_error('mine ' || id), 1) AS v FROM range(1)", "[USER_RAISED_EXCEPTION] mine 0", None),
    ],
)
def test_a_query_that_fails_at_run_time_has_the_reason(session, warehouse, sql, message, line, capfd):
    target = warehouse.begin("t").target
    for error in (refused(session.write, session.query(sql), target), refused(session.rows, sql)):
        assert (error.code, error.diagnostics[0].line) == ("RVT-520", line)
        assert message in str(error)
        assert error.__cause__ is not None
        assert_short(error, capfd)


def assert_short(error: RivetError, capfd: pytest.CaptureFixture[str]) -> None:
    assert "\tat " not in str(error)
    assert "SQLSTATE" not in str(error)
    assert len(str(error).splitlines()) == 2
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")

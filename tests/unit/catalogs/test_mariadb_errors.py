"""Errors of MariaDB by their numbers, whose names are those that its driver knows."""

import pytest
from pymysql.constants import ER
from pymysql.err import OperationalError

from rivet_dagster.catalogs.jdbc.mariadb.connection import MariaDatabase
from rivet_dagster.catalogs.jdbc.mariadb.kind import MariaKind

DATABASE = MariaDatabase("shop", "jdbc:mariadb://localhost/shop")
ABOUT_ROWS = (
    "BAD_NULL_ERROR", "CONSTRAINT_FAILED", "DATA_TOO_LONG", "DUP_ENTRY", "DUP_KEY", "NO_DEFAULT_FOR_FIELD",
    "NO_REFERENCED_ROW_2", "ROW_IS_REFERENCED_2", "TOO_BIG_ROWSIZE", "TRUNCATED_WRONG_VALUE",
    "TRUNCATED_WRONG_VALUE_FOR_FIELD", "WARN_DATA_OUT_OF_RANGE", "WARN_DATA_TRUNCATED",
)  # fmt: skip


@pytest.mark.parametrize("name", ABOUT_ROWS)
def test_errors_about_values_of_rows(name):
    number = getattr(ER, name)
    assert MariaKind().is_about_row(str(number))
    assert DATABASE.refused("orders", OperationalError(number, "x")).code == "RVT-527"


@pytest.mark.parametrize(
    ("names", "code", "words"),
    [
        ("LOCK_DEADLOCK", "RVT-404", "have waited for each other"),
        ("LOCK_WAIT_TIMEOUT CHECKREAD", "RVT-404", "has held a lock"),
        ("DISK_FULL RECORD_FILE_FULL", "RVT-404", "disk is full"),
        (
            "DBACCESS_DENIED_ERROR ACCESS_DENIED_ERROR TABLEACCESS_DENIED_ERROR COLUMNACCESS_DENIED_ERROR "
            "SPECIFIC_ACCESS_DENIED_ERROR PROCACCESS_DENIED_ERROR",
            "RVT-404",
            "access is refused",
        ),
        ("PARSE_ERROR NO_SUCH_TABLE", "RVT-404", "the database refuses it"),
    ],
)
def test_other_errors_of_writes(names, code, words):
    for name in names.split():
        error = DATABASE.refused("orders", OperationalError(getattr(ER, name), "x"))
        assert (error.code, words in str(error)) == (code, True)
        assert not MariaKind().is_about_row(str(getattr(ER, name)))

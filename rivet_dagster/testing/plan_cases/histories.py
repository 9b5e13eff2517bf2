"""History: one batch written to a table with versions of its keys; ``runs`` has cases with several batches."""

from __future__ import annotations

from datetime import UTC, datetime

from rivet_dagster.model.write_plan import History
from rivet_dagster.testing.plan_cases.case import EARLIER, STARTED, PlanCase, RefusalCase

VERSIONS = "valid_from TIMESTAMP, valid_to TIMESTAMP, is_current BOOLEAN"

SEEN = "id BIGINT, price BIGINT, seen TIMESTAMP"
ONE, TWO, THREE = (datetime(2024, 1, 1, hour, tzinfo=UTC) for hour in (1, 2, 3))
BY_TIME = History(keys=("id",), effective_at="seen")

CASES = (
    PlanCase(
        "history: NULL keys are closed and opened as others are; versions begin and end with the run",
        History(keys=("id", "part"), close_missing=True),
        columns=f"id BIGINT, part BIGINT, price BIGINT, {VERSIONS}",
        before=[
            (None, None, 1, EARLIER, None, True),
            (None, 1, 1, EARLIER, None, True),
            (1, None, 1, EARLIER, None, True),
            (1, 1, 1, EARLIER, None, True),
            (None, 3, 1, EARLIER, ONE, False),
        ],
        batch_columns="id BIGINT, part BIGINT, price BIGINT",
        batch=[(None, None, 2), (None, 1, 1), (1, 1, 1), (2, 2, 2), (None, 3, 1)],
        after=[
            (None, None, 1, EARLIER, STARTED, False),
            (None, None, 2, STARTED, None, True),
            (None, 1, 1, EARLIER, None, True),
            (1, None, 1, EARLIER, STARTED, False),
            (1, 1, 1, EARLIER, None, True),
            (2, 2, 2, STARTED, None, True),
            (None, 3, 1, EARLIER, ONE, False),
            (None, 3, 1, STARTED, None, True),
        ],
        counts=(3, 2, 0),
    ),
    PlanCase(
        "history: the first batch makes the table; its rows that are equal are one version",
        History(keys=("id",)),
        columns="id BIGINT, price BIGINT",
        before=None,
        batch=[(1, 1), (2, 2), (2, 2), (None, None)],
        columns_after=f"id BIGINT, price BIGINT, {VERSIONS}",
        after=[(1, 1, STARTED, None, True), (2, 2, STARTED, None, True), (None, None, STARTED, None, True)],
        counts=(3, 0, 0),
    ),
    PlanCase(
        "history: a first batch without rows makes a table without rows",
        History(keys=("id",)),
        columns="id BIGINT, price BIGINT",
        before=None,
        batch=[],
        columns_after=f"id BIGINT, price BIGINT, {VERSIONS}",
        after=[],
        counts=(0, 0, 0),
    ),
    PlanCase(
        "history: a run of the moment at which a version begins overwrites it",
        History(keys=("id",)),
        columns=f"id BIGINT, price BIGINT, {VERSIONS}",
        before=[(1, 1, EARLIER, STARTED, False), (1, 2, STARTED, None, True)],
        batch_columns="id BIGINT, price BIGINT",
        batch=[(1, 3)],
        after=[(1, 1, EARLIER, STARTED, False), (1, 3, STARTED, None, True)],
        counts=(0, 1, 0),
    ),
    PlanCase(
        "history: of several rows of a key and a time the one with the greatest order counts",
        History(keys=("id",), effective_at="seen", order_by=("price",)),
        columns=SEEN,
        before=None,
        batch=[(1, 5, ONE), (1, 7, ONE), (1, None, ONE), (1, 6, TWO), (2, 8, TWO), (2, 8, TWO)],
        columns_after=f"{SEEN}, {VERSIONS}",
        after=[(1, 7, ONE, ONE, TWO, False), (1, 6, TWO, TWO, None, True), (2, 8, TWO, TWO, None, True)],
        counts=(3, 0, 0),
    ),
    PlanCase(
        "history: a table of keys alone",
        History(keys=("id",), close_missing=True),
        columns=f"id BIGINT, {VERSIONS}",
        before=[(1, EARLIER, None, True), (2, EARLIER, None, True)],
        batch_columns="id BIGINT",
        batch=[(2,), (2,), (3,)],
        after=[(1, EARLIER, STARTED, False), (2, EARLIER, None, True), (3, STARTED, None, True)],
        counts=(1, 1, 0),
    ),
    PlanCase(
        "history: its columns by other names; columns go by name, in any order and letter case",
        History(
            keys=("ID",),
            tracked=("PRICE",),
            effective_at="Seen",
            valid_from="since",
            valid_to="until",
            is_current="now",
        ),
        columns=f"{SEEN}, since TIMESTAMP, until TIMESTAMP, now BOOLEAN",
        before=[(1, 1, ONE, ONE, None, True)],
        batch_columns="SEEN TIMESTAMP, Price BIGINT, id BIGINT",
        batch=[(TWO, 2, 1)],
        after=[(1, 1, ONE, ONE, TWO, False), (1, 2, TWO, TWO, None, True)],
        counts=(1, 1, 0),
    ),
    PlanCase(
        "history: a new column that add gives the table is tracked from then on",
        History(keys=("id",), schema_change="add"),
        columns=f"id BIGINT, price BIGINT, {VERSIONS}",
        before=[(1, 1, EARLIER, None, True), (2, 2, EARLIER, None, True)],
        batch_columns="id BIGINT, price BIGINT, tax BIGINT",
        batch=[(1, 1, 5), (2, 2, None)],
        columns_after=f"id BIGINT, price BIGINT, {VERSIONS}, tax BIGINT",
        after=[
            (1, 1, EARLIER, STARTED, False, None),
            (1, 1, STARTED, None, True, 5),
            (2, 2, EARLIER, None, True, None),
        ],
        counts=(1, 1, 0),
    ),
)

REFUSALS = (
    RefusalCase(
        "history: a row without a time",
        BY_TIME,
        columns=SEEN,
        before=None,
        batch=[(1, 1, ONE), (2, 2, None)],
        code="RVT-516",
        named=("1 rows", "seen"),
    ),
    RefusalCase(
        "history: unequal rows of a key and a time",
        BY_TIME,
        columns=f"{SEEN}, {VERSIONS}",
        before=[(7, 1, ONE, ONE, None, True)],
        batch_columns=SEEN,
        batch=[(7, 1, TWO), (7, 2, TWO), (8, 1, TWO), (8, 2, THREE), (9, 1, TWO), (9, 1, TWO)],
        code="RVT-515",
        named=("id=7",),
        unnamed=("id=8", "id=9"),
    ),
    RefusalCase(
        "history: a time that is a text",
        BY_TIME,
        columns="id BIGINT, price BIGINT, seen STRING",
        before=None,
        batch=[(1, 1, "2024-01-01")],
        code="RVT-513",
        named=("seen",),
    ),
    RefusalCase(
        "history: a batch with a column that the history has for itself",
        History(keys=("id",), valid_to="Until"),
        columns="id BIGINT, until DATE",
        before=None,
        batch=[(1, None)],
        code="RVT-513",
        named=("until",),
    ),
    RefusalCase(
        "history: a table that is no history",
        History(keys=("id",)),
        columns="id BIGINT, price BIGINT",
        before=[(1, 1)],
        batch=[(1, 1)],
        code="RVT-514",
        named=("valid_from", "valid_to", "is_current"),
    ),
)

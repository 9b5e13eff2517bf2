"""Upsert: existing keys take the values of the batch, new keys are added; which of several rows of a key wins."""

from __future__ import annotations

from rivet_dagster.model.write_plan import Upsert
from rivet_dagster.testing.plan_cases.case import BEFORE, PlanCase, RefusalCase, Rows

BY_ID = Upsert(keys=("id",))
LATEST = Upsert(keys=("id",), order_by=("place",))
LATEST_BY_TWO = Upsert(keys=("id",), order_by=("place", "row"))

PLACES = "id STRING, place BIGINT, row STRING"
"""Each key is called as the rule that it shows; the other columns as things are called in queries about them."""

SEVERAL: Rows = [
    ("alone", 1, "a"),
    ("the greatest", 1, "a"), ("the greatest", 3, "b"), ("the greatest", 2, "c"),
    ("NULL is the least", None, "a"), ("NULL is the least", -5, "b"),
    ("equal rows with NULL alone", None, "a"), ("equal rows with NULL alone", None, "a"),
    ("equal rows tie", 2, "a"), ("equal rows tie", 2, "a"), ("equal rows tie", 1, "c"),
    ("a tie below the greatest", 2, "a"), ("a tie below the greatest", 1, "b"), ("a tie below the greatest", 1, "c"),
    (None, 7, "x"), (None, 8, "y"),
]  # fmt: skip
ONE_EACH: Rows = [
    ("alone", 1, "a"),
    ("the greatest", 3, "b"),
    ("NULL is the least", -5, "b"),
    ("equal rows with NULL alone", None, "a"),
    ("equal rows tie", 2, "a"),
    ("a tie below the greatest", 2, "a"),
    (None, 8, "y"),
]

CASES = (
    PlanCase(
        "upsert: rows that differ are updated, those of new keys inserted, equal ones left alone",
        BY_ID,
        before=[(1, "stays", 1), (2, "changes", 2), (3, "is equal", 3), (4, "becomes NULL", 4), (None, "NULL key", 5)],
        batch=[(2, "changed", 2), (3, "is equal", 3), (4, None, 4), (None, "of the NULL key", 5), (6, "new", 6)],
        after=[
            (1, "stays", 1),
            (2, "changed", 2),
            (3, "is equal", 3),
            (4, None, 4),
            (None, "of the NULL key", 5),
            (6, "new", 6),
        ],
        counts=(1, 3, 0),
    ),
    PlanCase(
        "upsert: the same batch again changes nothing",
        BY_ID,
        before=BEFORE,
        batch=BEFORE,
        after=BEFORE,
        counts=(0, 0, 0),
    ),
    PlanCase(
        "upsert: several keys are one together, and NULL in one of them is a value",
        Upsert(keys=("id", "day")),
        before=[(1, "a", 10), (1, None, 20), (None, "a", 30), (None, None, 40)],
        batch=[(1, None, 21), (None, None, 40), (2, None, 50)],
        after=[(1, "a", 10), (1, None, 21), (None, "a", 30), (None, None, 40), (2, None, 50)],
        counts=(1, 1, 0),
    ),
    PlanCase(
        "upsert: columns go by name, in any order and letter case, those of the plan too",
        Upsert(keys=("ID",), order_by=("N",)),
        before=BEFORE,
        batch_columns="DAY STRING, N BIGINT, Id BIGINT",
        batch=[("x", 7, 2), ("y", 8, 2), ("z", 9, 3)],
        after=[(1, "a", 1), (2, "y", 8), (None, "b", 3), (3, "z", 9)],
        counts=(1, 1, 0),
    ),
    PlanCase(
        "upsert: a key that the table has several times has each of its rows updated",
        BY_ID,
        before=[(1, "a", 1), (1, "x", 1), (2, "b", 2), (3, "c", 3), (3, "d", 3)],
        batch=[(1, "x", 1), (3, "z", 3)],
        after=[(1, "x", 1), (1, "x", 1), (2, "b", 2), (3, "z", 3), (3, "z", 3)],
        counts=(0, 3, 0),
    ),
    PlanCase(
        "upsert: keys below, among and above those of the batch, which has them in a shorter type",
        BY_ID,
        before=[(-(2**40), "below", 1), (-3, "changes", 2), (0, "among", 3), (7, "changes", 4), (2**40, "above", 5)],
        batch_columns="id INT, day STRING, n BIGINT",
        batch=[(-3, "changed", 2), (7, "changed", 4), (5, "new", 6)],
        after=[
            (-(2**40), "below", 1),
            (-3, "changed", 2),
            (0, "among", 3),
            (7, "changed", 4),
            (2**40, "above", 5),
            (5, "new", 6),
        ],
        counts=(1, 2, 0),
    ),
    PlanCase(
        "upsert: texts as keys, whose order is that of their bytes",
        Upsert(keys=("day",)),
        before=[(1, "", 1), (2, "\uffee", 2), (3, "\U0001f600", 3), (4, "Z", 4), (5, None, 5)],
        batch=[(6, "\uffee", 6), (7, "\U0001f600", 7), (8, "a", 8)],
        after=[(1, "", 1), (6, "\uffee", 6), (7, "\U0001f600", 7), (4, "Z", 4), (5, None, 5), (8, "a", 8)],
        counts=(1, 2, 0),
    ),
    PlanCase(
        "upsert: rows of a key that are equal in every column are one",
        BY_ID,
        before=BEFORE,
        batch=[(2, "c", 7), (2, "c", 7), (9, None, None), (9, None, None), (None, "c", 7), (None, "c", 7)],
        after=[(1, "a", 1), (2, "c", 7), (9, None, None), (None, "c", 7)],
        counts=(1, 2, 0),
    ),
    PlanCase(
        "upsert: and in the first batch",
        BY_ID,
        before=None,
        batch=[(2, "c", 7), (2, "c", 7), (None, "c", 7), (None, "c", 7)],
        after=[(2, "c", 7), (None, "c", 7)],
        counts=(2, 0, 0),
    ),
    PlanCase(
        "upsert: of several rows of a key the one with the greatest order counts",
        LATEST,
        columns=PLACES,
        before=[("alone", 1, "a"), ("the greatest", 9, "a batch counts, whatever the table has"), (None, 9, None)],
        batch=SEVERAL,
        after=ONE_EACH,
        counts=(4, 2, 0),
    ),
    PlanCase(
        "upsert: and in the first batch, by its order",
        LATEST,
        columns=PLACES,
        before=None,
        batch=SEVERAL,
        after=ONE_EACH,
        counts=(7, 0, 0),
    ),
    PlanCase(
        "upsert: the next column of the order decides a tie",
        LATEST_BY_TWO,
        columns=PLACES,
        before=[],
        batch=[
            ("a tie", 2, "a"), ("a tie", 2, "b"), ("a tie", 1, "z"),
            ("NULL is the least", 2, None), ("NULL is the least", 2, "a"),
        ],
        after=[("a tie", 2, "b"), ("NULL is the least", 2, "a")],
        counts=(2, 0, 0),
    ),
)  # fmt: skip

UNEQUAL: Rows = [
    ("unequal-rows", 1, "a"), ("unequal-rows", 2, "a"),
    ("same-rows", 1, "a"), ("same-rows", 1, "a"),
    ("one-row", 1, "a"),
]  # fmt: skip

TIES: Rows = [
    ("tie-of-two", 2, "a"), ("tie-of-two", 2, "b"), ("tie-of-two", 1, "c"),
    ("tie-of-NULLs", None, "a"), ("tie-of-NULLs", None, "b"),
    ("decided", 2, "a"), ("decided", 1, "b"), ("decided", 1, "c"),
]  # fmt: skip

REFUSALS = (
    RefusalCase(
        "upsert: unequal rows of a key without an order",
        BY_ID,
        columns=PLACES,
        before=[("unequal-rows", 1, "a")],
        batch=UNEQUAL,
        code="RVT-515",
        named=("unequal-rows",),
        unnamed=("same-rows", "one-row"),
    ),
    RefusalCase(
        "upsert: unequal rows of a key without an order in the first batch",
        BY_ID,
        columns=PLACES,
        before=None,
        batch=UNEQUAL,
        code="RVT-515",
        named=("unequal-rows",),
        unnamed=("same-rows", "one-row"),
    ),
    RefusalCase(
        "upsert: unequal rows of the NULL key",
        BY_ID,
        before=BEFORE,
        batch=[(None, "a", 1), (None, "a", 2)],
        code="RVT-515",
        named=("id=nothing",),
    ),
    RefusalCase(
        "upsert: unequal rows that tie for the greatest",
        LATEST,
        columns=PLACES,
        before=[],
        batch=TIES,
        code="RVT-515",
        named=("place", "tie-of-two", "tie-of-NULLs"),
        unnamed=("decided",),
    ),
)

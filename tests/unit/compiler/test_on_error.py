"""`on_error` of a joint: what may be declared, in Python, YAML and annotations."""

from __future__ import annotations

import pytest

from rivet_dagster import Joint
from rivet_dagster.errors import RivetError
from rivet_dagster.model.row_errors import FAIL, QUARANTINE, MaxErrors, OnError
from rivet_dagster.project.joint_file import sql_joint, yaml_joint

BOUNDED = OnError(QUARANTINE, MaxErrors(count=100), "bad_orders")


def declared(value) -> OnError | None:
    return Joint(name="a", type="sql", sql="SELECT 1 AS x", on_error=value).on_error


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("fail", OnError(FAIL)),
        ("quarantine", OnError(QUARANTINE)),
        ({"mode": "quarantine"}, OnError(QUARANTINE)),
        ({"mode": "quarantine", "max_errors": 100, "errors_table": "bad_orders"}, BOUNDED),
        ({"mode": "quarantine", "max_errors": 0}, OnError(QUARANTINE, MaxErrors(count=0))),
        ({"mode": "quarantine", "max_errors": "5%"}, OnError(QUARANTINE, MaxErrors(percent=5.0))),
        ({"mode": "quarantine", "max_errors": "0.25 %"}, OnError(QUARANTINE, MaxErrors(percent=0.25))),
        (BOUNDED, BOUNDED),
        ({"mode": "quarantine", "max_age": "90d"}, OnError(QUARANTINE, max_age=90)),
    ],
)
def test_what_may_be_declared(value, expected):
    assert declared(value) == expected


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        ("ignore", "RVT-204", "`on_error` must be fail or quarantine, not 'ignore'"),
        (True, "RVT-204", "`on_error` must be fail or quarantine, not true"),
        ({}, "RVT-204", "`on_error` needs `mode`"),
        ({"mode": "quarantine", "tabel": "x"}, "RVT-203", "`on_error` has the unknown key 'tabel'"),
        ({"mode": "quarantine", "errors_table": ""}, "RVT-204", "wrong `errors_table`: it must be a text"),
        *(
            ({"mode": "quarantine", "max_errors": limit}, "RVT-204", "wrong `max_errors`: it must be a whole number")
            for limit in (-1, 1.5, True, "5", "100.1%", "-1%", "many", "nan%", [1])
        ),
        *(
            (
                {"mode": "quarantine", "max_age": age},
                "RVT-204",
                "wrong `max_age`: it must be a number of whole days like 90d",
            )
            for age in (90, True, "90", "36h", "48h", "1.5d", "0.5d", "-1d", "d", "90 d", ["90d"])
        ),
        ({"mode": "quarantine", "max_age": "0d"}, "RVT-204", "wrong `max_age`: it must be"),
        ({"mode": "quarantine", "max_age": "99999d"}, "RVT-204", "wrong `max_age`: it must be at most a hundred years"),
        ({"mode": "fail", "max_age": "90d"}, "RVT-204", "has `max_age`, which goes with the mode quarantine"),
    ],
)
def test_what_may_not(value, code, message):
    with pytest.raises(RivetError) as caught:
        declared(value)
    (error,) = caught.value.diagnostics
    assert error.code == code
    assert message in error.message


@pytest.mark.parametrize(
    "joint", [{"type": "python", "function": "m:f"}, {"type": "source", "catalog": "c", "table": "t"}]
)
def test_other_joints_have_none(joint):
    with pytest.raises(RivetError, match="`on_error` has no meaning on a"):
        Joint(name="a", on_error="fail", **joint)


def test_files_declare_the_same():
    text = "mode: quarantine, max_errors: 100, errors_table: bad_orders"
    of_yaml = yaml_joint(f"type: sink\nupstream: a\ncatalog: lake\ntable: t\non_error: {{{text}}}", "a.yaml")
    of_sql = sql_joint(f"-- rivet:on_error: {{{text}}}\nSELECT 1 AS x", "b.sql")
    for draft in (of_yaml, of_sql):
        joint, errors = draft.joint()
        assert errors == ()
        assert joint is not None
        assert joint.on_error == BOUNDED


def test_a_limit_is_exact_and_shown_as_declared():
    part = MaxErrors(percent=0.29)
    assert part.allows(29, 9971)
    assert not part.allows(30, 9970)
    assert MaxErrors(percent=0.0).allows(0, 0)
    assert [str(limit) for limit in (part, MaxErrors(percent=5.0), MaxErrors(count=0))] == ["0.29%", "5%", "0"]

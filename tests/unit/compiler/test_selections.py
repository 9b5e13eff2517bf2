"""Selections in the block `dagster:`, judged by the compiler with the answers of whoever resolves them."""

from __future__ import annotations

import pytest
from support.projects import PLUGINS, profile, sink, source, sql

from rivet_dagster.cache import CompileCache
from rivet_dagster.compiler.compilation import compile_project
from rivet_dagster.compiler.selections import SelectableAsset
from rivet_dagster.errors import Diagnostic, RivetError
from rivet_dagster.model.automation import (
    AfterSuccessSensor,
    AutomationRule,
    FreshnessRule,
    Sensors,
    TargetSchedule,
)
from rivet_dagster.model.project import DagsterSettings, Project
from rivet_dagster.model.text_lines import Origin

ORIGIN = Origin("rivet.yaml", 3, {"target": 4, "monitored": 5})
JOINTS = (source("orders"), sql("paid", "SELECT * FROM orders", tags=["fresh"], group="marts_1"), sink("out", "paid"))


def schedules(*targets: str) -> DagsterSettings:
    entries = [
        TargetSchedule(name=f"s{n}", target=t, cron_schedule="@daily", origin=ORIGIN) for n, t in enumerate(targets)
    ]
    return DagsterSettings(key_prefix=("shop",), schedules=tuple(entries))


class Answers:
    """Answers by text; all other texts select the sink."""

    def __init__(self, **known):
        self.known = {text.replace("__", ":"): answer for text, answer in known.items()}
        self.asked: list[tuple[list[SelectableAsset], list[str]]] = []

    def __call__(self, assets, texts):
        self.asked.append((list(assets), list(texts)))
        return [self.known.get(text, ["out"]) for text in texts]


def messages(settings, select, joints=JOINTS, cache=None, errors=()):
    project = Project(profile(), joints, dagster=settings, errors=errors)
    plan = compile_project(project, PLUGINS, cache, select=select)
    return [(error.line, error.message) for error in plan.errors if error.code == "RVT-115"]


def test_each_kind_of_entry_is_judged_at_its_key():
    settings = DagsterSettings(
        schedules=schedules("key:a").schedules,
        sensors=Sensors(
            after_success=(AfterSuccessSensor(name="n", monitored="key:b", target="key:c", origin=ORIGIN),)
        ),
        automation=(AutomationRule(target="key:d", condition="eager", origin=ORIGIN),),
        freshness=(FreshnessRule(target="key:e", origin=ORIGIN),),
    )
    empty = Answers(key__a=[], key__b=["orders"], key__c="'key:c' is no asset selection", key__d=[], key__e=[])
    assert messages(settings, empty) == [
        (4, "automation rule 1: 'key:d' selects nothing of this project; known: orders, out, paid"),
        (4, "freshness rule 1: 'key:e' selects nothing of this project; known: orders, out, paid"),
        (4, "schedule 's0': 'key:a' selects nothing of this project; known: orders, out, paid"),
        (4, "sensor 'n': `target`: 'key:c' is no asset selection; known: orders, out, paid"),
        (5, "sensor 'n': `monitored`: 'key:b' selects only orders, which can only be read; known: orders, out, paid"),
    ]
    assert messages(settings, Answers(key__e=["orders"])) == []  # a source may be required to be fresh


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ('+key:"shop/piad"', "did you mean 'shop/paid'?"),
        ("key:paid", "did you mean 'shop/paid'?"),
        ("piad", "did you mean 'shop/paid'?"),
        ('not key:"shop/paid" and group:"marts_2"', "did you mean 'marts_1'?"),
        ("tag:frsh", "did you mean 'fresh'?"),
        ("tag:fresh=no", ""),
        ("key:x*", ""),
        ("kind:iceberg", "known: filesystem, pyspark, sink, source, sql"),
    ],
)
def test_the_nearest_value_is_named(text, hint):
    ((_, message),) = messages(schedules(text), lambda assets, texts: [[]])
    assert message == f"schedule 's0': {text!r} selects nothing of this project{f'; {hint}' if hint else ''}"


def test_assets_are_told_with_all_that_selections_ask_for():
    select = Answers()
    assert messages(schedules("*"), select) == []
    ((assets, texts),) = select.asked
    assert texts == ["*"]
    assert assets == [
        SelectableAsset("orders", ("shop", "orders"), (), "default", {}, (), ("source", "pyspark", "filesystem")),
        SelectableAsset(
            "paid", ("shop", "paid"), (("shop", "orders"),), "marts_1", {"fresh": ""}, (), ("sql", "pyspark")
        ),
        SelectableAsset(
            "out", ("shop", "out"), (("shop", "paid"),), "default", {}, (), ("sink", "pyspark", "filesystem")
        ),
    ]


def test_selections_are_judged_beside_errors_of_joints():
    joints = (*JOINTS, sql("bad", "SELECT 1; SELECT 2"))
    wrong = Answers(key__a=[], kind__x=[], group__x=[])
    settings = schedules("key:a", "kind:x", "group:x")
    plan = compile_project(Project(profile(), joints, dagster=settings), PLUGINS, select=wrong)
    assert [error.code for error in plan.errors] == ["RVT-207", "RVT-115", "RVT-115"]
    assert wrong.asked[0][1] == ["group:x", "key:a"]  # what is stored, and so its kind, is not known

    unread = Diagnostic("RVT-203", "unknown key", "lost", "joints/lost.yaml", 2)
    select = Answers(key__a=[])
    assert [text for _, text in messages(settings, select, errors=(unread,))] == [
        "schedule 's0': 'key:a' selects nothing of this project; known: shop/lost, shop/orders, shop/out, shop/paid"
    ]
    assert select.asked[0][0][-1] == SelectableAsset("lost", ("shop", "lost"), (), "default", {}, (), ())

    circle = (sql("a", "SELECT * FROM b"), sql("b", "SELECT * FROM a"))
    assert messages(schedules("key:c"), Answers(key__c=[]), circle) == []


def test_an_answer_is_cached_until_the_assets_or_the_texts_change():
    select = Answers(key__a=[])
    cache = CompileCache()
    first = messages(schedules("key:a"), select, cache=cache)
    kept = CompileCache(cache.used)
    assert (
        messages(schedules("key:a"), None, cache=kept) == []
    )  # nothing is judged without `select`, but all stays cached
    again = CompileCache(kept.used)
    assert (messages(schedules("key:a"), select, cache=again), len(select.asked)) == (first, 1)
    messages(schedules("key:b"), select, cache=again)
    messages(schedules("key:a"), select, (*JOINTS, source("more")), cache=again)
    assert len(select.asked) == 3


def test_what_dagster_refuses_of_a_joint_is_told_by_the_errors_of_the_joint():
    def refuse(assets, texts):
        raise RivetError("RVT-115", "Dagster refuses an asset")

    assert messages(schedules("key:a"), refuse, (*JOINTS, sql("bad", "SELECT 1; SELECT 2"))) == []
    with pytest.raises(RivetError, match="refuses an asset"):
        messages(schedules("key:a"), refuse)

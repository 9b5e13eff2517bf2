"""Properties of every plan, for any graph."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.projects import compile_joints
from support.random_projects import Shape, shapes
from support.torture import examples

from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.model.joint import PYTHON, SINK, SOURCE, SQL, Joint

FAST = settings(max_examples=examples(20, 100), deadline=None, database=None, derandomize=True,
                suppress_health_check=list(HealthCheck))  # fmt: skip


def plan_of(shape: Shape) -> CompiledAssembly:
    plan = compile_joints(*shape.joints, functions=shape.functions, max_fusion_depth=6)
    assert plan.success, plan.errors
    return plan


def declared(shape: Shape) -> dict[str, Joint]:
    return {joint.name: joint for joint in shape.joints}


@FAST
@given(shapes())
def test_every_joint_is_in_one_group_with_one_exit_at_the_end(shape: Shape) -> None:
    plan = plan_of(shape)
    members = [name for group in plan.fused_groups for name in group.joints]
    assert sorted(members) == sorted(declared(shape))
    for group in plan.fused_groups:
        assert group.name == group.exit == group.joints[-1]
        assert {plan.joint(name).group for name in group.joints} == {group.name}
        inside = set(group.joints)
        leaving = {n for n in group.joints if not plan.consumers(n) or not set(plan.consumers(n)) <= inside}
        assert leaving == {group.exit}
        assert set(group.inputs) == {u for n in group.joints for u in plan.joint(n).upstream} - inside
        place = {name: n for n, name in enumerate(group.joints)}
        assert all(place[u] < place[n] for n in group.joints for u in plan.joint(n).upstream if u in inside)


@FAST
@given(shapes())
def test_joints_that_must_not_share_a_query_do_not(shape: Shape) -> None:
    plan = plan_of(shape)
    joints = declared(shape)
    for group in plan.fused_groups:
        assert {plan.joint(name).engine for name in group.joints} == {group.engine}
        for name in group.joints:
            joint = joints[name]
            if joint.type == PYTHON:
                assert group.joints == (name,)
            if name != group.exit:
                assert not joint.eager
                assert not joint.quality
                assert joint.type in (SOURCE, SQL)
                assert joint.type == SOURCE or len(plan.consumers(name)) == 1


@FAST
@given(shapes())
def test_joints_that_may_share_a_query_do(shape: Shape) -> None:
    """A stored joint has the reason in the plan."""
    plan = plan_of(shape)
    joints = declared(shape)
    for stored in plan.materializations:
        joint, readers = joints[stored.joint], [joints[n] for n in plan.consumers(stored.joint)]
        holds = {
            "eager": joint.eager,
            "python_boundary": PYTHON in {joint.type, *(r.type for r in readers)},
            "assertion_boundary": bool(joint.quality),
            "multi_consumer": len(readers) > 1,
            "non_deterministic": "again" in (readers[0].sql or ""),
            "engine_change": {plan.joint(r.name).engine for r in readers} != {plan.joint(joint.name).engine},
            "depth": len(readers) == 1 and readers[0].type == SQL,
        }
        assert holds[stored.reason], stored
        earlier = list(holds)[: list(holds).index(stored.reason)]
        assert not any(holds[reason] for reason in earlier if reason != "non_deterministic"), stored


@FAST
@given(shapes())
def test_groups_run_after_their_upstream_and_waves_are_the_levels(shape: Shape) -> None:
    plan = plan_of(shape)
    assert tuple(group.name for group in plan.fused_groups) == plan.execution_order
    reads = {g.name: {plan.joint(name).group for name in g.inputs} for g in plan.fused_groups}
    done: list[str] = []
    for name in plan.execution_order:
        ready = {g for g in reads if g not in done and reads[g] <= set(done)}
        assert name == min(ready)
        done.append(name)
    waves: list[tuple[str, ...]] = []
    while len(finished := {name for wave in waves for name in wave}) < len(reads):
        waves.append(tuple(sorted(g for g in reads if g not in finished and reads[g] <= finished)))
    assert plan.waves == tuple(waves)


@FAST
@given(shapes())
def test_stored_joints_are_the_edges_between_groups_except_sources(shape: Shape) -> None:
    plan = plan_of(shape)
    edges: dict[str, set[str]] = {}
    for group in plan.fused_groups:
        for name in group.inputs:
            edges.setdefault(name, set()).add(group.name)
    stored = {name for name in edges if plan.joint(name).type not in (SOURCE, SINK)}
    assert [m.joint for m in plan.materializations] == [n for n in plan.execution_order if n in stored]
    for found in plan.materializations:
        assert set(found.evict_after) == edges[found.joint]
        assert list(found.evict_after) == [n for n in plan.execution_order if n in found.evict_after]
    assert {(b.joint, b.producer, b.consumer) for b in plan.engine_boundaries} == {
        (name, plan.joint(name).group, group) for name, groups in edges.items() for group in groups
    }
    assert len(plan.engine_boundaries) == sum(len(groups) for groups in edges.values())


@FAST
@given(shapes(), st.randoms())
def test_the_order_of_declarations_changes_no_byte(shape: Shape, chance) -> None:
    expected = plan_of(shape).to_json()
    joints = list(shape.joints)
    chance.shuffle(joints)
    assert plan_of(Shape(joints, shape.functions)).to_json() == expected


@FAST
@given(shapes())
def test_a_plan_survives_json(shape: Shape) -> None:
    plan = plan_of(shape)
    again = CompiledAssembly.from_json(plan.to_json())
    assert again == plan
    assert again.to_json() == plan.to_json()


@FAST
@given(shapes())
def test_a_fused_query_contains_the_authors_texts_unchanged_and_in_order(shape: Shape) -> None:
    plan = plan_of(shape)
    joints = declared(shape)
    for group in plan.fused_groups:
        if joints[group.exit].type == SQL:
            parts = [f"{name} AS (\n{joints[name].sql}\n)" for name in group.joints if joints[name].type == SQL]
            assert group.sql == "WITH " + ",\n".join(parts) + f"\nSELECT * FROM {group.exit}"

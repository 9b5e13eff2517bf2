"""How long the definitions of a project take to load, beside bare Dagster's for the same assets and checks.

    python benchmarks/load.py [--joints 2000] [--rounds 7] [--only bare state ...]

Each figure is of a fresh process, from after its imports until Dagster has found the definitions loadable:

    bare     the same specs, metadata and checks in the same number of multi-assets, as if written down in Python
    state    from the plan that a component has as its state
    compile  from the files, with the cache of an earlier compilation

The project is the wide one of compile.py.
"""

# No `from __future__ import annotations` here: Dagster reads the annotation of a step's context as a class.

import argparse
import json
import pickle
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
from compile import wide, write_project
from measuring import Measured, Spread, markdown, mean_ratio, ratios

from rivet_dagster.definitions.component import RivetProjectComponent, write_state
from rivet_dagster.definitions.load import load_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.specs.selection import beta_accepted
from rivet_dagster.definitions.specs.translator import DagsterRivetTranslator
from rivet_dagster.loading import compile_directory
from rivet_dagster.model.joint import SOURCE

STATE, WRITTEN = "state", "written.pickle"
SPEC = ("description", "group_name", "owners", "kinds", "code_version")
CHECK = ("name", "description", "blocking")


def from_state(root: Path) -> dg.Definitions:
    """What a component does in the process of a run."""
    component = RivetProjectComponent(root)
    return component.build_defs_from_state(dg.ComponentTree.for_test().load_context, root / STATE)


def write_down(root: Path) -> None:
    """All that Dagster is told of a project as plain values: what ``bare`` makes definitions of."""
    plan = compile_directory(root).raise_errors()
    write_state(root / STATE, plan)
    project = RivetProject.of(plan, root, DagsterRivetTranslator())
    steps = []
    for group in plan.fused_groups:
        made = [plan.joint(name) for name in group.joints if plan.joint(name).type != SOURCE]
        steps.append(
            {
                "name": group.name,
                "specs": [_plain_spec(project.asset_spec(joint.name)) for joint in made],
                "checks": [_plain_check(project.check_spec(c, joint.name)) for joint in made for c in joint.checks],
                "inputs": [name for name in group.before if plan.joint(name).type != SOURCE],
            }
        )
    sources = [_plain_spec(project.asset_spec(joint.name)) for joint in plan.joints if joint.type == SOURCE]
    written = {"groups": [step for step in steps if step["specs"]], "sources": sources}
    (root / WRITTEN).write_bytes(pickle.dumps(written))


def bare(written: Mapping[str, Any]) -> dg.Definitions:
    """The same assets, checks and job without a word of ours."""

    @dg.multi_observable_source_asset(
        name="observe", specs=[_spec(plain) for plain in written["sources"]], can_subset=True
    )
    def observe(context: dg.AssetExecutionContext): ...

    assets = [_bare_group(step) for step in written["groups"]]
    keys = [key for asset in assets for key in asset.keys]
    return dg.Definitions(
        assets=[observe, *assets],
        jobs=[dg.define_asset_job("all", dg.AssetSelection.assets(*keys))],
        resources={"rivet_engine_spark": object(), "rivet_io_manager": dg.mem_io_manager},
        executor=dg.in_process_executor,
    )


def _bare_group(step: Mapping[str, Any]) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=step["name"],
        specs=[_spec(plain) for plain in step["specs"]],
        check_specs=[_check(plain) for plain in step["checks"]],
        ins={name: dg.AssetIn(dg.AssetKey(name)) for name in step["inputs"]},
        can_subset=True,
        required_resource_keys={"rivet_engine_spark"},
        op_tags={"rivet/engine": "spark"},
        pool="rivet_spark",
        description=f"{len(step['specs'])} joints",
    )
    def run(context: dg.AssetExecutionContext, **given: Any): ...

    return run


def _plain_spec(spec: dg.AssetSpec) -> dict[str, Any]:
    return {
        **{name: getattr(spec, name) for name in SPEC},
        "key": spec.key.path,
        "deps": [dep.asset_key.path for dep in spec.deps],
        "tags": {key: value for key, value in spec.tags.items() if not key.startswith("dagster/kind/")},
        "metadata": {key: _plain(value) for key, value in spec.metadata.items()},
    }


def _spec(plain: Mapping[str, Any]) -> dg.AssetSpec:
    return dg.AssetSpec(
        key=dg.AssetKey(plain["key"]),
        deps=[dg.AssetKey(path) for path in plain["deps"]],
        tags=plain["tags"],
        metadata={key: _MAKERS[kind](value) for key, (kind, value) in plain["metadata"].items()},
        **{name: plain[name] for name in SPEC},
    )


def _plain_check(spec: dg.AssetCheckSpec) -> dict[str, Any]:
    return {
        **{name: getattr(spec, name) for name in CHECK},
        "asset": spec.asset_key.path,
        "metadata": dict(spec.metadata),
        "additional_deps": [dep.asset_key.path for dep in spec.additional_deps],
    }


def _check(plain: Mapping[str, Any]) -> dg.AssetCheckSpec:
    return dg.AssetCheckSpec(
        asset=dg.AssetKey(plain["asset"]),
        additional_deps=[dg.AssetKey(path) for path in plain["additional_deps"]],
        metadata=plain["metadata"],
        **{name: plain[name] for name in CHECK},
    )


def _plain(value: Any) -> tuple[str, Any]:
    if isinstance(value, dg.MarkdownMetadataValue):
        return "markdown", value.md_str
    if isinstance(value, dg.TableSchema):
        return "schema", [(column.name, column.type) for column in value.columns]
    if isinstance(value, dg.TableColumnLineage):
        found = value.deps_by_column.items()
        return "lineage", {name: [(dep.asset_key.path, dep.column_name) for dep in deps] for name, deps in found}
    if isinstance(value, dg.CodeReferencesMetadataValue):
        return "code", [(one.file_path, one.line_number, one.label) for one in value.code_references]
    assert isinstance(value, str)
    return "text", value


def _lineage(plain: Mapping[str, Any]) -> dg.TableColumnLineage:
    return dg.TableColumnLineage(
        {name: [dg.TableColumnDep(dg.AssetKey(path), column) for path, column in deps] for name, deps in plain.items()}
    )


def _code(plain: list[tuple[str, int, str]]) -> dg.CodeReferencesMetadataValue:
    return dg.CodeReferencesMetadataValue(
        code_references=[
            dg.LocalFileCodeReference(file_path=path, line_number=line, label=label) for path, line, label in plain
        ]
    )


_MAKERS: Mapping[str, Callable[[Any], Any]] = {
    "markdown": dg.MetadataValue.md,
    "schema": lambda plain: dg.TableSchema([dg.TableColumn(name, kind) for name, kind in plain]),
    "lineage": _lineage,
    "code": _code,
    "text": lambda plain: plain,
}


def load_once(contender: str, root: Path) -> dict[str, float]:
    """Seconds, processor seconds, peak memory (MB), assets and checks; to be called in a fresh process."""
    written = pickle.loads((root / WRITTEN).read_bytes()) if contender == "bare" else {}
    make = {"bare": lambda: bare(written), "state": lambda: from_state(root), "compile": lambda: load_definitions(root)}
    begin, worked = time.perf_counter(), time.process_time()
    with beta_accepted():
        definitions = make[contender]()
        dg.Definitions.validate_loadable(definitions)
    seconds, cpu = time.perf_counter() - begin, time.process_time() - worked
    graph = definitions.resolve_asset_graph()
    return {
        "seconds": seconds,
        "cpu": cpu,
        "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "assets": len(graph.get_all_asset_keys()),
        "checks": len(graph.asset_check_keys),
    }


def _in_a_process(name: str, root: Path) -> str:
    command = [sys.executable, __file__, "--here", name, str(root)]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def measure(root: Path, contenders: list[str], rounds: int) -> dict[str, list[Measured[dict[str, float]]]]:
    """Every contender once a round, in an order that is shuffled each time, the same in every call."""
    order = random.Random(0)
    found: dict[str, list[Measured[dict[str, float]]]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name in order.sample(contenders, len(contenders)):
            result = json.loads(_in_a_process(name, root))
            found[name].append(Measured(result["seconds"], result["cpu"], result))
    (sizes,) = {(run.result["assets"], run.result["checks"]) for runs in found.values() for run in runs}
    print(f"{sizes[0]:.0f} assets, {sizes[1]:.0f} checks", flush=True)
    return found


def main() -> None:
    """Print a table; times are the median (least..most), ratios those to bare Dagster in the same round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--joints", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=("bare", "state", "compile"), default=["bare", "state", "compile"])
    parser.add_argument("--here", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.here and args.here[0] == "write":
        write_down(Path(args.here[1]))
        return
    if args.here:
        print(json.dumps(load_once(args.here[0], Path(args.here[1]))))
        return
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_project(root, wide(args.joints))
        _in_a_process("write", root)
        found = measure(root, args.only, args.rounds)
    rows = []
    for name, runs in found.items():
        cpu = Spread.of(run.cpu_seconds for run in runs)
        memory = max(run.result["mb"] for run in runs)
        compared = found["bare"] if "bare" in found and name != "bare" and len(runs) > 1 else []
        worked = [run.cpu_seconds / other.cpu_seconds for run, other in zip(runs, compared, strict=False)]
        told = [mean_ratio(some) if some else "" for some in (ratios(runs, compared) if compared else [], worked)]
        rows.append([name, str(Spread.of(run.seconds for run in runs)), str(cpu), f"{memory:.0f}", *told])
    print(markdown(["", "seconds", "CPU seconds", "MB", "ratio to bare", "CPU ratio"], rows))


if __name__ == "__main__":
    main()

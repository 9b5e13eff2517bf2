"""``rivet-dagster watermark``: list, set and reset the watermarks from which published joints read on."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rivet_dagster.catalogs.capabilities import capable
from rivet_dagster.catalogs.capabilities.targets import HasWatermarks
from rivet_dagster.cli.environment_command import runtime_of
from rivet_dagster.compiler.joints import ComputedJoint
from rivet_dagster.compiler.plan import CompiledAssembly
from rivet_dagster.errors import Diagnostic, RivetError, nearest
from rivet_dagster.execution.reading.watermark import watermark_column
from rivet_dagster.execution.runtime import Runtime
from rivet_dagster.model.target import WatermarkColumn
from rivet_dagster.model.watermark import Override, as_text, parse


@dataclass(frozen=True)
class _Sink:
    """A published joint and the watermark that its write strategy declares."""

    joint: ComputedJoint
    declared: WatermarkColumn


@dataclass(frozen=True)
class _Watermark:
    """The watermark of a sink: the greatest value of ``column`` in the target, and what was set in its place.

    Of a sink that has published nothing, only the name is there.
    """

    sink: str
    column: str | None = None
    type: str | None = None
    value: str | None = None
    lookback: str | float | None = None
    override: Override | None = None

    @property
    def text(self) -> str:
        """The watermark as a line."""
        if self.column is None:
            return f"{self.sink}: nothing is published"
        parts = [f"{self.sink}: {self.column} {self.type}", f"in the target {_shown(self.value)}"]
        parts += [f"lookback {self.lookback}"] if self.lookback is not None else []
        parts += [f"set for the next run {_shown(self.override.value)}"] if self.override is not None else []
        return ", ".join(parts)


def list_watermarks(
    root: Path, profile: str | None, name: str | None, environment: str | None, as_json: bool = False
) -> int:
    """List the watermark of a sink, or of all that have one; an engine starts only for catalogs that need one."""
    runtime = runtime_of(root, profile, environment)
    assembly = runtime.assembly
    sinks = _sinks_with_watermarks(assembly)
    listed = sinks if name is None else {name: _sink(name, sinks, assembly)}
    return _list_json(listed, runtime) if as_json else _list(listed, runtime)


def override_watermark(root: Path, profile: str | None, name: str, value: str | None, environment: str | None) -> int:
    """Set from where the next run of a sink reads on; None reads everything. Raises RVT-306, RVT-409."""
    runtime = runtime_of(root, profile, environment)
    sink = _sink(name, _sinks_with_watermarks(runtime.assembly), runtime.assembly)
    _override(sink, _catalog(sink, runtime), value)
    return 0


def _catalog(sink: _Sink, runtime: Runtime) -> HasWatermarks:
    return capable(runtime.catalog_within_reach(str(sink.joint.catalog)), HasWatermarks)


def _sinks_with_watermarks(assembly: CompiledAssembly) -> dict[str, _Sink]:
    joints = [assembly.computed(j.name) for j in assembly.joints if assembly.target(j.name) is not None]
    targets = [(joint, assembly.target(joint.name)) for joint in joints]
    return {j.name: _Sink(j, target.watermark) for j, target in targets if target is not None and target.watermark}


def _sink(name: str, sinks: dict[str, _Sink], assembly: CompiledAssembly) -> _Sink:
    if name in sinks:
        return sinks[name]
    target = assembly.target(name)
    why = "has no `watermark_column`" if target is not None and target.declared else "is not published"
    why = f"'{name}' {why}" if any(joint.name == name for joint in assembly.joints) else f"no joint is named '{name}'"
    remedy = "Name a published joint with a `watermark_column`."
    raise RivetError("RVT-306", f"{why}{nearest(name, sinks)}", remediation=remedy)


def _list(sinks: dict[str, _Sink], runtime: Runtime) -> int:
    """Print a line for each sink, then raise the errors of those that have one."""
    wrong: list[Diagnostic] = []
    if not sinks:
        print("no joint has a `watermark_column`")
    for sink in sinks.values():
        try:
            print(_watermark(sink, runtime).text)
        except RivetError as error:
            wrong += error.diagnostics
    if wrong:
        raise RivetError.of(wrong)
    return 0


def _list_json(sinks: dict[str, _Sink], runtime: Runtime) -> int:
    """Print all watermarks, and the errors of sinks that have one."""
    listed: list[dict[str, Any]] = []
    wrong: list[Diagnostic] = []
    for sink in sinks.values():
        try:
            listed.append(asdict(_watermark(sink, runtime)))
        except RivetError as error:
            wrong += error.diagnostics
    errors = [error.to_dict() for error in wrong]
    report = {"success": not wrong, "watermarks": listed, "errors": errors}
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return RivetError.of(wrong).exit_code if wrong else 0


def _watermark(sink: _Sink, runtime: Runtime) -> _Watermark:
    """Return the watermark of a sink. Raises RVT-403, RVT-511."""
    catalog = _catalog(sink, runtime)
    published = catalog.current(str(sink.joint.table))
    if published is None:
        return _Watermark(sink.joint.name)
    column, type_ = watermark_column(sink.joint, sink.declared, published)
    value, override = catalog.max_of(published, column), catalog.watermark_override(published)
    text = None if value is None else as_text(value)
    return _Watermark(sink.joint.name, column, type_, text, sink.declared.lookback, override)


def _override(sink: _Sink, catalog: HasWatermarks, text: str | None) -> None:
    """Set the value from which the next run reads on; None reads everything. Raise RVT-409."""
    joint = sink.joint
    published = catalog.current(str(joint.table))
    if published is None:
        remedy = "Run it: a first run reads everything."
        raise _refused(joint, "nothing is published yet, so there is no watermark to replace", remedy)
    column, type_ = watermark_column(joint, sink.declared, published)
    try:
        value = None if text is None else as_text(parse(text, type_))
    except ValueError as error:
        raise _refused(joint, f"the column '{column}' is of type {type_}: {error}") from None
    catalog.override_watermark(published, Override(value))
    reads = "reads everything" if value is None else f"reads on from {column} {value}"
    print(f"{joint.name}: the next run {reads}; once it has published, the watermark is the target's own again")


def _refused(sink: ComputedJoint, message: str, remediation: str | None = None) -> RivetError:
    return RivetError("RVT-409", message, joint=sink.name, file=sink.file, line=sink.line, remediation=remediation)


def _shown(value: str | None) -> str:
    return "NULL" if value is None else value

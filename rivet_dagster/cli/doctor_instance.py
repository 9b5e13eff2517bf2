"""The project, and the Dagster instance that runs it: what the one needs, compared with what the other has."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from rivet_dagster.definitions.load import build_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.engines import engine_pool
from rivet_dagster.engines.registry import concurrency_limit
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order
from rivet_dagster.model.joint import SOURCE

_ON = (dg.DefaultScheduleStatus.RUNNING, dg.DefaultSensorStatus.RUNNING)


def project(root: Path, profile: str | None) -> tuple[tuple[Finding, ...], Needs]:
    """Return the findings of the project and its needs; a project that does not load has none."""
    try:
        loaded = RivetProject.load(root, profile)
        definitions = build_definitions(loaded)
    except RivetError as error:
        return broken("project", error), Needs()
    assembly = loaded.assembly
    groups = sum(assembly.joint(group.exit).type != SOURCE for group in assembly.fused_groups)
    text = f"profile {assembly.profile}: {_count(len(assembly.joints), 'joint')}, made by {_count(groups, 'step')}"
    warnings = (
        doubtful("project", str(warning).partition("\n")[0], warning.remediation or "See `rivet-dagster compile`.")
        for warning in assembly.warnings
    )
    return (in_order("project", text), *warnings), needs_of(definitions, loaded)


def needs_of(definitions: dg.Definitions, project: RivetProject) -> Needs:
    """Return what the definitions of a project need of the instance."""
    ticking: list[Any] = [*(definitions.schedules or ()), *(definitions.sensors or ())]
    specs = definitions.resolve_all_asset_specs()
    limits = {engine_pool(spec.name): concurrency_limit(spec) for spec in project.assembly.engines}
    steps = [asset.op for asset in definitions.assets or () if isinstance(asset, dg.AssetsDefinition)]
    return Needs(
        pools=limits,
        named=tuple(sorted({step.pool for step in steps if step.pool is not None} - limits.keys())),
        ticking=_names(ticking),
        running=_names(trigger for trigger in ticking if trigger.default_status in _ON),
        fresh=tuple(sorted(spec.key.to_user_string() for spec in specs if spec.freshness_policy is not None)),
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _names(definitions: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted(definition.name for definition in definitions))


@dataclass(frozen=True)
class Needs:
    """The requirements of a project on its Dagster instance.

    ``pools`` are the limits of its engines' pools by name, ``named`` the other pools that joints name. ``ticking`` are
    its schedules and sensors, ``running`` those that run by default; ``fresh`` are the assets with a freshness policy.
    """

    pools: Mapping[str, int] = field(default_factory=dict)
    named: tuple[str, ...] = ()
    ticking: tuple[str, ...] = ()
    running: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()


EXAMPLE = "as docs/dagster.yaml does"
Settings = Mapping[str, Any]
"""The content of dagster.yaml."""


def instance(needs: Needs, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Examine the instance of ``DAGSTER_HOME``. Dagster opens it, and creates its files where there are none yet."""
    home = environ.get("DAGSTER_HOME")
    if not home:
        text = "DAGSTER_HOME is not set: what ran is forgotten when the process ends, and nothing limits pools"
        yield doubtful("instance", text, "Set it to a folder with a dagster.yaml in it; docs/dagster.yaml is one.")
        return
    try:
        declared = settings(home)
    except RivetError as error:
        yield from broken("instance", error)
        return
    yield in_order("instance", f"DAGSTER_HOME={home}, storage: {storage(declared)}")
    yield run_monitoring(declared)
    with ThreadPoolExecutor() as threads:
        limits, alive = threads.submit(pool_limits, environ), threads.submit(daemon_lives, environ)
        yield from pools(declared, limits.result(), needs)
        yield from retention(declared, needs)
        yield from freshness(declared, needs)
        yield daemon(alive.result(), needs)


def settings(home: str) -> Settings:
    """Return the content of the ``dagster.yaml`` of ``home``. Raise RVT-124 where Dagster cannot open the instance."""
    try:
        dg.DagsterInstance.get().dispose()
    except Exception as error:  # of any database driver; its text may hold secrets
        message = f"Dagster cannot open the instance of DAGSTER_HOME={home}: {type(error).__name__}"
        raise RivetError("RVT-124", message) from error
    file = Path(home) / "dagster.yaml"
    return (yaml.safe_load(file.read_text("utf-8")) if file.exists() else None) or {}


def storage(settings: Settings) -> str:
    """Return the kind of storage in which the instance keeps its runs and events.

    >>> storage({"storage": {"postgres": {"postgres_url": "..."}}}), storage({})
    ('postgres', 'sqlite')
    """
    declared = settings.get("storage") or settings.get("event_log_storage") or {"sqlite": {}}
    return str(declared.get("class") or next(iter(declared)))


def run_monitoring(settings: Settings) -> Finding:
    """Report whether run monitoring detects crashed runs and frees the pool slots that they held."""
    declared = settings.get("run_monitoring") or {}
    remedy = f"Set enabled and free_slots_after_run_end_seconds under run_monitoring, {EXAMPLE}."
    if not declared.get("enabled"):
        return doubtful("run monitoring", "off: a run whose process dies stays 'started' and keeps its slots", remedy)
    if not declared.get("free_slots_after_run_end_seconds"):
        return doubtful("run monitoring", "on, but the slots of pools that a dead run held are never freed", remedy)
    return in_order("run monitoring", "on, the slots of dead runs are freed")


def pools(settings: Settings, limits: Mapping[str, int] | None, needs: Needs) -> Iterator[Finding]:
    """Report whether each engine's pool has the limit of the profile, and whether other pools have any limit."""
    if limits is None:
        text = "this instance's storage cannot limit pools: each run starts as many steps as it likes"
        yield doubtful("pools", text, "Run `dagster instance migrate`.")
        return
    concurrency = settings.get("concurrency") or {}
    default = (concurrency.get("pools") or {}).get("default_limit", concurrency.get("default_op_concurrency_limit"))
    for pool, wanted in needs.pools.items():
        limit = limits.get(pool, default)
        if limit == wanted:
            yield in_order("pools", f"{pool} runs at most {wanted} at once")
            continue
        has = "has no limit" if limit is None else f"has the limit {limit}"
        text = f"{pool} {has}, the profile's concurrency_limit is {wanted}"
        yield doubtful("pools", text, f"dagster instance concurrency set {pool} {wanted}")
    for pool in needs.named:
        if limits.get(pool, default) is None:
            text = f"{pool}, which a joint names, has no limit"
            yield doubtful("pools", text, f"dagster instance concurrency set {pool} LIMIT")


def retention(settings: Settings, needs: Needs) -> Iterator[Finding]:
    """Report whether old ticks of the project's schedules and sensors are deleted."""
    if not needs.ticking:
        return
    missing = [kind for kind in ("schedule", "sensor") if not (settings.get("retention") or {}).get(kind)]
    if missing:
        text = f"each tick of a {' and of a '.join(missing)} is kept for ever"
        yield doubtful("retention", text, f"Set purge_after_days under retention, {EXAMPLE}.")
    else:
        yield in_order("retention", "old ticks are deleted")


def freshness(settings: Settings, needs: Needs) -> Iterator[Finding]:
    """Report whether the daemon evaluates the freshness policies of the project."""
    if not needs.fresh:
        return
    count = f"{len(needs.fresh)} asset{'' if len(needs.fresh) == 1 else 's'} with a freshness policy"
    if (settings.get("freshness") or {}).get("enabled", True):
        yield in_order("freshness", f"{count}, which the daemon judges")
    else:
        text = f"{count}, and freshness is switched off"
        yield doubtful("freshness", text, f"Set enabled under freshness, {EXAMPLE}.")


def daemon(alive: bool, needs: Needs) -> Finding:
    """Report whether Dagster's daemon runs; without it there are no ticks and no run leaves the queue."""
    if alive:
        return in_order("daemon", "alive")
    if not needs.running:
        return in_order("daemon", "not running; `dagster dev` and `dagster-daemon run` start it")
    text = f"not running: {', '.join(needs.running)} will not start"
    return doubtful("daemon", text, "Start it with `dagster-daemon run`, or all of Dagster with `dagster dev`.")


_SECONDS = 120.0
_PROGRAM = """
import sys
from importlib.metadata import entry_points
(script,) = entry_points(group="console_scripts", name=sys.argv[1])
sys.argv = sys.argv[1:]
script.load()()
"""
_LIMIT = re.compile(r'^"(?P<pool>.+)": \d+ / (?P<limit>\d+) slots occupied$', re.MULTILINE)


def console_script(name: str) -> list[str]:
    """Return the command that runs an installed console script with this Python; the script need not be on PATH."""
    return [sys.executable, "-c", _PROGRAM, name]


def pool_limits(environ: Mapping[str, str]) -> dict[str, int] | None:
    """Return the limits of the pools that have one; None where the instance's storage does not support limits."""
    done = _call(environ, "dagster", "instance", "concurrency", "get", "--all")
    return limits_in(done.stdout) if done.returncode == 0 else None


def limits_in(text: str) -> dict[str, int]:
    """Parse the output of `dagster instance concurrency get --all`.

    >>> limits_in('Concurrency limits:\\n"rivet_spark": 0 / 2 slots occupied\\n')
    {'rivet_spark': 2}
    """
    return {match["pool"]: int(match["limit"]) for match in _LIMIT.finditer(text)}


def daemon_lives(environ: Mapping[str, str]) -> bool:
    """Return whether all daemons that the instance needs have sent a recent heartbeat."""
    return _call(environ, "dagster-daemon", "liveness-check").returncode == 0


def _call(environ: Mapping[str, str], script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*console_script(script), *arguments],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )

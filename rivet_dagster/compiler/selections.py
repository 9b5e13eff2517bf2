"""The rule of the selections in the ``dagster:`` block: each selects assets of the project, most also one that is made.

Dagster resolves selections, and takes longer to import than a project to compile. Whoever compiles may pass a function
that has Dagster do it; the answer is cached with the values of this compilation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import NamedTuple

from rivet_dagster.compiler.context import DeclaredContext, GroupsContext
from rivet_dagster.errors import RivetError, nearest
from rivet_dagster.model.automation import AfterSuccessSensor, TargetSensor
from rivet_dagster.model.external_assets import is_external, key_path
from rivet_dagster.model.joint import SOURCE
from rivet_dagster.model.project import DagsterSettings
from rivet_dagster.model.text_lines import Origin

KEY, GROUP, TAG, OWNER, KIND = "key", "group", "tag", "owner", "kind"
"""The attributes of assets in selections whose values are known to a project."""


class SelectableAsset(NamedTuple):  # many are made, and written as JSON, where the answer is cached
    """The asset of a ``joint`` as far as selections can ask for it; ``deps`` are the asset keys that it depends on."""

    joint: str
    key: tuple[str, ...]
    deps: tuple[tuple[str, ...], ...]
    group: str
    tags: Mapping[str, str]
    owners: tuple[str, ...]
    kinds: tuple[str, ...]


Select = Callable[[Sequence[SelectableAsset], Sequence[str]], Sequence[Sequence[str] | str]]
"""A function that returns for each text the joints that it selects; a message for one that is no selection."""


@dataclass(frozen=True)
class _Selection:
    """A selection of the block: ``entry`` names in messages where it is, at the key ``key`` of ``origin``."""

    entry: str
    text: str
    origin: Origin
    key: str = "target"
    makes: bool = True


def check_selections(context: DeclaredContext, select: Select | None) -> None:
    """Report RVT-115 for a selection of nothing, or of sources alone where joints are to be made.

    Without ``select`` nothing is reported. Where joints have errors, not all of their attributes are known: a selection
    that asks for others is not judged.
    """
    selections = [each for each in _selections(context.project.dagster) if _is_judged(each.text, context)]
    graph = context.graph
    if not selections or len(graph.order) < len(graph.joints):
        return
    assets = _assets(context)
    answers = _select(context, assets, sorted({each.text for each in selections}), select)
    if answers is None:
        return
    sources = {name for name, joint in graph.joints.items() if joint.type == SOURCE}
    for each in selections:
        answer = answers[each.text]
        why = answer if isinstance(answer, str) else empty_selection(each.text, answer, sources if each.makes else ())
        if why is not None:
            message = f"{each.entry}: {why}{near_values(each.text, _values(assets))}"
            context.diagnostics.errors.append(each.origin.diagnostic("RVT-115", message, key=each.key))


def empty_selection(text: str, selected: Sequence[str], sources: Collection[str]) -> str | None:
    """Return why a selection of the joints ``selected`` selects nothing but ``sources``; None if it does.

    >>> empty_selection('key:"orders"', ["orders"], {"orders"})
    '\\'key:"orders"\\' selects only orders, which can only be read'
    """
    if any(name not in sources for name in selected):
        return None
    if selected:
        return f"{text!r} selects only {', '.join(selected)}, which can only be read"
    return f"{text!r} selects nothing of this project"


_ATTRIBUTE = re.compile(r'(\w+)\s*:\s*("[^"]*"|[^\s()+]+)')
_BARE = re.compile(r"[\w/]+")


def near_values(text: str, known: Mapping[str, Collection[str]]) -> str:
    """Return the end of a message about a selection: the values nearest to the first one that is not ``known``.

    >>> near_values('+key:"order" and group:marts', {"key": ["sales/orders"], "group": ["marts"]})
    "; did you mean 'sales/orders'?"
    """
    for attribute, value in _values_in(text):
        values = known.get(attribute, ())
        if attribute in known and value not in values and "*" not in value:
            alike = [name for name in values if nearest(_end_of(value), [_end_of(name)], listed=False)]
            return nearest(value, alike or values, cutoff=0.0 if alike else 0.6)
    return ""


def _end_of(key: str) -> str:
    return key.rpartition("/")[2]


def _values_in(text: str) -> Iterator[tuple[str, str]]:
    if _BARE.fullmatch(text):
        yield KEY, text
    for attribute, value in _ATTRIBUTE.findall(text):
        value = value.strip('"')
        yield attribute, value.partition("=")[0].strip('"') if attribute == TAG else value


def _selections(settings: DagsterSettings) -> Iterator[_Selection]:
    for schedule in settings.schedules:
        yield _Selection(f"schedule '{schedule.name}'", schedule.target, schedule.origin)
    for sensor in settings.sensors:
        if isinstance(sensor, TargetSensor):
            yield _Selection(f"sensor '{sensor.name}': `target`", sensor.target, sensor.origin)
        if isinstance(sensor, AfterSuccessSensor):
            entry = f"sensor '{sensor.name}': `monitored`"
            yield _Selection(entry, sensor.monitored, sensor.origin, "monitored")
    for number, rule in enumerate(settings.automation, start=1):
        yield _Selection(f"automation rule {number}", rule.target, rule.origin)
    for number, freshness in enumerate(settings.freshness, start=1):
        yield _Selection(f"freshness rule {number}", freshness.target, freshness.origin, makes=False)


def _is_judged(text: str, context: DeclaredContext) -> bool:
    asked = {attribute for attribute, _ in _ATTRIBUTE.findall(text)}
    if _unread(context):
        return asked <= {KEY}
    # What is stored, and where, follows from the groups.
    return isinstance(context, GroupsContext) or KIND not in asked


def _unread(context: DeclaredContext) -> set[str]:
    """Return the joints of which an error in their file leaves the name alone."""
    return {error.joint for error in context.project.errors if error.joint is not None} - context.graph.joints.keys()


def _select(
    context: DeclaredContext, assets: Sequence[SelectableAsset], texts: Sequence[str], select: Select | None
) -> Mapping[str, Sequence[str] | str] | None:
    """Return the answer for each text; None if there is nobody to ask."""
    question = json.dumps([version("dagster"), texts, assets])
    answers = context.cache.get("selections", question)  # even without `select`: reading it keeps it in the cache
    if select is None:
        return None
    if answers is None:
        try:
            answers = [each if isinstance(each, str) else list(each) for each in select(assets, texts)]
        except RivetError:
            if context.diagnostics.errors:
                return None  # what Dagster refuses of a joint is among them
            raise
        context.cache.put("selections", question, answers)
    return dict(zip(texts, answers, strict=True))


def _assets(context: DeclaredContext) -> list[SelectableAsset]:
    """Return the assets of the project, in topological order, those last that could not be read."""
    graph, project, profile = context.graph, context.project, context.profile
    targets = context.targets if isinstance(context, GroupsContext) else {}
    prefix = project.dagster.key_prefix
    external = {name for name, joint in graph.joints.items() if is_external(joint)}
    keys = {
        name: key_path(str(joint.table)) if name in external else (*prefix, name)
        for name, joint in graph.joints.items()
    }
    engines = {spec.name: (spec.type,) for spec in profile.engines}
    catalogs = {spec.name: (spec.type,) for spec in profile.catalogs}
    assets = []
    for name in graph.order:
        if name in external:
            continue
        joint = graph.joints[name]
        is_source = joint.type == SOURCE
        before = graph.upstream[name] if is_source else graph.before[name]
        stored = joint.catalog if is_source else targets[name].catalog if name in targets else None
        asset = SelectableAsset(
            joint=name,
            key=keys[name],
            deps=tuple(dict.fromkeys([keys[read] for read in before if read in keys])),
            group=joint.group or project.asset_groups.get(name, "default"),
            tags=joint.tags,
            owners=joint.owners,
            kinds=(joint.type, *engines.get(context.engines.get(name, ""), ()), *catalogs.get(stored or "", ())),
        )
        assets.append(asset)
    unread = [SelectableAsset(name, (*prefix, name), (), "default", {}, (), ()) for name in sorted(_unread(context))]
    return [*assets, *unread]


def _values(assets: Sequence[SelectableAsset]) -> dict[str, Collection[str]]:
    return {
        KEY: {"/".join(asset.key) for asset in assets},
        GROUP: {asset.group for asset in assets},
        TAG: {tag for asset in assets for tag in asset.tags},
        OWNER: {owner for asset in assets for owner in asset.owners},
        KIND: {kind for asset in assets for kind in asset.kinds},
    }

"""The published tables to which a joint's rows lead: those that its template can speak of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rivet_dagster.model.joint import Joint


@dataclass(frozen=True)
class TemplateTables:
    """The published joints to which a joint leads, itself among them: ``nearest`` are those with none before them."""

    nearest: tuple[str, ...]
    all: tuple[str, ...]


def template_tables(name: str, consumers: Mapping[str, tuple[str, ...]], joints: Mapping[str, Joint]) -> TemplateTables:
    """Return the tables of the joint ``name``; ``consumers`` are the joints that read each joint.

    >>> mart = Joint(name="mart", type="sql", sql="SELECT * FROM new", catalog="lake")
    >>> copy = Joint(name="copy", type="sink", upstream="mart", catalog="lake", table="copy")
    >>> consumers = {"new": ("mart",), "mart": ("copy",), "copy": ()}
    >>> new = Joint(name="new", type="sql", sql="SELECT 1 AS x")
    >>> template_tables("new", consumers, {joint.name: joint for joint in (new, mart, copy)})
    TemplateTables(nearest=('mart',), all=('copy', 'mart'))
    """
    return TemplateTables(_reached(name, consumers, joints, False), _reached(name, consumers, joints, True))


def _reached(
    name: str, consumers: Mapping[str, tuple[str, ...]], joints: Mapping[str, Joint], beyond: bool
) -> tuple[str, ...]:
    """Return the published joints among the joint and those downstream, also ``beyond`` published ones."""
    found, waiting = {name}, [name]
    while waiting:
        each = waiting.pop()
        if beyond or not joints[each].publishes:
            new = set(consumers[each]) - found
            found |= new
            waiting += new
    return tuple(sorted(each for each in found if joints[each].publishes))

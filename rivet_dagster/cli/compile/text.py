"""Rendering of the plan as plain text, for files, pipes and terminals without colours."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from rivet_dagster.cli.compile.outline import Line, plan_outline
from rivet_dagster.compiler.plan import CompiledAssembly

KEY_WIDTH = 8
_GROUP, _LINE = 2, 4
_INDENT = " " * _LINE
_LEAST = 24
"""The least columns for text: on a narrower terminal lines are longer than it is wide."""


def plan_text(assembly: CompiledAssembly, names: Sequence[str] = (), width: int | None = None) -> str:
    """Return the plan as text; with ``names``, only the groups of those joints.

    Lines are broken at ``width``, and never without one: then each key of a group is one line.
    """
    outline = plan_outline(assembly, names)
    lines = _broken(outline.head, 0, width)
    for section in outline.sections:
        lines += ["", section.title]
        for block in section.blocks:
            lines += _broken(f"{block.name}  {block.note}", _GROUP, width)
            for line in block.lines:
                lines += _of_line(line, width)
    return "\n".join(lines)


def _of_line(line: Line, width: int | None) -> list[str]:
    text = "".join([text for text, _ in line.parts])
    if width is None:
        return [f"{_INDENT}{line.key:<{KEY_WIDTH}}{text}"]
    broken = _broken(text, 0, width - _LINE - KEY_WIDTH)
    return [f"{_INDENT}{'' if number else line.key:<{KEY_WIDTH}}{part}" for number, part in enumerate(broken)]


def _broken(text: str, indent: int, width: int | None) -> list[str]:
    before = " " * indent
    if width is None or len(text) <= width - indent:
        return [before + text]
    lines = wrap(text, max(width - indent, _LEAST), break_long_words=False, break_on_hyphens=False)
    return [before + line for line in lines]

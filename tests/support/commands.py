"""The commands of the program, found in its own tree, so that a new one is tested like the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import click

from rivet_dagster.cli.main import program

Path = tuple[str, ...]
"""The words of a command, as one types them."""

WITHOUT_PROJECT = frozenset({("import", "dbt"), ("init",), ("schema",), ("completion",)})
"""Commands that read no project."""


def commands(group: click.Group = program, path: Path = ()) -> Iterator[tuple[Path, click.Command]]:
    """Yield all commands that do something, by their words."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS: Mapping[Path, click.Command] = dict(commands())
OF_PROJECTS = [path for path in COMMANDS if path not in WITHOUT_PROJECT]


def formats(path: Path) -> list[str]:
    """Return the formats of a command; none if it has but one."""
    return [
        choice
        for option in COMMANDS[path].params
        if option.name == "format" and isinstance(option.type, click.Choice)
        for choice in option.type.choices
    ]


def arguments(path: Path, **values: str) -> list[str]:
    """Return a complete call; ``values`` are those of parameters by name, the others get any valid value."""
    given = list(path)
    for parameter in COMMANDS[path].params:
        assert parameter.name is not None
        value = values.get(parameter.name)
        if value is None and not parameter.required:
            continue
        if value is None:
            value = parameter.type.choices[0] if isinstance(parameter.type, click.Choice) else "x"
        is_flag = isinstance(parameter, click.Option) and parameter.is_flag
        given += [value] if isinstance(parameter, click.Argument) or is_flag else [parameter.opts[0], value]
    return given

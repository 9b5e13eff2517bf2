"""The site of these pages, which `make docs` builds with Sphinx: settings, and what is generated during the build.

A part of a page between ``<!-- generated: NAME -->`` and ``<!-- end -->`` is for readers of the file itself; the site
has what the function NAME returns in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

import rivet_dagster
from rivet_dagster.cli.main import SETTINGS, program
from rivet_dagster.errors import REMEDIATIONS

ROOT = Path(__file__).parent.parent

project = "rivet_dagster"
version = release = rivet_dagster.__version__
html_title = f"{project} {version}"
html_theme = "furo"
html_show_copyright = False
html_copy_source = False
smartquotes = False
extensions = ["myst_parser", "sphinx.ext.autodoc"]
myst_heading_anchors = 4
autodoc_typehints = "none"
# Templates in SQL are no SQL.
suppress_warnings = ["misc.highlighting_failure"]

OUTSIDE = {"../benchmarks/README.md": "benchmarks.md", "../example_repo/README.md": "example.md"}
"""The pages that show files outside of this folder."""


def error_codes() -> str:
    """Return a heading for each error code, with its remedy."""
    return "\n\n".join(f"### {code}\n\n{_escaped(remedy)}" for code, remedy in REMEDIATIONS.items())


def command_line() -> str:
    """Return the help of each command, as ``--help`` prints it."""
    root = click.Context(program, info_name="rivet-dagster", terminal_width=100, **SETTINGS)
    return "\n\n".join(
        f"### {context.command_path}\n\n```text\n{context.get_help()}\n```" for context in _commands(root)
    )


def api() -> str:
    """Return directives that show the docstrings of all public names."""
    directives = [
        f".. autoclass:: rivet_dagster.{name}\n   :members:"
        if isinstance(getattr(rivet_dagster, name), type)
        else f".. autofunction:: rivet_dagster.{name}"
        for name in rivet_dagster.__all__
    ]
    return "\n\n".join(f"```{{eval-rst}}\n{directive}\n```" for directive in directives)


def benchmarks() -> str:
    """Return the page of the benchmarks."""
    return _outside("benchmarks/README.md")


def example() -> str:
    """Return the page of the example project."""
    return _outside("example_repo/README.md")


def _escaped(text: str) -> str:
    """Return a text without markup, but for its code in backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_<\[\]#])", r"\\\1", part) for part in parts)


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Yield the contexts of a command and of all below it."""
    yield context
    if isinstance(context.command, click.Group):
        for name, command in context.command.commands.items():
            yield from _commands(click.Context(command, parent=context, info_name=name))


def _outside(path: str) -> str:
    return (ROOT / path).read_text().replace("](../docs/", "](")


def _complete(app: object, page: str, source: list[str]) -> None:
    text = source[0]
    for path, shown in OUTSIDE.items():
        text = text.replace(f"]({path}", f"]({shown}")
    parts = {name.__name__: name for name in (error_codes, command_line, api, benchmarks, example)}
    pattern = r"<!-- generated: (\w+) -->.*?<!-- end -->"
    source[0] = re.sub(pattern, lambda found: parts[found[1]](), text, flags=re.DOTALL)


def setup(app: object) -> None:
    """Register with Sphinx what completes each page."""
    app.connect("source-read", _complete)

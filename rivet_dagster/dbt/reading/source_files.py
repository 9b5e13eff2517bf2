"""The files of a dbt project, found as dbt finds them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from rivet_dagster.dbt.template import Template, TemplateError, read_template
from rivet_dagster.project.text_file import TextError, read_text

_HIDDEN = (".", "#", "~")


def files_below(
    root: Path, folder: str, paths: Iterable[str], extensions: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield the files with some extensions below ``paths`` of a folder of ``root``, in order, without hidden ones.

    Each is its path from ``root``, and its path below the one of ``paths`` that it is in. No file is found twice.
    """
    seen: set[str] = set()
    for path in paths:
        top = os.path.join(root, folder, path)
        for current, folders, names in os.walk(top):
            folders.sort()
            folders[:] = [name for name in folders if not name.startswith(".")]
            for name in sorted(names):
                found = os.path.join(current, name)
                if name.lower().endswith(extensions) and not name.startswith(_HIDDEN) and found not in seen:
                    seen.add(found)
                    yield os.path.relpath(found, root), os.path.relpath(found, top)


def template_of(root: Path, file: str) -> tuple[Template | None, tuple[str, int] | None]:
    """Return the template in a file, or what is wrong with it and the line."""
    try:
        return read_template(read_text(root / file)), None
    except (TextError, TemplateError) as error:
        return None, (error.message, error.line or 1)

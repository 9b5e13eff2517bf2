"""Check what is in dist/: a wheel and a sdist of this version that hold exactly what they should.

    .venv/bin/python release/check.py

`make release` runs this after the build; every deviation is a line, and the exit code is 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from email.message import Message
from email.parser import Parser
from pathlib import Path

from rivet_dagster.version import __version__

ROOT = Path(__file__).resolve().parents[1]
NAME = f"rivet_dagster-{__version__}"


def main() -> int:
    errors = list(find_errors())
    for error in errors:
        print(error, file=sys.stderr)
    if not errors:
        print(f"{NAME}: contents and metadata are as they should be")
    return 1 if errors else 0


def find_errors() -> Iterator[str]:
    wheel, sdist = f"{NAME}-py3-none-any.whl", f"{NAME}.tar.gz"
    built = {file.name for file in (ROOT / "dist").iterdir()}
    if built != {wheel, sdist}:
        yield f"dist/ holds {sorted(built)}, not {wheel} and {sdist} alone"
        return
    tracked = set(subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines())
    with zipfile.ZipFile(ROOT / "dist" / wheel) as archive:
        info = f"{NAME}.dist-info"
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
        info_files = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
        expected = {*under(tracked, "rivet_dagster/"), *(f"{info}/{name}" for name in info_files)}
        yield from differences(wheel, set(archive.namelist()), expected)
    with tarfile.open(ROOT / "dist" / sdist) as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive.getmembers() if not member.isdir()}
        beside = {"CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", ".gitignore", "PKG-INFO"}
        expected = {*under(tracked, "rivet_dagster/", "docs/", "example_repo/"), *beside}
        yield from differences(sdist, names, expected)
    yield from metadata_errors(metadata)


def under(files: Iterable[str], *folders: str) -> Iterator[str]:
    return (name for name in files if name.startswith(folders))


def differences(archive: str, names: set[str], expected: set[str]) -> Iterator[str]:
    yield from (f"{archive}: {name} is missing" for name in sorted(expected - names))
    yield from (f"{archive}: {name} is in no commit" for name in sorted(names - expected))


def metadata_errors(metadata: Message) -> Iterator[str]:
    """Yield what an index page would show wrong; `twine check` looks at the rest."""
    text = str(metadata.get_payload())
    for link in re.findall(r"\]\((?!https?://|#)[^)]*\)", text):
        yield f"README.md: the link {link[1:]} leads nowhere on an index page"
    newest = re.search(r"^## \[(\d[^\]]*)\] - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    if newest is None or newest[1] != __version__:
        yield f"CHANGELOG.md: the newest release is not {__version__}"


if __name__ == "__main__":
    sys.exit(main())

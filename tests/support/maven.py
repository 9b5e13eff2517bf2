"""Jars of Maven Central: taken from Maven's local repository, into which Maven itself fetches those that it lacks."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn
from xml.sax.saxutils import escape

import pytest

REPOSITORY = Path.home() / ".m2/repository"
_NOTHING_ELSE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


def jar(coordinates: str) -> Path:
    """Return the path of ``group:artifact:version`` or ``group:artifact:version:classifier``, there or not."""
    group, artifact, version, *classifier = coordinates.split(":")
    file = "-".join((artifact, version, *classifier)) + ".jar"
    return REPOSITORY / group.replace(".", "/") / artifact / version / file


def are_there(coordinates: Collection[str]) -> bool:
    """Return whether the local repository has all of these jars, after Maven has tried to fetch what is missing."""
    if _absent(coordinates) and shutil.which("mvn"):
        with _one_process_at_a_time():
            if absent := _absent(coordinates):
                _fetch(absent)
    return not _absent(coordinates)


def jars(*coordinates: str) -> list[str]:
    """Return the paths of these jars; skip the test where they cannot be had, and fail it in CI."""
    if not are_there(coordinates):
        missing("jars of Maven Central are not in ~/.m2 (Debian: apt-get install maven, which then fetches them)")
    return [str(jar(each)) for each in coordinates]


def missing(what: str) -> NoReturn:
    """Skip the test that needs what this machine lacks; in CI it fails."""
    if os.environ.get("CI"):
        pytest.fail(what)
    pytest.skip(what)


def _absent(coordinates: Iterable[str]) -> list[str]:
    return [each for each in coordinates if not jar(each).is_file()]


@contextmanager
def _one_process_at_a_time() -> Iterator[None]:
    """Wait for other processes of the tests: Maven's repository is for one that writes to it."""
    REPOSITORY.mkdir(parents=True, exist_ok=True)
    with (REPOSITORY / ".rivet-tests.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(coordinates: Iterable[str]) -> None:
    """Have Maven resolve all of them at once, without what they depend on."""
    pom = f"""<project><modelVersion>4.0.0</modelVersion><groupId>tests</groupId><artifactId>jars</artifactId>
<version>1</version><dependencies>{"".join(map(_dependency, coordinates))}</dependencies></project>"""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pom.xml").write_text(pom)
        # Java's home directory is that of the system's user, whatever HOME says.
        local = f"-Dmaven.repo.local={REPOSITORY}"
        command = ["mvn", "--batch-mode", "--quiet", "--update-snapshots", local, "dependency:resolve"]
        subprocess.run(command, cwd=folder, check=False, capture_output=True)


def _dependency(coordinates: str) -> str:
    group, artifact, version, *classifier = map(escape, coordinates.split(":"))
    kind = f"<classifier>{classifier[0]}</classifier>" if classifier else ""
    return (
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        f"{kind}{_NOTHING_ELSE}</dependency>"
    )

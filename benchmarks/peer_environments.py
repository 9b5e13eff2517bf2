"""Python environments of ``peers.py``, made on demand from ``peers/environments.toml``."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rivet_dagster.engines.pyspark.java import find_java

PEERS = Path(__file__).resolve().parent / "peers"
REPOSITORY = PEERS.parents[1]

JAVA = find_java(os.environ)
"""The Java of all contenders: the one that rivet_dagster finds."""

MASTER = "local[2]"
"""The master of all: not [*], since figures of two machines should differ by the machines alone."""

VERSIONS = """
import importlib.metadata, re, sys
names = [re.split(r"[^\\w-]", requirement)[0] for requirement in sys.argv[1:]]
print(", ".join(f"{name} {importlib.metadata.version(name)}" for name in names))
"""

QUIET = {"DAGSTER_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "SQLMESH__DISABLE_ANONYMIZED_ANALYTICS": "1"}
"""What keeps the contenders from reporting their runs to their makers."""


class Missing(Exception):
    """An environment that cannot be made, and why."""


@dataclass(frozen=True)
class Environment:
    """A virtual environment that exists, and the versions of what was asked for in it."""

    folder: Path
    versions: str

    def program(self, name: str) -> str:
        """Return the path of one of its programs."""
        return str(self.folder / "bin" / name)

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the environment variables of a process in it: nothing of the caller's Python, Spark or Dagster."""
        ours = ("PYTHON", "SPARK", "PYSPARK", "DAGSTER", "DBT", "VIRTUAL_ENV")
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(ours)},
            **QUIET,
            "PATH": os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]]),
            "JAVA_HOME": str(JAVA.home),
            "SPARK_CONF_DIR": str(PEERS),
            "PYSPARK_SUBMIT_ARGS": f"--master {MASTER} pyspark-shell",
        }


def prepare(name: str) -> Environment:
    """Return the environment of this name, which is made if it is missing or of other versions. Raise Missing."""
    wanted = tomllib.loads((PEERS / "environments.toml").read_text())[name]
    packages = [*wanted["packages"], *(["--editable", str(REPOSITORY)] if wanted.get("editable") else [])]
    folder = PEERS / "environments" / name
    python, made_from = str(folder / "bin" / "python"), folder / "made-from"
    if not made_from.exists() or made_from.read_text() != "\n".join(packages):
        print(f"making the environment of {name}: {' '.join(wanted['packages'])}", file=sys.stderr)
        output([sys.executable, "-m", "venv", "--clear", str(folder)])
        output([python, "-m", "pip", "install", "--quiet", *packages])
        made_from.write_text("\n".join(packages))
    return Environment(folder, output([python, "-c", VERSIONS, *wanted["packages"]]).strip())


def output(command: list[str]) -> str:
    """Return what a command prints. Raise Missing with the last line of its errors."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise Missing(last_error(done.stderr))
    return done.stdout


def last_error(printed: str) -> str:
    """Return the last line that speaks of an error, or else the last one."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()] or ["no output"]
    return next((line for line in reversed(lines) if re.search("error|exception", line, re.IGNORECASE)), lines[-1])

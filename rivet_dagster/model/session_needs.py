"""Requirements of catalogs on an engine's session before it starts."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from rivet_dagster.errors import RivetError


@dataclass(frozen=True)
class SessionNeeds:
    """The Maven packages, jars and settings that an engine's session needs; ``config`` may hold secrets."""

    packages: tuple[str, ...] = ()
    jars: tuple[str, ...] = ()
    config: Mapping[str, str] = field(default_factory=dict, repr=False)


def merged(needs: Iterable[SessionNeeds], decided: Container[str] = ()) -> SessionNeeds:
    """Merge ``needs``, without those already ``decided``: keys of settings, and ``group:name`` of packages.

    Raise RVT-126 where two of them need different values of a setting, or different versions of a package.

    >>> iceberg = SessionNeeds(packages=("org:iceberg:1.12",), config={"io": "hadoop"})
    >>> merged([iceberg, SessionNeeds(packages=("org:postgresql:42",)), iceberg]).packages
    ('org:iceberg:1.12', 'org:postgresql:42')
    >>> merged([iceberg, SessionNeeds(config={"io": "s3"})])
    Traceback (most recent call last):
    rivet_dagster.errors.RivetError: RVT-126 two catalogs of one engine want io to be different things...
    >>> merged([iceberg, SessionNeeds(config={"io": "s3"})], decided={"io"}).config
    {}
    """
    packages: dict[str, str] = {}
    jars: dict[str, None] = {}
    config: dict[str, str] = {}
    for need in needs:
        _add(packages, {package_name(package): package for package in need.packages}, decided)
        _add(config, need.config, decided)
        jars |= dict.fromkeys(need.jars)
    return SessionNeeds(tuple(packages.values()), tuple(jars), config)


def package_name(package: str) -> str:
    """Return Maven coordinates without the version.

    >>> package_name("org.postgresql:postgresql:42.7.14")
    'org.postgresql:postgresql'
    """
    return ":".join(package.split(":")[:2])


def _add(merged: dict[str, str], more: Mapping[str, str], decided: Container[str]) -> None:
    for key, value in more.items():
        if key in decided:
            continue
        if merged.setdefault(key, value) != value:
            raise RivetError("RVT-126", f"two catalogs of one engine want {key} to be different things")

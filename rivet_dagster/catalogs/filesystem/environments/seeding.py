"""Seeding: giving a table of an environment the base's version, by hard links, before it is written there.

Until a run in the environment has published, the table there is nothing but the base's version, and is seeded anew when
the base has moved. Each step leaves the table in a state in which it is not taken for one that was built there: the
link that marks a version as the base's is made before readers in the environment are switched to it.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import replace

from rivet_dagster.catalogs.filesystem.environments.folder import EnvironmentFolder
from rivet_dagster.catalogs.filesystem.files.footers import parquet_files
from rivet_dagster.catalogs.filesystem.versions import error_tables, lifecycle, publishers
from rivet_dagster.catalogs.filesystem.versions.layout import HOMES, TableLayout
from rivet_dagster.catalogs.filesystem.versions.manifest_file import write_manifest
from rivet_dagster.file_replacement import sync


def seed(base: TableLayout, environment: EnvironmentFolder) -> None:
    """Have the environment's table be the base's published version, unless it was built there.

    Raises RVT-403, RVT-404, RVT-407, OSError.
    """
    own = environment.layout(base.name)
    lifecycle.make_durable(own.home)
    with lifecycle.hold_lock(own):
        while not environment.is_built(base.name):
            version = _published(base)
            if version is not None and version != own.published():
                try:
                    _take(base, version, environment)
                except FileNotFoundError:
                    if _published(base) == version:
                        raise
                    continue  # it has expired meanwhile
            elif version is None and own.published() is not None:
                own.unpublish()
                error_tables.remove_links(own)
            _forget_others(environment, own, version)
            return


def forget(environment: EnvironmentFolder, table: str) -> None:
    """Remove the base's versions of a table that readers in the environment do not see any more. Raises OSError."""
    own = environment.layout(table)
    with lifecycle.hold_lock(own):
        if own.published() is None:
            _forget_others(environment, own, None)


def _published(base: TableLayout) -> str | None:
    """Return the version that readers of the base see; None also if a person removed its files."""
    version = base.published()
    return version if version is not None and parquet_files(base.data(version)) else None


def _take(base: TableLayout, version: str, environment: EnvironmentFolder) -> None:
    own, bases = environment.layout(base.name), environment.bases(base.name)
    lifecycle.remove(own, version)  # what a killed process left of it
    own.rows_alone(version).mkdir()
    lifecycle.copy(base, version, version, own)
    error_tables.move_rows(own, version)
    keep_permissions(base, version, own, version)
    for path, copied in ((base.files(version), own.files(version)), (base.watermark(version), own.watermark(version))):
        with suppress(FileNotFoundError):
            shutil.copyfile(path, copied)
    manifest = lifecycle.manifest_of(base, version) or lifecycle.manifest_of(own, version)
    assert manifest is not None  # `copy` raises if there is no file
    lifecycle.sync_data(own, version)
    bases.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.symlink(f"../../{HOMES}/{base.name}/{version}", bases / version)
    # After the link: a version with a manifest and without one counts as published by a run.
    write_manifest(replace(manifest, base=None), own.manifest(version))
    for folder in (bases, bases.parent, own.home):
        sync(folder)
    error_tables.make_link(own, version)
    lifecycle.switch(own, version)
    error_tables.remove_stale_links(own, own.versions())


def _forget_others(environment: EnvironmentFolder, own: TableLayout, version: str | None) -> None:
    """Remove the versions of the base that it has replaced since."""
    for other in environment.base_versions(own.name):
        if other != version:
            (environment.bases(own.name) / other).unlink(missing_ok=True)
            lifecycle.remove(own, other)
    publishers.forget(own)


def keep_permissions(table: TableLayout, version: str, other: TableLayout, to: str) -> None:
    """Give the folders of a copied version the permissions of the original's. Raises OSError."""
    shutil.copymode(table.data(version), other.data(to))
    errors, copied = error_tables.errors_folder(table, version), error_tables.errors_folder(other, to)
    if errors is not None and copied is not None:  # errors quote rows
        shutil.copymode(errors, copied)

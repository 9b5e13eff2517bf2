"""The one function that writes files in one step: who can read what it writes, while and after it writes."""

import os
import stat

import pytest

from rivet_dagster import file_replacement
from rivet_dagster.file_replacement import replace_file, replace_like


@pytest.fixture
def modes(monkeypatch) -> list[int]:
    """Return the modes of the unfinished file, from its creation until it takes the place of the other."""
    found, fchmod, replace = [], os.fchmod, os.replace

    def before_fchmod(number: int, mode: int) -> None:
        found.append(stat.S_IMODE(os.fstat(number).st_mode))
        fchmod(number, mode)

    def before_replace(source, target) -> None:
        found.append(stat.S_IMODE(os.stat(source).st_mode))
        replace(source, target)

    monkeypatch.setattr(file_replacement.os, "fchmod", before_fchmod)
    monkeypatch.setattr(file_replacement.os, "replace", before_replace)
    return found


def test_a_private_file_is_never_readable_by_others(tmp_path, modes):
    umask = os.umask(0o022)
    try:
        file = tmp_path / "profiles.yaml"
        replace_file(file, b"old", tmp_path / "new")
        replace_file(file, b"private", tmp_path / "new", 0o600)
        replace_like(file, b"new", tmp_path / "new", file.stat())
    finally:
        os.umask(umask)
    assert modes == [0o644, 0o600, 0o600, 0o600]
    assert (file.read_bytes(), [path.name for path in tmp_path.iterdir()]) == (b"new", ["profiles.yaml"])


def test_a_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    file = tmp_path / "file"
    replace_file(file, b"old", tmp_path / "new")

    def fails(number: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(file_replacement.os, "fsync", fails)
    with pytest.raises(OSError, match="No space"):
        replace_file(file, b"new", tmp_path / "new")
    assert (file.read_bytes(), [path.name for path in tmp_path.iterdir()]) == (b"old", ["file"])

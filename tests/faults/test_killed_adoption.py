"""Taking over a table, and giving it up, killed before each change of the file system, beside a reader."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from support.adoption import DAYS, adopt_days, adopt_orders, give_up_orders, killed, make_folder, reading
from support.tables import catalog, ids, publish

FILES = {"a.parquet": [1, 2], "b.parquet": [3], "_SUCCESS": b""}
IN_DAYS = {"day=2024-01-01/0.parquet": [1, 2], "day=2024-01-02/0.parquet": [3], "_SUCCESS": b""}


def read(table) -> list[int]:
    """Return the rows; a reader in whose middle the folder is exchanged for the link, or back, looks again, once.

    Arrow leaves out a partition that is gone when it comes to it, and the columns with the last of them.
    """
    failed = False
    while True:
        folder = folder_of(table)
        try:
            rows = ids(table)
        except (FileNotFoundError, KeyError):
            if failed:
                raise
            failed = True
            continue
        if folder_of(table) == folder:
            return rows


def folder_of(table) -> int:
    """Return which folder the table is; a link that was read before the exchange may lead to where it was."""
    try:
        return os.stat(table).st_ino
    except FileNotFoundError:
        return os.stat(table).st_ino


@pytest.mark.parametrize(
    ("files", "work"),
    [
        (FILES, adopt_orders),
        (FILES, give_up_orders),
        pytest.param(IN_DAYS, adopt_days, marks=pytest.mark.nightly),
        pytest.param(IN_DAYS, give_up_orders, marks=pytest.mark.nightly),
    ],
)
def test_a_kill_leaves_the_old_table_or_the_adopted_one(tmp_path, files, work):
    """A reader sees the rows all the time, and the same command does what is left to do."""
    before, root = tmp_path / "before", tmp_path / "root"
    adopt = adopt_orders if files is FILES else adopt_days
    make_folder(before / "lake/orders", files)
    if work is give_up_orders:
        adopt(before)
    shutil.copytree(before, root, symlinks=True)
    changes, code = killed(root, work, -1)
    assert code == 0
    table, outcomes = root / "lake/orders", []
    for at in range(changes):
        shutil.rmtree(root)
        shutil.copytree(before, root, symlinks=True)
        with reading(lambda: read(table)) as seen:
            assert killed(root, work, at) == (at + 1, -signal.SIGKILL)
        assert all(rows == [1, 2, 3] for rows in seen), (at, [rows for rows in seen if rows != [1, 2, 3]])
        lake = catalog(root, "lake")
        outcomes.append(lake.current("orders") is not None)
        assert table.is_symlink() is outcomes[-1]
        if at % 2:  # else what is left is removed by the command
            assert "fail" not in [finding.status for finding in lake.examine(publishes=True)], at
            swept = lake.sweep()
            assert (lake.sweep(), [*swept] == [] or not outcomes[-1]) == ((), True), at
        if work is adopt:
            assert (lake.existing("orders", DAYS) is None) is outcomes[-1]
            assert lake.adopt("orders", DAYS).statistics.rows == 3
            assert publish(lake, [7]).rows_before == 3
            left = [name for name in os.listdir(root / "lake/.rivet/orders") if name[0] == "0"]
            # Two versions, with two files beside each, and the folder that was taken over.
            assert len(left) == (6 if files is FILES else 7), (at, left)
        else:
            lake.give_up("orders")
            assert os.listdir(root / "lake/.rivet/orders") == ["lock"], at
            assert ids(table) == [1, 2, 3]
    switched = outcomes.index(work is adopt)
    assert outcomes == [work is not adopt] * switched + [work is adopt] * (changes - switched)

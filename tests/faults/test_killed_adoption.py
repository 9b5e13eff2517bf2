"""Taking over a table, and giving it up, killed before each change of the file system, beside a reader."""

from __future__ import annotations

import os
import shutil
import signal

import pytest
from support.adoption import adopt_orders, give_up_orders, killed, make_folder, reading
from support.tables import catalog, ids, publish

FILES = {"a.parquet": [1, 2], "b.parquet": [3], "_SUCCESS": b""}


@pytest.mark.parametrize("work", [adopt_orders, give_up_orders])
def test_a_kill_leaves_the_old_table_or_the_adopted_one(tmp_path, work):
    """A reader sees the rows all the time, and the same command does what is left to do."""
    before, root = tmp_path / "before", tmp_path / "root"
    make_folder(before / "lake/orders", FILES)
    if work is give_up_orders:
        adopt_orders(before)
    shutil.copytree(before, root, symlinks=True)
    changes, code = killed(root, work, -1)
    assert code == 0
    table, outcomes = root / "lake/orders", []
    for at in range(changes):
        shutil.rmtree(root)
        shutil.copytree(before, root, symlinks=True)
        with reading(lambda: ids(table)) as seen:
            assert killed(root, work, at) == (at + 1, -signal.SIGKILL)
        assert all(rows == [1, 2, 3] for rows in seen), (at, seen)
        lake = catalog(root, "lake")
        outcomes.append(lake.current("orders") is not None)
        assert table.is_symlink() is outcomes[-1]
        if work is adopt_orders:
            assert (lake.existing("orders") is None) is outcomes[-1]
            assert lake.adopt("orders").statistics.rows == 3
            assert publish(lake, [7]).rows_before == 3
            left = [name for name in os.listdir(root / "lake/.rivet/orders") if name[0] == "0"]
            assert len(left) == 6, (at, left)  # two versions, with two files beside each
        else:
            lake.give_up("orders")
            assert os.listdir(root / "lake/.rivet/orders") == ["lock"], at
            assert ids(table) == [1, 2, 3]
    switched = outcomes.index(work is adopt_orders)
    assert outcomes == [work is not adopt_orders] * switched + [work is adopt_orders] * (changes - switched)

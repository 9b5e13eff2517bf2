"""The write of Spark that a file is from: its name holds the number of that write."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rivet_dagster.errors import RivetError

_OF_SPARK = re.compile(r"part-\d+-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\b")


def refuse_repeated_write(written: Iterable[Path], shown: str) -> None:
    """Raise RVT-407 if the files of what was one write come from several: Spark has carried it out more than once.

    Spark Connect's client has a write carried out again if the server does not know it any more, as after a sleep of
    the machine. Files of others than Spark do not tell.

    >>> from uuid import uuid4
    >>> refuse_repeated_write([Path(f"part-0000{n}-3f0c5f60-95ab-4d0b-8a42-9f5b1c2d7e61.parquet") for n in (0, 1)], "t")
    >>> refuse_repeated_write([Path(f"part-00000-{uuid4()}-c000.snappy.parquet") for _ in (0, 1)], "orders")
    Traceback (most recent call last):
    ...
    rivet_dagster.errors.RivetError: RVT-407 the engine has written the rows of orders 2 times...
    """
    names = (_OF_SPARK.match(path.name) for path in written)
    writes = {found[1] for found in names if found is not None}
    if len(writes) > 1:
        message = f"the engine has written the rows of {shown} {len(writes)} times"
        raise RivetError("RVT-407", message, remediation="Run it again: Spark's server had forgotten the first write.")

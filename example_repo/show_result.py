"""Print the first rows of one published table, read as any program reads Parquet files or Iceberg tables."""

import os
import sys
from pathlib import Path

import pyarrow
import pyarrow.dataset

TABLE = "carrier_punctuality"
ORDER = "place"
ROWS = 10


def main() -> None:
    project, profile = Path(__file__).resolve().parent, os.environ.get("RIVET_PROFILE") or "default"
    folder = project / ("lakehouse/flights" if profile == "iceberg" else "warehouse") / TABLE
    if not folder.exists():
        sys.exit(f"{folder} is not there yet: run the project first")
    table = (iceberg_table(folder) if profile == "iceberg" else parquet_table(folder)).sort_by(ORDER)
    print(f"{TABLE}: {min(ROWS, table.num_rows)} of {table.num_rows} rows")
    rows = [["" if value is None else str(value) for value in row.values()] for row in table.slice(0, ROWS).to_pylist()]
    widths = [max(map(len, column)) for column in zip(table.column_names, *rows, strict=True)]
    # Strings are aligned left, all else right, as in every spreadsheet.
    aligned = [str.ljust if pyarrow.types.is_string(field.type) else str.rjust for field in table.schema]
    for line in [table.column_names, ["-" * width for width in widths], *rows]:
        cells = zip(aligned, line, widths, strict=True)
        print("  ".join(align(cell, width) for align, cell, width in cells).rstrip())


def parquet_table(folder: Path) -> pyarrow.Table:
    return pyarrow.dataset.dataset(folder, format="parquet").to_table()


def iceberg_table(folder: Path) -> pyarrow.Table:
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(str(folder)).scan().to_arrow()


if __name__ == "__main__":
    main()

"""The schema that Spark finds in a source's first Parquet file, which is read again when the file is another."""

import os

import pyarrow as pa
import pyarrow.parquet as pq

from rivet_dagster.catalogs.filesystem.sources.file_tree import LocalTree
from rivet_dagster.catalogs.filesystem.sources.source_schema import with_schema
from rivet_dagster.catalogs.filesystem.sources.table_files import TableFiles
from rivet_dagster.model.relations import Files


def test_a_file_of_the_same_size_and_time_has_its_own_schema(tmp_path):
    file = tmp_path / "t.parquet"
    found = []
    for name in "ab":
        pq.write_table(pa.table({name: [1]}), tmp_path / "new")
        os.utime(tmp_path / "new", ns=(0, 10**18))
        os.replace(tmp_path / "new", file)
        table = TableFiles(LocalTree(tmp_path), "parquet", (file,), "t.parquet")
        found.append((with_schema(Files("parquet", (str(file),)), table).options["schema"], file.stat().st_size))
    assert found == [("`a` bigint", found[0][1]), ("`b` bigint", found[0][1])]

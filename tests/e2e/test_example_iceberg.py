"""The example with its tables in Iceberg: the same plan, checks and rows as with tables of files.

Of the tables those of a gate, of a Python joint and of a sink are made, and all of them at length.
"""

import dagster as dg
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table import StaticTable
from support.example import copy_of_the_example, use_spark_of_tests
from support.iceberg import PACKAGES
from support.maven import jars
from support.torture import TORTURE, at_length

from rivet_dagster import compile_directory, load_definitions

MADE = "*" if TORTURE else '+key:"route_map" or +key:"route_bad_days" or +key:"reference_gaps"'


@at_length
def test_the_tables_equal_those_of_files(example_run, tmp_path):
    jars(*PACKAGES)
    project = copy_of_the_example(tmp_path)
    use_spark_of_tests(project)
    with dg.DagsterInstance.ephemeral() as instance:
        job = load_definitions(project, profile="iceberg").resolve_job_def("all")
        made = dg.AssetSelection.from_string(MADE).resolve(job.asset_layer.asset_graph)
        result = job.execute_in_process(instance=instance, asset_selection=[*made])
    assert result.success
    plan = compile_directory(project, profile="iceberg")
    assert {group.name: group.joints for group in plan.fused_groups} == {
        group.name: group.joints for group in example_run.assembly.fused_groups
    }
    names = {key.to_user_string() for key in made}
    of_files = verdicts(example_run.result)
    assert verdicts(result) == {verdict for verdict in of_files if TORTURE or verdict[0] in names}
    published = [joint.table for joint in plan.joints if joint.catalog == "warehouse" and joint.name in names]
    assert len(published) == (9 if TORTURE else 3)
    for table in published:
        expected = pq.read_table(example_run.project / "warehouse" / table)
        found = StaticTable.from_metadata(str(project / "lakehouse" / "flights" / table)).scan().to_arrow()
        assert found.column_names == expected.column_names
        assert rows(found) == rows(expected), table
        assert found.num_rows > 0


def verdicts(result: dg.ExecuteInProcessResult) -> set[tuple[str, str, bool]]:
    checks = result.get_asset_check_evaluations()
    return {(check.asset_key.to_user_string(), check.check_name, check.passed) for check in checks}


def rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))

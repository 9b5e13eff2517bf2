"""Words of templates that remain as they are, and those of dbt that have no counterpart."""

from __future__ import annotations

OF_JINJA = frozenset(
    "range dict namespace cycler joiner lipsum caller loop varargs kwargs super self return true false none".split()
)
CONSTANT = {"execute": "true", "should_store_failures": "false"}
"""Words that always have the same value here: a check shows rows, and stores none."""
OBJECTS_OF_JINJA = frozenset(("loop", "varargs", "kwargs"))
"""Words of Jinja that have attributes."""
OF_TESTS = frozenset("severity warn_if error_if fail_calc limit store_failures store_failures_as".split())
"""The configuration that tests alone have."""
QUERIES = frozenset("run_query statement load_result store_result store_raw_result get_columns_in_relation".split())
SILENT = frozenset(("log", "print"))
AT_RUN_TIME = {
    "adapter": "the warehouse",
    "api": "dbt's own classes",
    "builtins": "dbt's own functions",
    "context": "dbt's own state",
    "database": "dbt's target",
    "dbt_version": "dbt's own state",
    "fromjson": "a function of dbt's",
    "fromyaml": "a function of dbt's",
    "graph": "dbt's manifest",
    "invocation_args_dict": "the run at hand",
    "invocation_id": "the run at hand",
    "local_md5": "a function of dbt's",
    "model": "dbt's manifest",
    "modules": "Python's modules",
    "schema": "dbt's target",
    "selected_resources": "the run at hand",
    "set": "a function of dbt's",
    "submit_python_job": "dbt's own functions",
    "thread_id": "the run at hand",
    "tojson": "a function of dbt's",
    "toyaml": "a function of dbt's",
    "zip": "a function of dbt's",
}

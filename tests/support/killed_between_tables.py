"""Run a project's job, and die by kill -9 in its last step, at a moment of ``MOMENTS``: ``... ROOT RUN_ID MOMENT``."""

import os
import signal
import sys

import dagster as dg

from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.catalogs.iceberg.nessie.one_commit import OneCommit
from rivet_dagster.catalogs.iceberg.writes.transaction import IcebergTransaction
from rivet_dagster.definitions.load import load_definitions
from rivet_dagster.definitions.project import RivetProject
from rivet_dagster.definitions.resources.rivet_executor import one_process_executor
from rivet_dagster.definitions.resources.steps_in_threads import execute_here

MOMENTS = {
    "first table": (FilesystemTransaction, "commit", "after"),
    "first iceberg table": (IcebergTransaction, "commit", "after"),
    "before the commit": (OneCommit, "publish", "before"),
    "after the commit": (OneCommit, "publish", "after"),
}
"""The method before or after which the process dies, the first time that it is called."""


def main(root: str, run_id: str, moment: str = "first table") -> None:
    """Run the job `all` on the instance of DAGSTER_HOME."""
    home, method, when = MOMENTS[moment]
    original = getattr(home, method)

    def dies(*arguments):
        if when == "after":
            original(*arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(home, method, dies)
    with dg.DagsterInstance.get() as instance:
        executor = one_process_executor(RivetProject.load(root))
        execute_here(load_definitions(root, executor=executor).resolve_job_def("all"), instance, run_id, {}, {})


if __name__ == "__main__":
    main(*sys.argv[1:])

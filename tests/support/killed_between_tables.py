"""Run a project's job, and die by kill -9 when its last step has published one table: ``... ROOT``."""

import os
import signal
import sys

import dagster as dg

from rivet_dagster.catalogs.filesystem.writes.transaction import FilesystemTransaction
from rivet_dagster.definitions.executors.rivet_executor import one_process_executor
from rivet_dagster.definitions.executors.steps_in_threads import execute_here
from rivet_dagster.definitions.load import load_definitions
from rivet_dagster.definitions.project import RivetProject


def main(root: str, run_id: str) -> None:
    """Run the job `all` on the instance of DAGSTER_HOME."""
    commit = FilesystemTransaction.commit

    def dies(transaction, *arguments):
        commit(transaction, *arguments)
        os.kill(os.getpid(), signal.SIGKILL)

    FilesystemTransaction.commit = dies
    with dg.DagsterInstance.get() as instance:
        executor = one_process_executor(RivetProject.load(root))
        execute_here(load_definitions(root, executor=executor).resolve_job_def("all"), instance, run_id, {}, {})


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Findings about a Sail server: whether it could start, whether it runs, and who can use it."""

from __future__ import annotations

from collections.abc import Iterator

from rivet_dagster.engines.pyspark.launch import require_imports
from rivet_dagster.engines.pyspark.server.record import changed_settings, find_running
from rivet_dagster.engines.pyspark.server.sail_version import refuse_unfit_sail, sail_version
from rivet_dagster.engines.pyspark.server.starting import ServerSpec
from rivet_dagster.errors import RivetError
from rivet_dagster.model.finding import Finding, broken, doubtful, in_order


def examine_sail(subject: str, server: ServerSpec) -> Iterator[Finding]:
    """Yield findings about whether the project's Sail server runs, or could start."""
    try:
        refuse_unfit_sail()
        require_imports(remote=True)
    except RivetError as error:
        yield from broken(subject, error)
        return
    record = find_running(server.files)
    version = f"Sail {sail_version()}, without a JVM"
    if record is None:
        yield in_order(subject, f"{version}; its server starts with the first run")
    else:
        yield in_order(subject, f"{version}; its server runs at {record.address}, pid {record.pid}")
        if different := changed_settings(record, server.settings):
            text = f"the server was started with other values of {', '.join(different)}"
            yield doubtful(subject, text, "`rivet-dagster spark stop`: the next run starts it with the new ones.")
    text = "Sail's server asks for no token: while it runs, other users of this machine can use it with your rights"
    yield doubtful(subject, text, "Use `remote: sail` on machines that nobody else has an account on.")

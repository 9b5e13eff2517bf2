"""The program ``rivet-dagster`` as a process: ``main``, and an end that does not take objects apart one by one."""

from __future__ import annotations

import atexit
import os
import sys

from rivet_dagster.cli.console import INTERRUPTED


def run_program() -> int:
    """Run the command line, and return its exit code to the caller, who ends the process with it."""
    # Registered first, called last: what others do at the exit, such as removing folders, is done by then.
    end = _End()
    atexit.register(end)
    end.code = _main()
    return end.code


def _main() -> int:
    try:
        from rivet_dagster.cli.main import main
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return main()


class _End:
    """Ends the process where Python would begin to collect garbage: over a second once Dagster is imported."""

    code: int | None = None

    def __call__(self) -> None:
        if self.code is None:
            return  # Python tells of what `main` raised
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except (OSError, ValueError):
            return  # Python tells of it as ever
        os._exit(self.code)


if __name__ == "__main__":
    sys.exit(run_program())

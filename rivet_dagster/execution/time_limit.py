"""The time limit of one attempt of a step."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rivet_dagster.compiler.plan import CompiledJoint
from rivet_dagster.errors import RivetError


class OutOfTime(BaseException):
    """Raised when the time limit of a step is exceeded.

    Like KeyboardInterrupt it is not an Exception, so that no handler takes it for a failed check or a wrong query.
    """

    def __init__(self, error: RivetError) -> None:
        super().__init__(str(error))
        self.error = error


class TimeLimit:
    """The ``timeout`` of the step whose exit is ``joint``, counted from now on."""

    def __init__(self, joint: CompiledJoint) -> None:
        self._joint = joint
        self._ends = None if joint.step.timeout is None else time.monotonic() + joint.step.timeout

    def check(self) -> None:
        """Raise OutOfTime if the time limit is exceeded."""
        if self._ends is not None and time.monotonic() > self._ends:
            message = f"it took longer than its `timeout`, {self._joint.step.timeout:g} s; nothing of it is published"
            joint = self._joint
            raise OutOfTime(RivetError("RVT-518", message, joint=joint.name, file=joint.file, line=joint.line))


@contextmanager
def out_of_time_as_error() -> Iterator[None]:
    """Turn an OutOfTime of the block into its error, RVT-518."""
    try:
        yield
    except OutOfTime as late:
        raise late.error from None

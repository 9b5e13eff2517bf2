"""Running the function of a Python joint: loading it from its file and calling it with handles on its inputs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rivet_dagster.compiler.joints import FunctionJoint
from rivet_dagster.engines.contract import EngineSession, Frame
from rivet_dagster.errors import RivetError
from rivet_dagster.execution.reading.refs import MaterializedRef

_PACKAGE = "Install it where rivet_dagster is; the pandas that fits Spark: pip install 'rivet_dagster[pandas]'."


def load_function(joint: FunctionJoint, root: Path) -> Callable[..., Any]:
    """Return the joint's function; its file is executed with the project's root on sys.path. Raises RVT-504."""
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    path = root / joint.function_file
    spec = importlib.util.spec_from_file_location(f"rivet_joint_{joint.name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module there. It must not stay there: functions are pickled by value for Spark's workers
    # only if their module cannot be imported.
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        function: Callable[..., Any] = getattr(module, joint.function.rpartition(":")[2])
        return function
    except (Exception, SystemExit) as error:
        raise _failed(joint, "could not be loaded", error) from error
    finally:
        sys.modules.pop(spec.name, None)


def call(
    joint: FunctionJoint, function: Callable[..., Any], upstream: Mapping[str, MaterializedRef], session: EngineSession
) -> Frame:
    """Call the function with handles on its upstream, and return its value as a frame. Raises RVT-504, RVT-505."""
    try:
        value = function(*upstream.values()) if len(upstream) == 1 else function(**upstream)
    except RivetError:
        raise
    except (Exception, SystemExit) as error:
        raise _failed(joint, "failed", error) from error
    if isinstance(value, MaterializedRef):
        return value.frame_in(session)
    frame = session.from_value(value)
    if frame is None:
        message = f"{joint.function} returned {_kind(value)}"
        raise RivetError("RVT-505", message, joint=joint.name, file=joint.file, line=joint.line)
    return frame


def _failed(joint: FunctionJoint, outcome: str, error: BaseException) -> RivetError:
    file, line = joint.function_file, joint.line
    trace = error.__traceback__
    while trace is not None:  # the innermost frame in the joint's own file
        if trace.tb_frame.f_code.co_filename.endswith(joint.function_file):
            line = trace.tb_lineno
        trace = trace.tb_next
    message = f"{joint.function} {outcome}: {type(error).__name__}: {error}"
    remedy = _PACKAGE if isinstance(error, ImportError) else None
    return RivetError("RVT-504", message, remediation=remedy, joint=joint.name, file=file, line=line)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__module__}.{type(value).__qualname__}"

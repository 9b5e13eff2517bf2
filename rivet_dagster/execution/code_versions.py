"""The code that versions were made by, compared with that of the plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from rivet_dagster.compiler.plan import CompiledAssembly, FusedGroup
from rivet_dagster.model.joint import SOURCE


class CodeVersions:
    """The code versions of a plan's joints, each alone and together with all that is upstream.

    A version records those of its group's joints and of the sources that these read, by name. Of a stored joint that
    they read it records the code version of that joint's rows as a whole, which includes all that is upstream.
    """

    def __init__(self, assembly: CompiledAssembly) -> None:
        self._assembly = assembly
        self._whole: dict[str, str] = {}
        for group in assembly.execution_order:
            for name in assembly.group(group).joints:
                joint = assembly.joint(name)
                upstream = {before: self._whole[before] for before in joint.upstream}
                self._whole[name] = _hash((joint.code_version, upstream))

    def of_run(self, group: FusedGroup, read: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Return what a version of the group's exit records; ``read`` are the records of the stored joints it read."""
        assembly = self._assembly
        found = {name: assembly.joint(name).code_version for name in group.joints}
        for name in _read_by(assembly, group):
            if assembly.joint(name).type == SOURCE:
                found[name] = assembly.joint(name).code_version
            else:
                found[name] = self._whole[name] if self.match(name, read.get(name, {})) else _hash(read.get(name))
        return found

    def match(self, joint: str, recorded: Mapping[str, str]) -> bool:
        """Return whether a version with this record has the rows that the plan's code would compute for ``joint``.

        It does not depend on how joints were fused when the version was made.
        """
        own = self._assembly.joint(joint)
        if recorded.get(joint) == self._whole[joint]:
            return True
        return recorded.get(joint) == own.code_version and all(self.match(name, recorded) for name in own.upstream)


def _read_by(assembly: CompiledAssembly, group: FusedGroup) -> list[str]:
    """Return the joints outside of the group that its joints read."""
    read = {name for joint in group.joints for name in assembly.joint(joint).upstream}
    return sorted(read - set(group.joints))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]

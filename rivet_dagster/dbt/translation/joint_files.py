"""The files of a joint: its own, with the checks that are annotations or keys there, and those of its other checks."""

from __future__ import annotations

from collections.abc import Sequence

from rivet_dagster.dbt.translation.annotations import annotation_lines, yaml_lines
from rivet_dagster.dbt.translation.data_tests import MovedTest
from rivet_dagster.dbt.translation.draft import JointDraft


def write_joint(
    draft: JointDraft, checks: Sequence[MovedTest], files: dict[str, str], lines: dict[tuple[str, int], tuple[str, str]]
) -> None:
    """Add the files of a joint and of its ``checks`` to ``files``, and the checks to ``lines``, by file and line.

    The line is 0 for all lines of a file.
    """
    own = [test for test in checks if test.check is not None and test.check.options is not None]
    kind = "audit" if draft.phase == "audit" else "assert"
    for test in checks:
        if test.check is not None and test.check.options is None:
            path = f"quality/{draft.joint}/{test.final}.sql"
            files[path] = test.check.file(draft.phase)
            lines[path, 0] = (draft.joint, test.final)
    if draft.body is None:
        keys = dict(draft.keys)
        entries = [test.check.entry() for test in own if test.check is not None]
        entries += [draft.freshness] if draft.freshness is not None else []
        if entries:
            keys["quality"] = {f"{draft.phase}s": entries}
        files[draft.path] = yaml_lines(keys)
        listed = [n for n, line in enumerate(files[draft.path].splitlines(), 1) if line.startswith("    - {")]
        lines.update({(draft.path, n): (draft.joint, t.final) for n, t in zip(listed, own, strict=False)})
        return
    head = [(key, value) for key, value in draft.keys.items() if key != "write_strategy"]
    head += [("write_strategy", draft.keys["write_strategy"])] if "write_strategy" in draft.keys else []
    for test in own:
        assert test.check is not None
        lines[draft.path, len(head) + 1] = (draft.joint, test.final)
        head.append((kind, test.check.annotation()))
    text = annotation_lines(head)
    files[draft.path] = f"{text}\n{draft.body}\n" if text else f"{draft.body}\n"


def origin(draft: JointDraft, text: str) -> tuple[int, str, Sequence[int]]:
    """Return on which line of a joint's file its query begins, and from where the lines of that came."""
    if draft.body is None or not draft.lines:
        return 0, "", ()
    first = text[: len(text) - len(draft.body) - 1].count("\n") + 1
    return first, draft.place.file, draft.lines

"""A joint declared in a Python file."""

from __future__ import annotations

import io
import posixpath
import tokenize
from dataclasses import replace

from rivet_dagster.project.annotated_joint import annotated_joint
from rivet_dagster.project.annotations import AnnotatedText, read_annotations
from rivet_dagster.project.draft import Draft

FUNCTION = "transform"


def python_joint(text: str, file: str) -> Draft:
    """The joint that ``text`` declares; its function is ``transform`` of this file unless it says another.

    >>> python_joint("# rivet:tags: [daily]\\ndef transform(orders): ...", "joints/scores.py").fields
    {'type': 'python', 'function': 'joints.scores:transform', 'name': 'scores', 'tags': ['daily']}
    """
    found = read_annotations(text, "#")
    found = replace(found, stray=_comments(text, found)) if found.stray else found
    defaults = {"type": "python", "function": f"{module_of(file)}:{FUNCTION}"}
    draft = annotated_joint(found, file, defaults, {}, {})
    if draft.fields["type"] == "python":
        return draft
    message = "`type` of a Python file can only be python"
    wrong = draft.origin.diagnostic("RVT-204", message, joint=draft.name, key="type")
    return replace(draft, fields={**draft.fields, "type": "python"}, errors=(*draft.errors, wrong))


def module_of(file: str) -> str:
    """The dotted path of a Python file of the project.

    >>> module_of("joints/marts/scores.py")
    'joints.marts.scores'
    """
    return posixpath.splitext(file)[0].replace("/", ".")


def _comments(text: str, found: AnnotatedText) -> tuple[int, ...]:
    """The stray annotations that are comments, not lines of some text in quotes."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return found.stray
    lines = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    return tuple(line for line in found.stray if line in lines)

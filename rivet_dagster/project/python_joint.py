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
    """Return the joint that ``text`` declares; its function is ``transform`` of this file unless it names another.

    >>> python_joint("# rivet:tags: [daily]\\ndef transform(orders): ...", "joints/scores.py").fields
    {'type': 'python', 'function': 'joints.scores:transform', 'name': 'scores', 'tags': ['daily']}
    """
    annotated = read_annotations(text, "#")
    annotated = replace(annotated, stray=_comments(text, annotated)) if annotated.stray else annotated
    defaults = {"type": "python", "function": f"{module_of(file)}:{FUNCTION}"}
    draft = annotated_joint(annotated, file, defaults, {}, {})
    if draft.fields["type"] == "python":
        return draft
    message = "`type` of a Python file can only be python"
    wrong = draft.origin.diagnostic("RVT-204", message, joint=draft.name, key="type")
    return replace(draft, fields={**draft.fields, "type": "python"}, errors=(*draft.errors, wrong))


def module_of(file: str) -> str:
    """Return the dotted module path of a Python file of the project.

    >>> module_of("joints/marts/scores.py")
    'joints.marts.scores'
    """
    return posixpath.splitext(file)[0].replace("/", ".")


def _comments(text: str, annotated: AnnotatedText) -> tuple[int, ...]:
    """Return the lines of stray annotations that are comments, not lines of a string."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return annotated.stray
    lines = {token.start[0] for token in tokens if token.type == tokenize.COMMENT}
    return tuple(line for line in annotated.stray if line in lines)

"""Code blocks in Markdown metadata."""

from __future__ import annotations

import re

import dagster as dg


def code_block(text: str, language: str = "") -> dg.MarkdownMetadataValue:
    """Return a code block in Markdown, whose fence is longer than any in ``text``.

    >>> print(code_block("SELECT '```' AS fence", "sql").md_str)
    ````sql
    SELECT '```' AS fence
    ````
    """
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", text)), default=0))
    return dg.MetadataValue.md(f"{fence}{language}\n{text}\n{fence}")


def sql_markdown(sql: str) -> dg.MarkdownMetadataValue:
    """Return SQL as a code block."""
    return code_block(sql, "sql")

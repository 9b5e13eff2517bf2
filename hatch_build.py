"""The README as a package index shows it, which has none of the repository's other files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def without_files(text: str) -> str:
    """Return a text in Markdown without pictures, and with the words of links in place of links, where these are files.

    >>> without_files("See [joints](docs/joints.md) and [Dagster](https://dagster.io).")
    'See joints and [Dagster](https://dagster.io).'
    """
    text = re.sub(r"^!\[[^\]]*\]\((?!https?://)[^)]*\)\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\((?!https?://)[^)]*\)", r"\1", text)


class IndexReadme(MetadataHookInterface):
    """Makes the description of the package from README.md."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text()
        metadata["readme"] = {"content-type": "text/markdown", "text": without_files(text)}

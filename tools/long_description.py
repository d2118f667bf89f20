"""What a package index shows of trtdsl: README.md without links into a repository that has no public address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

WHERE = "Pages that are named here as `docs/…` are in the source distribution.\n\n## Two commands"


def description(readme: str) -> str:
    """The text with each relative link as its words and the file, and without pictures and comments.

    >>> description("[porting](docs/porting.md#files), ![a picture](docs/a.webp)[TensorRT](https://example.org)")
    'porting (`docs/porting.md`), [TensorRT](https://example.org)'
    """
    readme = re.sub(r"<!--.*?-->\n*|!\[[^]]*\]\((?!https?:)[^)]*\)\n*", "", readme)
    link = r"\[([^]]+)\]\((?!https?:)([^)#]+)[^)]*\)"
    readme = re.sub(rf"\({link}\)", r"(\1: `\2`)", readme)
    readme = re.sub(link, r"\1 (`\2`)", readme)
    return readme.replace("## Two commands", WHERE)


class LongDescription(MetadataHookInterface):
    """Hatchling's hook."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Adds the description to the package's metadata."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}

"""What of the metadata depends on where the repository is; pyproject.toml says where, once."""

from __future__ import annotations

import re
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# A path from the repository's root, as the substitutions in pyproject.toml write it, in Markdown or HTML.
_FROM_ROOT = re.compile(r'(\]\(|<img [^>]*src=")/')


class Repository(MetadataHookInterface):
    """Puts the address of the repository before every path of the URLs and of the README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Complete what the table of this hook and hatch-fancy-pypi-readme, which runs before it, have begun."""
        repository: str = self.config["repository"]
        owner = repository.split("/")[-2]
        # An index asks for an address; this kind takes no mail, and questions go to the issues.
        metadata["authors"] = [{"name": f"{owner} maintainers", "email": f"{owner}@users.noreply.github.com"}]
        metadata["urls"] = {label: repository + path for label, path in self.config["urls"].items()}
        metadata["readme"]["text"] = _FROM_ROOT.sub(rf"\g<1>{repository}/", metadata["readme"]["text"])

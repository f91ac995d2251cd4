"""Work that tests in several processes need and one of them does."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any


class Once:
    """Results that are kept in a folder for as long as the tests run.

    Args:
        folder: The folder, the same for every process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def json(self, name: str, work: Callable[[], Any]) -> Any:
        """Return the result of some work, as JSON keeps it; the first caller does the work, the others wait."""
        result = self.folder / f"{name}.json"
        with (self.folder / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not result.exists():
                result.write_text(json.dumps(work()))
        return json.loads(result.read_text())

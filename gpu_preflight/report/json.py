"""A view as JSON."""

from __future__ import annotations

import json

from gpu_facts.light import read_package_data
from gpu_preflight.report.finding_view import View


def render(view: View) -> str:
    """Return a view as indented JSON; characters beyond ASCII are escaped, so that no name breaks an encoding."""
    return json.dumps(view, indent=2) + "\n"


def schema() -> str:
    """Return the JSON schema of what `render` returns."""
    return read_package_data("gpu_preflight.report", "schema.json").decode()

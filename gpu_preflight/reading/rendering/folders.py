"""Folders of kustomizations and charts."""

from __future__ import annotations

from pathlib import Path

from gpu_preflight.reading.rendering.charts import render_charts
from gpu_preflight.reading.rendering.kustomizations import render_kustomizations
from gpu_preflight.reading.rendering.rendering import Rendering


def render(folder: Path) -> Rendering:
    """Render the kustomizations and the charts of a folder."""
    made = Rendering()
    render_charts(folder, made)
    render_kustomizations(folder, made)
    return made

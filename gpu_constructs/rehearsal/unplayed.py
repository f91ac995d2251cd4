"""What of a stack cannot be played here, and what stands in for it so that the rest can."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gpu_constructs.facts.labels import DEFINITIONS_RESOURCE, EKS_DOMAIN
from gpu_constructs.rehearsal.players.cluster.software.definitions import Definitions
from gpu_constructs.rehearsal.players.internet.charts import Charts

_RELEASE, _DEFINITIONS, _OBJECTS = (
    "Custom::AWSCDK-EKS-HelmChart",
    DEFINITIONS_RESOURCE,
    "Custom::AWSCDK-EKS-KubernetesResource",
)


class Unplayed:
    """Says of a resource that is about to be made why it is not played.

    Args:
        charts: Those that can be installed.
        definitions: What stands in for those that cannot.

    Attributes:
        missing: Names of the charts that were asked for and could not be installed.
    """

    def __init__(self, charts: Charts, definitions: Definitions) -> None:
        self._charts, self._definitions = charts, definitions
        self.missing: set[str] = set()

    def __call__(self, _logical_id: str, kind: str, properties: Mapping[str, Any]) -> str:
        """Return why it is not played, empty where it is; what others need of it is there then."""
        if kind in (_RELEASE, _DEFINITIONS):
            return self._of_release(properties)
        if kind == _OBJECTS and _is_of_auto_mode(json.loads(properties["Manifest"])):
            return f"the definitions of {EKS_DOMAIN} are at AWS only"
        return ""

    def of_chart(self, chart: str, version: str, *, definitions: bool) -> str:
        """Return why a chart is not played, empty where it is.

        Args:
            chart: Its name.
            version: Its version.
            definitions: Whether a release of it would bring those inside it.
        """
        if self._charts.has(chart, version):
            return ""
        self.missing.add(chart)
        applied = self._definitions.of_chart(chart) if definitions else []
        said = f"chart {chart} {version} is not in the folder"
        return f"{said}; its definitions were given: {', '.join(applied)}" if applied else said

    def _of_release(self, properties: Mapping[str, Any]) -> str:
        # A chart of the assembly itself has a file and no name.
        if "Chart" not in properties:
            return ""
        skipped = bool(properties.get("SkipCrds"))
        return self.of_chart(properties["Chart"], str(properties.get("Version", "")), definitions=not skipped)


def _is_of_auto_mode(manifest: list[dict[str, Any]]) -> bool:
    """Whether an object is, or refers to, what only Auto Mode knows."""
    return any(EKS_DOMAIN in (_group(each), _node_class_group(each)) for each in manifest)


def _group(manifest: Mapping[str, Any]) -> str:
    return str(manifest["apiVersion"]).partition("/")[0]


def _node_class_group(manifest: Mapping[str, Any]) -> str:
    """Return the group of the node class of a NodePool; empty for any other object."""
    if manifest["kind"] != "NodePool":
        return ""
    return str(manifest["spec"]["template"]["spec"].get("nodeClassRef", {}).get("group", ""))

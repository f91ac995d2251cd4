"""Resources of a stack that can't be simulated, and definitions that replace a chart that isn't in the folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from gpu_facts.labels import DEFINITIONS_RESOURCE, EKS_DOMAIN
from gpu_rehearsal.players.cluster.absent_software import GROUPS, Definitions
from gpu_rehearsal.players.internet import Charts

_RELEASE, _DEFINITIONS, _OBJECTS = (
    "Custom::AWSCDK-EKS-HelmChart",
    DEFINITIONS_RESOURCE,
    "Custom::AWSCDK-EKS-KubernetesResource",
)
# As kubectl and helm report an object whose definition isn't there.
_NO_MATCH = re.compile(
    r'resource mapping not found for name: "[^"]*" namespace: "[^"]*" from "[^"]*": '
    r'no matches for kind "(?P<kind>[^"]+)" in version "(?P<group>[^"/]+)/[^"]+"'
)
_OTHER_ERROR = re.compile(r"Error from server|is invalid|forbidden|no matches for kind")


class Unplayed:
    """Says of a resource that is about to be made why it is not played.

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

    def _of_chart(self, chart: str, version: str, *, definitions: bool) -> str:
        """Return why a chart isn't installed; empty if it is. `definitions` tells whether a release installs them."""
        if self._charts.has(chart, version):
            return ""
        self.missing.add(chart)
        applied = self._definitions.of_chart(chart) if definitions else []
        said = f"chart {chart} {version} is not in the folder"
        return f"{said}; its definitions were given: {', '.join(applied)}" if applied else said

    def excuse(self, error: str) -> str:
        """Return why an error doesn't count: definitions of a chart that isn't there. Empty if it counts."""
        found = {(each["kind"], each["group"]) for each in _NO_MATCH.finditer(error)}
        absent = {group: chart for chart in sorted(self.missing) for group in GROUPS.get(chart, ())}
        if not found or not absent.keys() >= {group for _, group in found}:
            return ""
        if _OTHER_ERROR.search(_NO_MATCH.sub("", error)):
            return ""
        kinds = ", ".join(f"{kind} of chart {absent[group]}" for kind, group in sorted(found))
        return f"it needs the definition of {kinds}, which is not in the folder"

    def _of_release(self, properties: Mapping[str, Any]) -> str:
        # A chart of the assembly itself has a file and no name.
        if "Chart" not in properties:
            return ""
        skipped = bool(properties.get("SkipCrds"))
        return self._of_chart(properties["Chart"], str(properties.get("Version", "")), definitions=not skipped)


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

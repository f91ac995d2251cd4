"""Where images and charts are copied to, so that nodes and charts that are told of the mirror find them.

An image keeps its path: that is where containerd and Bottlerocket look on a mirror without a path of its own. Charts
lie in one folder, as the library's context key ``gpu-constructs:chartMirror`` has it.

Sources: https://github.com/containerd/containerd/blob/main/docs/hosts.md,
https://bottlerocket.dev/en/os/1.64.x/api/settings/container-registry/ (2026-11)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpu_facts.light_dataclasses import dataclass
from gpu_facts.light_patterns import regex
from gpu_preflight.judging.image_names import ImageName, ecr_region
from gpu_preflight.judging.images import PulledChart, Pulls

CHARTS = "charts"
_HOST = regex(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?(:\d{1,5})?", re.ASCII)
_OCI = "oci://"
_NAME = regex(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_VERSION = regex(r"\w[\w.+-]*", re.ASCII)
_ADDRESS = regex(r"(oci|https?)://[A-Za-z0-9][\w./:~%+-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is copied to.

    Attributes:
        target: Its name in the mirror, with the mirror; ``None`` where it is not copied.
        why: Why it is not; empty where it is.
    """

    target: str | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Mirror:
    """A registry that images and charts are copied to.

    Attributes:
        registry: Its host, with a port where it has one.

    Raises:
        ValueError: It is no host.
    """

    registry: str

    def __post_init__(self) -> None:
        if not _HOST.fullmatch(self.registry) or not {".", ":"} & set(self.registry):
            raise ValueError(
                "--mirror must be the host of a registry, such as 111122223333.dkr.ecr.eu-west-1.amazonaws.com or "
                f"registry.example.com:5000, got {self.registry!r}; nodes take mirrors without scheme and path"
            )

    @property
    def region(self) -> str | None:
        """Its region in ECR, ``None`` for another registry."""
        return ecr_region(self.registry)

    @property
    def charts(self) -> str:
        """Where charts are taken from, as the app's context says it."""
        return f"{_OCI}{self.registry}/{CHARTS}"

    def of_image(self, image: ImageName, region: str | None) -> Place:
        """Return where an image is copied to, for a cluster in a region."""
        home, near = ecr_region(image.registry), region or self.region
        if image.registry == self.registry:
            return Place(None, "it is in the mirror")
        if home is not None and near is None:
            return Place(None, f"it is in ECR of {home}; copy it where the cluster is elsewhere")
        if home is not None and home == near:
            return Place(None, f"it is in ECR of {home}, as the cluster is")
        # A manifest that is pulled by its digest keeps it under any tag.
        suffix = f":{image.tag}" if image.tag else image.suffix
        return Place(f"{self.registry}/{image.path}{suffix}")

    def of_chart(self, chart: PulledChart) -> Place:
        """Return where a chart is copied to."""
        if chart.repository is None or chart.chart.version is None:
            return Place(None, "where it is kept, or its version, is not known")
        if chart.repository.startswith(f"{_OCI}{self.registry}/"):
            return Place(None, "it is in the mirror")
        words = (chart.chart.name, chart.chart.version, chart.repository)
        if not all(rule.fullmatch(each) for rule, each in zip((_NAME, _VERSION, _ADDRESS), words, strict=True)):
            return Place(None, "no chart has such a name, version or address")
        # OCI has no plus sign in tags.
        return Place(f"{self.registry}/{CHARTS}/{chart.chart.name}:{chart.chart.version.replace('+', '_')}")

    def refuse_twins(self, found: Iterable[Pulls]) -> None:
        """Refuse images that would take each other's place.

        Raises:
            ValueError: Two images of different registries come to one name.
        """
        names: dict[str, ImageName] = {}
        for pulls in found:
            for image in pulls.images:
                target = self.of_image(image, pulls.region).target
                other = names.setdefault(target, image) if target else image
                unlike = other.digest != image.digest and bool(other.digest and image.digest)
                if other.registry != image.registry or unlike:
                    raise ValueError(
                        f"--mirror {self.registry} must have a name for each image, got {target} for {other} and for "
                        f"{image}; take one of them from another registry, or under another tag"
                    )

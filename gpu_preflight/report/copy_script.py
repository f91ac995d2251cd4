"""A shell script that copies the images and charts of clusters into a mirror.

Sources: https://github.com/google/go-containerregistry/blob/main/cmd/crane/doc/crane_copy.md,
https://helm.sh/docs/topics/registries/,
https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry_auth.html (2026-11)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpu_preflight.report.wording import printable

if TYPE_CHECKING:
    from gpu_preflight.report.images_view import ImagesView, PulledChartView, PulledImageView, PullsView

_OCI = "oci://"
_COPY_CHART = "copy_chart"
_HEAD = """\
#!/usr/bin/env bash
# Copies the images and charts that clusters pull into a mirror. Written by gpu-constructs {version}.
# Needs crane (https://github.com/google/go-containerregistry){needs}.
# Each copy keeps its digest and contains every architecture.
set -euo pipefail
"""
_NOTHING = "# There is nothing to copy.\n"
_LOGIN = """\
# If a registry requires a login, log in first: crane auth login REGISTRY --username NAME --password-stdin
"""
_ECR_LOGIN = """\
log_in() {
  aws ecr get-login-password --region "$2" | crane auth login "$1" --username AWS --password-stdin
}
"""
_ECR_REPOSITORY = """\
make_repository() {{
  aws ecr describe-repositories --region {region} --repository-names "$1" >/dev/null 2>&1 ||
    aws ecr create-repository --region {region} --repository-name "$1" >/dev/null
}}
"""
_NO_REPOSITORY = """\
make_repository() {
  : # The registry creates it.
}
"""
_COPY = """\
copy() {
  local path="${2%@*}"
  make_repository "${path%:*}"
  crane copy -- "$1" "$mirror/$2"
}
"""
_CHART = """\
copy_chart() {
  make_repository "charts/$1"
  helm pull --repo "$3" --version "$2" --destination "$folder" -- "$1"
  helm push "$folder/$1-$2.tgz" "oci://$mirror/charts"
}

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
"""


def render(view: ImagesView) -> str:
    """Return the script that copies the images and charts of clusters.

    Raises:
        ValueError: The view names no mirror.
    """
    mirror, clusters = view.mirror, view.clusters
    if mirror is None:
        raise ValueError("mirror must be a registry to copy to, got None")
    images = {each.target: each for cluster in clusters for each in cluster.images if each.target}
    charts = {each.target: each for cluster in clusters for each in cluster.charts if each.target}
    copied = [_copied_image(target, each) for target, each in images.items()]
    copied += [_copied_chart(target, each) for target, each in charts.items()]
    packed = sum(each.startswith(_COPY_CHART) for each, *_ in copied)
    region = mirror.ecr_region
    homes = {each.registry: each.ecr_region for each in images.values() if each.ecr_region}
    logins = homes | ({mirror.registry: region} if region else {})
    needs = [*(["helm"] if packed else []), *(["AWS CLI"] if logins else [])]
    needed = f", {' and '.join(needs)}" if needs else ""
    parts = [_HEAD.format(version=view.tool.version, needs=needed), *_not_known(clusters)]
    if not copied:
        return "\n".join((*parts, _NOTHING))
    parts += [f"mirror={shlex.quote(mirror.registry)}\n", _ECR_LOGIN if logins else _LOGIN]
    parts.append(_ECR_REPOSITORY.format(region=shlex.quote(region)) if region else _NO_REPOSITORY)
    parts += [_COPY] if packed < len(copied) else []
    parts += [_CHART] if packed else []
    parts.append(_lines(("log_in", *each) for each in logins.items()))
    parts.append(_lines(copied))
    return "\n".join(each for each in parts if each)


def _copied_image(target: str, image: PulledImageView) -> tuple[str, ...]:
    return "copy", image.reference, target.partition("/")[2]


def _copied_chart(target: str, chart: PulledChartView) -> tuple[str, ...]:
    repository = chart.repository or ""
    if not repository.startswith(_OCI):
        return _COPY_CHART, chart.name, chart.version or "", repository
    return "copy", f"{repository.removeprefix(_OCI)}:{target.rpartition(':')[2]}", target.partition("/")[2]


def _not_known(clusters: Iterable[PullsView]) -> list[str]:
    """Return the unknown images and charts, which the script doesn't copy, as comments."""
    lines = dict.fromkeys(f"{each.what}: {each.reason}" for one in clusters for each in one.not_known)
    return ["".join(f"# Unknown, and not copied: {printable(each)}\n" for each in lines)] if lines else []


def _lines(commands: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"{shlex.join(each)}\n" for each in commands)

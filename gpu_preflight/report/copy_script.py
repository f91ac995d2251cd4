"""A shell script that copies what clusters pull into a mirror.

Sources: https://github.com/google/go-containerregistry/blob/main/cmd/crane/doc/crane_copy.md,
https://helm.sh/docs/topics/registries/,
https://docs.aws.amazon.com/AmazonECR/latest/userguide/registry_auth.html (2026-11)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gpu_preflight.report.finding_view import View
from gpu_preflight.report.wording import printable

_OCI = "oci://"
_HEAD = """\
#!/usr/bin/env bash
# Copies what clusters pull into a mirror; written by gpu-constructs {version}.
# Needs crane (https://github.com/google/go-containerregistry){needs}.
# What is copied keeps its digest, for every architecture.
set -euo pipefail
"""
_NOTHING = "# There is nothing to copy.\n"
_LOGIN = """\
# Log in before, where a registry asks for it: crane auth login REGISTRY --username NAME --password-stdin
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
  : # The registry makes it.
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


def render(view: View) -> str:
    """Return the script of a view that names a mirror."""
    mirror, clusters = view["mirror"], view["clusters"]
    images = _unique(each for cluster in clusters for each in cluster["images"] if each["target"])
    charts = _unique(each for cluster in clusters for each in cluster["charts"] if each["target"])
    packed = [each for each in charts if not each["repository"].startswith(_OCI)]
    region = mirror["ecrRegion"]
    homes = {each["registry"]: each["ecrRegion"] for each in images if each["ecrRegion"]}
    logins = homes | ({mirror["registry"]: region} if region else {})
    needs = [*(["helm"] if packed else []), *(["AWS CLI"] if logins else [])]
    needed = f", {' and '.join(needs)}" if needs else ""
    version = view["tool"]["version"]
    parts = [_HEAD.format(version=version, needs=needed), *_not_known(clusters)]
    if not images and not charts:
        return "\n".join((*parts, _NOTHING))
    parts += [f"mirror={shlex.quote(mirror['registry'])}\n", _ECR_LOGIN if logins else _LOGIN]
    parts.append(_ECR_REPOSITORY.format(region=shlex.quote(region)) if region else _NO_REPOSITORY)
    parts += [_COPY] if len(packed) < len(images) + len(charts) else []
    parts += [_CHART] if packed else []
    parts.append(_lines(_login_command(host, home) for host, home in logins.items()))
    parts.append(_lines(_copied(each, mirror["registry"]) for each in (*images, *charts)))
    return "\n".join(each for each in parts if each)


def _unique(views: Iterable[View]) -> list[View]:
    return list({each["target"]: each for each in views}.values())


def _not_known(clusters: Iterable[View]) -> list[str]:
    """Return what is not in the script, as comments."""
    lines = dict.fromkeys(f"{each['what']}: {each['reason']}" for one in clusters for each in one["notKnown"])
    return ["".join(f"# Not known, and not copied: {printable(each)}\n" for each in lines)] if lines else []


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{each}\n" for each in lines)


def _login_command(host: str, region: str) -> str:
    return f"log_in {shlex.quote(host)} {shlex.quote(region)}"


def _copied(each: View, mirror: str) -> str:
    target = each["target"].removeprefix(f"{mirror}/")
    if "reference" in each:
        return _command("copy", each["reference"], target)
    name, version, repository = each["name"], each["version"], each["repository"]
    if repository.startswith(_OCI):
        return _command("copy", f"{repository.removeprefix(_OCI)}:{target.rpartition(':')[2]}", target)
    return _command("copy_chart", name, version, repository)


def _command(*words: str) -> str:
    return " ".join(map(shlex.quote, words))

"""Mirrors, authorities and proxy of a host in the words of nodeadm, of an AL2023 script, Bottlerocket and Auto Mode."""

from __future__ import annotations

import base64
from typing import Any

from gpu_constructs.pools.host.host import Host

# Name of the bundle of certificates.
_BUNDLE = "gpu-constructs"
_MIRRORS = """\
mkdir -p '/etc/containerd/certs.d/{registry}'
cat > '/etc/containerd/certs.d/{registry}/hosts.toml' <<'HOSTS'
{hosts}HOSTS
"""
_MIRROR = """\
[host."{mirror}"]
capabilities = ["pull", "resolve"]
"""
_TRUST = """\
cat > '/etc/pki/ca-trust/source/anchors/{bundle}.pem' <<'CERTIFICATES'
{certificates}CERTIFICATES
update-ca-trust extract
"""


def nodeadm_environment(host: Host) -> dict[str, Any]:
    """Return what nodeadm sets for itself, containerd, kubelet and every other service of an AL2023 node.

    Source: awslabs/amazon-eks-ami 81fec2e (2026-07-23) nodeadm/internal/system/environment.go
    """
    if host.proxy is None:
        return {}
    said = {
        "HTTP_PROXY": host.proxy.url,
        "HTTPS_PROXY": host.proxy.url,
        "NO_PROXY": ",".join(host.proxy.exceptions),
    }
    # Some programs read the one, some the other.
    both = said | {name.lower(): value for name, value in said.items()}
    return {"instance": {"environment": {"default": both}}}


def al2023_scripts(host: Host) -> tuple[str, ...]:
    """Return the script that writes mirrors and authorities before nodeadm starts containerd.

    Sources: awslabs/amazon-eks-ami 3477d8f nodeadm/internal/containerd/config2.template.toml (config_path),
    https://github.com/containerd/containerd/blob/main/docs/hosts.md (2026-11)
    """
    steps = [
        _MIRRORS.format(registry=registry, hosts="".join(_MIRROR.format(mirror=mirror) for mirror in mirrors))
        for registry, mirrors in host.registry_mirrors.items()
    ]
    if host.certificate_authorities:
        steps.append(_TRUST.format(bundle=_BUNDLE, certificates="".join(host.certificate_authorities)))
    return ("".join(("#!/bin/bash\nset -euo pipefail\n", *steps)),) if steps else ()


def bottlerocket_surroundings(host: Host) -> dict[str, Any]:
    """Return the settings of Bottlerocket.

    Sources: https://bottlerocket.dev/en/os/1.64.x/api/settings/container-registry/, .../pki/, .../network/ (2026-11)
    """
    found: dict[str, Any] = {}
    if host.registry_mirrors:
        mirrors = [
            {"registry": registry, "endpoint": list(mirrors)} for registry, mirrors in host.registry_mirrors.items()
        ]
        found["container-registry"] = {"mirrors": mirrors}
    if host.certificate_authorities:
        found["pki"] = {_BUNDLE: {"data": _encoded(host), "trusted": True}}
    if host.proxy is not None:
        found["network"] = {"https-proxy": host.proxy.url, "no-proxy": list(host.proxy.exceptions)}
    return found


def node_class_surroundings(host: Host) -> dict[str, Any]:
    """Return fields of Auto Mode's NodeClass.

    Source: https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html (2026-11)
    """
    found: dict[str, Any] = {}
    if host.proxy is not None:
        found["advancedNetworking"] = {"httpsProxy": host.proxy.url, "noProxy": list(host.proxy.exceptions)}
    if host.certificate_authorities:
        found["certificateBundles"] = [{"name": _BUNDLE, "data": _encoded(host)}]
    return found


def _encoded(host: Host) -> str:
    return base64.b64encode("".join(host.certificate_authorities).encode()).decode()

"""User data of nodes: a NodeConfig on AL2023, TOML settings on Bottlerocket, and scripts.

Sources: https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/, https://bottlerocket.dev/en/os/latest/api/settings/
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from email.mime.multipart import MIMEMultipart
from email.mime.nonmultipart import MIMENonMultipart
from functools import cache, partial, reduce
from typing import Any

import tomli_w

from gpu_constructs.installing.yaml_text import to_yaml
from gpu_constructs.nodes.bootstrap import Membership
from gpu_constructs.pools.host import Host
from gpu_constructs.pools.kubelet import Taint
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.pools.sharing import Mig, Mps, TimeSlicing
from gpu_facts.hardware.gpu_models import BOTTLEROCKET_NAMES
from gpu_facts.merging import merged
from gpu_facts.resources import EFA_HUGE_PAGES

# A systemd unit, because on Hopper and newer the MIG mode is lost at a reboot, and on all GPUs the instances are.
# Source: https://docs.nvidia.com/datacenter/tesla/mig-user-guide/ (getting started, read 2026-08)
_TEMPLATE = """\
#!/bin/bash
set -euo pipefail
cat > /usr/local/sbin/gpu-mig-setup <<'SCRIPT'
#!/bin/bash
set -euo pipefail
# A GPU that a daemon holds does not change its mode.
systemctl stop nvidia-persistenced.service || true
nvidia-smi -mig 1
# Ampere takes a reset for it; newer ones have changed already.
nvidia-smi --gpu-reset || true
nvidia-smi mig -dci || true
nvidia-smi mig -dgi || true
nvidia-smi mig -cgi {instances} -C
systemctl start nvidia-persistenced.service || true
SCRIPT
chmod 0755 /usr/local/sbin/gpu-mig-setup
cat > /etc/systemd/system/gpu-mig-setup.service <<'UNIT'
[Unit]
Description=Partition the GPUs with MIG
Before=nodeadm-run.service kubelet.service
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/local/sbin/gpu-mig-setup
[Install]
WantedBy=multi-user.target
UNIT
systemctl enable gpu-mig-setup.service
/usr/local/sbin/gpu-mig-setup
"""
# Limit before base64 encoding.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/user-data.html (2026-08)
MAX_BYTES = 16 * 1024
# Name of the certificate bundle.
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
# Fixed, because a random boundary would replace every node at each synth.
_BOUNDARY = "//gpu-constructs//"
_ON_LOCAL_DISKS = ("/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
# Source: bottlerocket-os/bottlerocket-core-kit packages/soci-snapshotter/ephemeral-storage.conf
_SOCI_DIRECTORY = "/var/lib/soci-snapshotter"
# The same number of streams as in nodeadm on AL2023. Bottlerocket's own default is 3 downloads and 1 unpack.
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/internal/containerd/
_SOCI_PLUGIN: dict[str, Any] = {
    "container-runtime-plugins": {
        "soci-snapshotter": {
            "pull-mode": "parallel-pull-unpack",
            "parallel-pull-unpack": {
                "max-concurrent-downloads-per-image": 20,
                "concurrent-download-chunk-size": "16mb",
                "max-concurrent-unpacks-per-image": 12,
                "discard-unpacked-layers": True,
            },
        }
    },
}


def _mig_script(sharing: Mig) -> str:
    """Return the script. It creates the largest instances first, because the order determines their placement."""
    sizes = sorted(sharing.geometry.items(), key=lambda item: -int(item[0].partition("g.")[0]))
    return _TEMPLATE.format(instances=",".join(name for name, number in sizes for _ in range(number)))


def joined(ours: Mapping[str, Any], *theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with others applied to it. Mappings are merged, lists joined, and later values take precedence.

    Nodeadm merges in the same way, except that it joins only the flags of the kubelet. This library sets no other
    lists.
    """
    return reduce(partial(merged, other=_both), theirs, dict(ours))


def _both(_key: str, ours: Any, theirs: Any) -> Any:
    return [*ours, *theirs] if isinstance(ours, list) and isinstance(theirs, list) else theirs


def _within_bounds(user_data: str) -> str:
    """Return user data within the size limit of EC2. A token's value at deployment may be longer than the token.

    Raises:
        ValueError: It is too long.
    """
    size = len(user_data.encode())
    if size > MAX_BYTES:
        raise ValueError(
            f"host: user_data must have at most {MAX_BYTES} bytes together with this library's own, got {size}; "
            "download long scripts from a bucket, or build an image"
        )
    return user_data


def _nodeadm_environment(host: Host) -> dict[str, Any]:
    """Return the environment variables of nodeadm, containerd, the kubelet and all other services of an AL2023 node.

    Source: awslabs/amazon-eks-ami 81fec2e (2026-07-23) nodeadm/internal/system/environment.go
    """
    if host.proxy is None:
        return {}
    said = {"HTTP_PROXY": host.proxy.url, "HTTPS_PROXY": host.proxy.url, "NO_PROXY": ",".join(host.proxy.exceptions)}
    # Some programs read only one spelling.
    both = said | {name.lower(): value for name, value in said.items()}
    return {"instance": {"environment": {"default": both}}}


def al2023_scripts(host: Host) -> tuple[str, ...]:
    """Return the script that writes mirrors and certificates before nodeadm starts containerd.

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


def _bottlerocket_surroundings(host: Host) -> dict[str, Any]:
    """Return the settings of Bottlerocket for mirrors, certificates and the proxy.

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
    """Return the fields of Auto Mode's NodeClass for certificates and the proxy.

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


def user_data(shape: NodeShape) -> str | None:
    """Return the user data of a managed node, which EKS merges into its own, or ``None`` if EKS' own is sufficient."""
    if shape.os == "bottlerocket":
        return _toml(_bottlerocket_settings(shape), _bottlerocket_kubelet(shape), shape)
    spec = _nodeadm_disks(shape) | _nodeadm_pulls(shape) | _nodeadm_kubelet(shape)
    return _al2023(spec, shape.host, *_mig(shape))


def plain_user_data(host: Host) -> str | None:
    """Return the user data of a managed AL2023 node without GPUs, or ``None`` if EKS' own is sufficient."""
    return _al2023({}, host)


def node_class_user_data(shape: NodeShape) -> str | None:
    """Return settings without a field in an EC2NodeClass, which Karpenter merges into its user data, or ``None``."""
    if shape.os == "bottlerocket":
        settings = _bottlerocket_pulls(shape) | _bottlerocket_huge_pages(shape) | _bottlerocket_sharing(shape)
        return _toml(settings, {}, shape)
    pulls = shape.kubelet.pulls()
    spec = _nodeadm_pulls(shape) | ({"kubelet": {"config": pulls}} if pulls else {})
    return _al2023(spec, shape.host, *_mig(shape))


def joining_user_data(shape: NodeShape, pool: str, cluster: Membership) -> str:
    """Return the user data of a node that EKS doesn't manage: cluster data, labels and taints."""
    labels = shape.node_labels(pool)
    if shape.os == "bottlerocket":
        joins = {
            "cluster-name": cluster.name,
            "api-server": cluster.endpoint,
            "cluster-certificate": cluster.certificate_authority,
            "cluster-dns-ip": cluster.dns_ip,
            "node-labels": labels,
            "node-taints": _taints_by_key(shape),
        }
        return _toml(_bottlerocket_settings(shape), joins | _bottlerocket_kubelet(shape), shape) or ""
    taints = ",".join(f"{taint.key}={taint.value}:{taint.effect}" for taint in registered_taints(shape))
    flags = [f"--node-labels={','.join(f'{key}={value}' for key, value in labels.items())}"]
    spec: dict[str, Any] = {
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.certificate_authority,
            "cidr": cluster.service_cidr,
        },
        "kubelet": {"flags": flags + ([f"--register-with-taints={taints}"] if taints else [])},
    }
    spec["kubelet"] |= _nodeadm_kubelet(shape).get("kubelet", {})
    return _al2023(spec | _nodeadm_disks(shape) | _nodeadm_pulls(shape), shape.host, *_mig(shape)) or ""


def registered_taints(shape: NodeShape) -> tuple[Taint, ...]:
    """Return the taints with which a node registers, including startup taints."""
    return (*shape.node_taints, *shape.startup_taints)


def _taints_by_key(shape: NodeShape) -> dict[str, list[str]]:
    # A node may have two taints with one key and different effects.
    found: dict[str, list[str]] = {}
    for taint in registered_taints(shape):
        found.setdefault(taint.key, []).append(f"{taint.value}:{taint.effect}")
    return found


def _mig(shape: NodeShape) -> tuple[str, ...]:
    return (_mig_script(shape.sharing),) if isinstance(shape.sharing, Mig) else ()


def _nodeadm_disks(shape: NodeShape) -> dict[str, Any]:
    # Without a strategy nodeadm doesn't use local NVMe.
    return {"instance": {"localStorage": {"strategy": "RAID0"}}} if shape.uses_raid0 else {}


def _nodeadm_pulls(shape: NodeShape) -> dict[str, Any]:
    return {"featureGates": {"FastImagePull": True}} if shape.soci else {}


def _nodeadm_kubelet(shape: NodeShape) -> dict[str, Any]:
    config = shape.kubelet.config() | shape.kubelet.pulls()
    return {"kubelet": {"config": config}} if config else {}


def _bottlerocket_settings(shape: NodeShape) -> dict[str, Any]:
    return _bottlerocket_disks(shape) | _bottlerocket_pulls(shape) | _bottlerocket_sharing(shape)


def _bottlerocket_sharing(shape: NodeShape) -> dict[str, Any]:
    # Source: https://bottlerocket.dev/en/os/1.64.x/api/settings/kubelet-device-plugins/
    settings = _plugin_settings(shape)
    return {"kubelet-device-plugins": {"nvidia": settings}} if settings else {}


def _plugin_settings(shape: NodeShape) -> dict[str, Any]:
    if shape.managed_by.by_claim:
        # Supported by Bottlerocket 1.63 and newer.
        # Source: https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-dra-device-plugin.html
        return {"enabled": False}
    match shape.sharing:
        case TimeSlicing(replicas=replicas):
            slicing = {"replicas": replicas, "rename-by-default": True, "fail-requests-greater-than-one": True}
            return {"device-sharing-strategy": "time-slicing", "time-slicing": slicing}
        case Mps(replicas=replicas):
            return {"device-sharing-strategy": "mps", "mps": {"replicas": replicas, "rename-by-default": True}}
        case Mig(geometry=geometry):
            [profile] = geometry
            names = {BOTTLEROCKET_NAMES[each.family]: profile for each in shape.rows}
            return {"device-partitioning-strategy": "mig", "mig": {"profile": names}}
    return {}


def _bottlerocket_disks(shape: NodeShape) -> dict[str, Any]:
    return (_bottlerocket_raid0(shape) if shape.uses_raid0 else {}) | _bottlerocket_huge_pages(shape)


def _bottlerocket_huge_pages(shape: NodeShape) -> dict[str, Any]:
    return {"kernel": {"sysctl": {"vm.nr_hugepages": str(EFA_HUGE_PAGES)}}} if shape.efa else {}


def _bottlerocket_pulls(shape: NodeShape) -> dict[str, Any]:
    # Supported by Bottlerocket 1.44 and newer.
    # Source: https://bottlerocket.dev/en/os/1.64.x/api/settings/container-runtime-plugins/
    return {"container-runtime": {"snapshotter": "soci"}, **_SOCI_PLUGIN} if shape.soci else {}


def _bottlerocket_kubelet(shape: NodeShape) -> dict[str, Any]:
    kubelet = shape.kubelet
    found: dict[str, Any] = {}
    if kubelet.max_pods is not None:
        found["max-pods"] = kubelet.max_pods
    if kubelet.kube_reserved:
        found["kube-reserved"] = dict(kubelet.kube_reserved)
    if kubelet.system_reserved:
        found["system-reserved"] = dict(kubelet.system_reserved)
    if kubelet.parallel_image_pulls is not None:
        # Supported by Bottlerocket 1.51 and newer.
        found["max-parallel-image-pulls"] = kubelet.parallel_image_pulls
    return found


def _bottlerocket_raid0(shape: NodeShape) -> dict[str, Any]:
    # Supported by Bottlerocket 1.22 and newer. EKS' merger can't parse quotes in a header, so the key is bare.
    # Source: karpenter-provider-aws v1.14.1 pkg/providers/amifamily/bootstrap/bottlerocket.go
    bind = ["apiclient", "ephemeral-storage", "bind", "--dirs", *_ON_LOCAL_DISKS]
    mount = {
        "commands": [
            ["apiclient", "ephemeral-storage", "init"],
            [*bind, _SOCI_DIRECTORY] if shape.soci else bind,
        ],
        "mode": "always",
        "essential": True,
    }
    return {"bootstrap-commands": {"000-mount-instance-storage": mount}}


def _toml(settings: dict[str, Any], kubernetes: dict[str, Any], shape: NodeShape) -> str | None:
    ours = settings | ({"kubernetes": kubernetes} if kubernetes else {}) | _bottlerocket_surroundings(shape.host)
    found = joined(ours, *shape.host.bottlerocket_settings)
    return _within_bounds(tomli_w.dumps({"settings": found})) if found else None


def _al2023(spec: dict[str, Any], host: Host, *mig: str) -> str | None:
    spec = joined(spec, _nodeadm_environment(host), *host.node_configs)
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
    scripts = (*al2023_scripts(host), *mig, *host.scripts)
    return _within_bounds(_mime(json.dumps(config) if spec else None, scripts)) if spec or scripts else None


@cache
def _mime(node_config: str | None, scripts: tuple[str, ...]) -> str:
    parts = []
    if node_config is not None:
        parts.append(_part("application", "node.eks.aws", to_yaml(json.loads(node_config), width=80)))
    # nodeadm starts the kubelet after cloud-init has run them.
    parts.extend(_part("text", "x-shellscript", script) for script in scripts)
    return MIMEMultipart("mixed", boundary=_BOUNDARY, _subparts=parts).as_string()


def _part(main: str, sub: str, text: str) -> MIMENonMultipart:
    part = MIMENonMultipart(main, sub)
    del part["MIME-Version"]
    part.set_payload(text)
    return part

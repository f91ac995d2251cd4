"""What nodes are told at boot: incomplete, meant for another system, or meant for another cluster."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.images import has_driver, image_of
from gpu_constructs.preflight.model import Cluster, Pool
from gpu_constructs.preflight.nodes import minor
from gpu_constructs.preflight.references import referred, refers
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, dig, is_true, known_number, known_text, mapping, mappings

_NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"
_NODE_CONFIG = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")
_BOTTLEROCKET = ("cluster-name", "api-server", "cluster-certificate")
_AL2_SCRIPT = "/etc/eks/bootstrap.sh"
_OWNER_TAG = "kubernetes.io/cluster/"
_INSTALLERS = re.compile(r"\b(?:yum|dnf|apt|apt-get)\b")
_DRIVERS = ("nvidia-driver", "nvidia-open", "nvidia-dkms", "kmod-nvidia", "cuda-drivers", "nvidia-container-toolkit")
_COMMAND_ENDS = re.compile(r"[\n;&|]+")
# Flags that kubelet does not know: gone with the minor version that is named, or only ever of AL2's script.
# Source: kubernetes/kubernetes CHANGELOG/CHANGELOG-1.24.md and CHANGELOG-1.27.md; awslabs/amazon-eks-ami
# v20260724 templates/al2/runtime/bootstrap.sh
_GONE_FLAGS = {
    **dict.fromkeys(("network-plugin", "cni-conf-dir", "cni-bin-dir", "docker-endpoint", "dynamic-config-dir"), "1.24"),
    "container-runtime": "1.27",
    **dict.fromkeys(("kubelet-extra-args", "use-max-pods", "b64-cluster-ca", "apiserver-endpoint", "dns-cluster-ip")),
}
_IMAGE_VERSION = re.compile(r"(?:/optimized-ami/|/aws-k8s-)([0-9]{1,3}\.[0-9]{1,3})\b")
_MINOR = re.compile(r"[0-9]{1,3}\.[0-9]{1,3}")
_OLDEST_KUBELET = 3


def _boots_itself(pool: Pool) -> bool:
    """Whether nobody adds to the user data: EKS does for a managed group without an image of its own."""
    return bool(pool.launch) and (pool.kind == "self-managed" or (pool.kind == "managed" and bool(image_of(pool))))


def _told(pool: Pool) -> dict[str, Any]:
    """Return what user data says of the cluster, in the names of NodeConfig."""
    settings = mapping(dig(dict(pool.user_data.settings), "kubernetes"))
    config = mapping(pool.user_data.node_config.get("cluster"))
    names = zip(_NODE_CONFIG, _BOTTLEROCKET, strict=False)
    return config | {ours: settings[theirs] for ours, theirs in names if theirs in settings}


def _incomplete(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        if not _boots_itself(pool) or pool.user_data.format == "unknown":
            continue
        if pool.operating_system == "al2023" and not _by_script(pool):
            lacking = [each for each in _NODE_CONFIG if not _told(pool).get(each)]
            if lacking:
                names = ", ".join(f"cluster.{each}" for each in lacking)
                yield Problem(pool.origin, f"pool {pool.name}: its user data gives nodeadm no {names}")
        elif pool.operating_system == "bottlerocket":
            settings = mapping(dig(dict(pool.user_data.settings), "kubernetes"))
            lacking = [each for each in _BOTTLEROCKET if not settings.get(each)]
            if lacking:
                message = f"pool {pool.name}: its user data lacks settings.kubernetes.{', '.join(lacking)}"
                yield Problem(pool.origin, message)


def _by_script(pool: Pool) -> bool:
    """Whether a script may do what the NodeConfig part does not, or is the wrong one, which is said elsewhere."""
    return any("nodeadm" in each or "/etc/eks/" in each for each in pool.user_data.scripts)


def _script_of_al2(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        called = any(_AL2_SCRIPT in each for each in pool.user_data.scripts)
        if called and pool.operating_system == "al2023" and _boots_itself(pool):
            yield Problem(pool.origin, f"pool {pool.name}: calls {_AL2_SCRIPT}, which AL2023 does not have")


def _other_cluster(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        told = _told(pool)
        name = known_text(told.get("name"))
        if cluster.resource is None or not told:
            continue
        own = known_text(cluster.resource.properties.get("Name"))
        if name and own and name != own:
            yield Problem(pool.origin, f"pool {pool.name}: its nodes are told to join {name}, the cluster is {own}")
        for key in _NODE_CONFIG[:3]:
            other = referred(told.get(key), cluster.resources)
            if other and other.type == cluster.resource.type and not refers(told[key], cluster.resource):
                yield Problem(pool.origin, f"pool {pool.name}: cluster.{key} is that of {other.path}")
        literal = [each for each in _NODE_CONFIG[1:3] if known_text(told.get(each))]
        if literal:
            keys = " and ".join(literal)
            message = f"pool {pool.name}: {keys} is written out, and EKS chooses it when it makes the cluster"
            yield Problem(pool.origin, message, unknown=True)


def _untagged(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        if pool.kind != "self-managed" or not pool.launch:
            continue
        group = [each for each in mappings(pool.properties.get("Tags")) if is_true(each.get("PropagateAtLaunch"))]
        launched = [
            tag
            for each in mappings(pool.launch.get("TagSpecifications"))
            if each.get("ResourceType") == "instance"
            for tag in mappings(each.get("Tags"))
        ]
        if not any(_may_own(each.get("Key")) for each in (*group, *launched)):
            yield Problem(pool.origin, f"pool {pool.name}: its instances get no tag {_OWNER_TAG}{cluster.name}")


def _may_own(key: Any) -> bool:
    return str(key).startswith((_OWNER_TAG, "${"))


def _no_metadata(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        written = dig(dict(pool.launch), "MetadataOptions", "HttpEndpoint")
        written = written or dig(dict(pool.launch), "metadataOptions", "httpEndpoint")
        if written == "disabled":
            yield Problem(pool.origin, f"pool {pool.name}: its instances have no metadata service")


def _installs_driver(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        commands = [part for each in pool.user_data.scripts for part in _COMMAND_ENDS.split(each)]
        found = next((each for each in commands if _is_installation(each)), None)
        if found and has_driver(pool) is Answer.YES:
            command = " ".join(found.split())[:80]
            yield Problem(pool.origin, f"pool {pool.name}: '{command}' over the driver that its image brings")


def _is_installation(command: str) -> bool:
    if command.lstrip().startswith("#"):
        return False
    packaged = "install" in command and any(each in command for each in _DRIVERS) and _INSTALLERS.search(command)
    return bool(packaged) or ("NVIDIA-Linux-" in command and ".run" in command)


def _wrong_kubelet(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        flags = [each.partition("=")[0].lstrip("-") for each in pool.user_data.kubelet_flags]
        for flag in flags:
            if flag in _GONE_FLAGS:
                since = f" since {_GONE_FLAGS[flag]}" if _GONE_FLAGS[flag] else ""
                yield Problem(pool.origin, f"pool {pool.name}: kubelet does not know --{flag}{since}")
        pods = pool.user_data.kubelet_config.get("maxPods")
        if pods is not None and not isinstance(pods, Unknown) and known_number(pods) is None:
            yield Problem(pool.origin, f"pool {pool.name}: maxPods of kubelet is {pods!r}, not a number")


def _skewed(cluster: Cluster) -> Iterator[Problem]:
    if not cluster.whole or not _MINOR.fullmatch(cluster.version or ""):
        return
    plane = minor(cluster.version or "")
    for pool in cluster.gpu_pools:
        version = _version(pool)
        nodes = minor(version) if version and _MINOR.fullmatch(version) else plane
        if nodes > plane or plane[1] - nodes[1] > _OLDEST_KUBELET:
            yield Problem(pool.origin, f"pool {pool.name}: its nodes are {version}, the cluster is {cluster.version}")


def _version(pool: Pool) -> str | None:
    found = _IMAGE_VERSION.search(str(image_of(pool) or ""))
    return found.group(1) if found else known_text(pool.properties.get("Version")) if pool.kind == "managed" else None


RULES = (
    Rule(
        id="GPU082",
        severity="error",
        title="User data does not say which cluster to join",
        why="With an image of your own, and in self-managed groups, nobody adds it; the nodes never join.",
        source=_NODEADM,
        fix="Give cluster.name, apiServerEndpoint, certificateAuthority and cidr in a part application/node.eks.aws; "
        "Bottlerocket takes cluster-name, api-server and cluster-certificate.",
        causes=("C12",),
        check=_incomplete,
    ),
    Rule(
        id="GPU083",
        severity="error",
        title="Bootstrap script of Amazon Linux 2 on AL2023",
        why="The script is not there, so kubelet never starts.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/al2023.html",
        fix="Replace the script by a NodeConfig in a MIME part application/node.eks.aws.",
        causes=("C13",),
        check=_script_of_al2,
    ),
    Rule(
        id="GPU084",
        severity="error",
        title="Nodes are told to join another cluster",
        why="They fail on certificate or name, or join the wrong cluster.",
        source=_NODEADM,
        fix="Refer to the cluster of the template for name, endpoint and certificate authority.",
        causes=("C14",),
        check=_other_cluster,
    ),
    Rule(
        id="GPU085",
        severity="warning",
        title="Instances without the tag of their cluster",
        why="EKS documents kubernetes.io/cluster/NAME on self-managed instances; controllers find nodes by it.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/worker.html",
        fix="Tag the group kubernetes.io/cluster/NAME=owned with PropagateAtLaunch.",
        causes=("C15",),
        check=_untagged,
    ),
    Rule(
        id="GPU087",
        severity="error",
        title="Metadata service of the instances is off",
        why="Nodes read their user data and the credentials of their role there; they cannot join.",
        source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html",
        fix="Leave HttpEndpoint enabled and require tokens.",
        causes=("C16",),
        check=_no_metadata,
    ),
    Rule(
        id="GPU088",
        severity="warning",
        title="User data installs a driver that the image has",
        why="The installation is slow, may break the driver of the image, and holds the node back when it fails.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html",
        fix="Remove the installation, or take an image without driver.",
        causes=("C17",),
        check=_installs_driver,
    ),
    Rule(
        id="GPU089",
        severity="error",
        title="Kubelet is given what it does not know",
        why="Kubelet exits on it, again and again, and the node never joins.",
        source="https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet/",
        fix="Remove the flag, or say the same in spec.kubelet.config of the NodeConfig.",
        causes=("C18",),
        check=_wrong_kubelet,
    ),
    Rule(
        id="GPU093",
        severity="error",
        title="Kubernetes version of the nodes does not go with the cluster's",
        why="Kubelet may not be newer than the control plane, nor more than three minor versions older.",
        source="https://kubernetes.io/releases/version-skew-policy/",
        fix="Take the cluster's version for the nodes, or leave Version out.",
        causes=("C22",),
        check=_skewed,
    ),
)

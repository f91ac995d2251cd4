"""User data, boot settings and labels with which nodes don't join."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.kubernetes import (
    KUBELET_DOMAINS,
    KUBELET_LABELS,
    LABEL_VALUE,
    OLDEST_KUBELET,
    QUALIFIED_NAME,
    RESTRICTED_DOMAINS,
    is_under,
)
from gpu_facts.labels import CLUSTER_TAG, EKS_DOMAIN
from gpu_facts.light import regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import has_driver, pool_image
from gpu_preflight.cluster.references import referred, refers
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_expression,
    is_true,
    known_number,
    known_text,
    mapping,
    mappings,
    may_equal,
)
from gpu_preflight.rule import Problem, rule

_NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"
_NODE_CONFIG = ("name", "apiServerEndpoint", "certificateAuthority", "cidr")
_BOTTLEROCKET_KEYS = ("cluster-name", "api-server", "cluster-certificate")
_AL2_SCRIPT = "/etc/eks/bootstrap.sh"
_INSTALLERS = regex(r"\b(?:yum|dnf|apt|apt-get)\b")
_DRIVERS = ("nvidia-driver", "nvidia-open", "nvidia-dkms", "kmod-nvidia", "cuda-drivers", "nvidia-container-toolkit")
_COMMAND_ENDS = regex(r"[\n;&|]+")
# Flags that kubelet does not know: gone with the minor version that is named, or only ever of AL2's script.
# Source: kubernetes/kubernetes CHANGELOG/CHANGELOG-1.24.md and CHANGELOG-1.27.md; awslabs/amazon-eks-ami
# v20260724 templates/al2/runtime/bootstrap.sh
_GONE_FLAGS = {
    **dict.fromkeys(("network-plugin", "cni-conf-dir", "cni-bin-dir", "docker-endpoint", "dynamic-config-dir"), "1.24"),
    "container-runtime": "1.27",
    **dict.fromkeys(("kubelet-extra-args", "use-max-pods", "b64-cluster-ca", "apiserver-endpoint", "dns-cluster-ip")),
}
_IMAGE_VERSION = regex(
    r"(?:/optimized-ami/|aws-k8s-|amazon-eks-node-(?:[a-z0-9_]+-)+)([0-9]{1,3}\.[0-9]{1,3})(?![0-9*?])"
)
_MINOR = regex(r"[0-9]{1,3}\.[0-9]{1,3}")
_BOTTLEROCKET_DOCS = "https://bottlerocket.dev/en/os/1.64.x/api/settings/"
# Source: bottlerocket-os/bottlerocket 25c1f02c sources/settings-plugins/aws-k8s-nvidia/src/lib.rs
_NAMES = """
autoscaling aws boot bootstrap-commands bootstrap-containers cloudformation container-registry container-runtime
container-runtime-plugins dns host-containers kernel kubelet-device-plugins kubelet-dra-drivers kubernetes metrics motd
network ntp nvidia-container-runtime oci-defaults oci-hooks pki updates
"""
_SECTIONS = tuple(_NAMES.split())
# Source: https://bottlerocket.dev/en/os/1.64.x/api/settings/kubelet-device-plugins/ (2026-11)
_PLUGIN: Mapping[str, tuple[str, ...] | None] = {
    "enabled": None,
    "pass-device-specs": None,
    "device-id-strategy": ("index", "uuid"),
    "device-list-strategy": ("volume-mounts", "envvar", "cdi-cri"),
    "device-sharing-strategy": ("none", "time-slicing", "mps"),
    "device-partitioning-strategy": ("none", "mig"),
    "time-slicing": None,
    "mps": None,
    "mig": None,
}
# Source: awslabs/amazon-eks-ami v20260724 nodeadm/doc/api.md
_KIND, _VERSION = "NodeConfig", "v1alpha1"
_STRATEGIES = ("RAID0", "RAID10", "Mount")
_OF_NODEADM = regex(r"apiVersion:\s*[\"']?node\.eks\.aws/([\w.-]{1,40})[\"']?[^\S\n]*\n\s*kind:\s*[\"']?([A-Za-z]+)")


def _boots_itself(pool: Pool) -> bool:
    """Whether nobody adds to the user data: EKS does for a managed group without an image of its own."""
    return bool(pool.launch) and (pool.kind == "self-managed" or (pool.kind == "managed" and bool(pool_image(pool))))


def _cluster_settings(pool: Pool) -> dict[str, Any]:
    """Return what user data says of the cluster, in the names of NodeConfig."""
    settings = mapping(dig(pool.user_data.settings, "kubernetes"))
    config = mapping(pool.user_data.node_config.get("cluster"))
    names = zip(_NODE_CONFIG, _BOTTLEROCKET_KEYS, strict=False)
    return config | {ours: settings[theirs] for ours, theirs in names if theirs in settings}


@rule("GPU082", "error", source=_NODEADM)
def user_data_does_not_say_which_cluster_to_join(case: Case) -> Iterator[Problem]:
    """User data does not say which cluster to join.

    With an image of your own, and in self-managed groups, nobody adds it; the nodes never join.

    Fix: Give cluster.name, apiServerEndpoint, certificateAuthority and cidr in a part application/node.eks.aws;
    Bottlerocket takes cluster-name, api-server and cluster-certificate.
    """
    for pool in case.gpu_pools:
        if not _boots_itself(pool) or pool.user_data.format == "unknown":
            continue
        if pool.operating_system == "al2023" and not _has_nodeadm_script(pool):
            lacking = [each for each in _NODE_CONFIG if not _cluster_settings(pool).get(each)]
            if lacking:
                names = ", ".join(f"cluster.{each}" for each in lacking)
                yield Problem.from_subject(pool, f"its user data gives nodeadm no {names}")
        elif pool.operating_system == "bottlerocket":
            settings = mapping(dig(pool.user_data.settings, "kubernetes"))
            lacking = [each for each in _BOTTLEROCKET_KEYS if not settings.get(each)]
            if lacking:
                message = f"its user data lacks settings.kubernetes.{', '.join(lacking)}"
                yield Problem.from_subject(pool, message)


def _has_nodeadm_script(pool: Pool) -> bool:
    """Whether a script may do what the NodeConfig part does not, or is the wrong one, which is said elsewhere."""
    return any("nodeadm" in each or "/etc/eks/" in each for each in pool.user_data.scripts)


@rule("GPU083", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/al2023.html")
def bootstrap_script_of_amazon_linux_2_on_al2023(case: Case) -> Iterator[Problem]:
    """Bootstrap script of Amazon Linux 2 on AL2023.

    The script is not there, so kubelet never starts.

    Fix: Replace the script by a NodeConfig in a MIME part application/node.eks.aws.
    """
    for pool in case.gpu_pools:
        called = any(_AL2_SCRIPT in each for each in pool.user_data.scripts)
        if called and pool.operating_system == "al2023" and _boots_itself(pool):
            yield Problem.from_subject(pool, f"calls {_AL2_SCRIPT}, which AL2023 does not have")


@rule("GPU084", "error", source=_NODEADM)
def nodes_are_told_to_join_another_cluster(case: Case) -> Iterator[Problem]:
    """Nodes are told to join another cluster.

    They fail on certificate or name, or join the wrong cluster.

    Fix: Refer to the cluster of the template for name, endpoint and certificate authority.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        told = _cluster_settings(pool)
        name = known_text(told.get("name"))
        if cluster.resource is None or not told:
            continue
        own = known_text(cluster.resource.properties.get("Name"))
        if name and own and not may_equal(name, own):
            yield Problem.from_subject(pool, f"its nodes are told to join {name}, the cluster is {own}")
        for key in _NODE_CONFIG[:3]:
            other = referred(told.get(key), cluster.resources)
            if other and other.type == cluster.resource.type and not refers(told[key], cluster.resource):
                yield Problem.from_subject(pool, f"cluster.{key} is that of {other.path}")
        literal = [
            each for each in _NODE_CONFIG[1:3] if (text := known_text(told.get(each))) and not is_expression(text)
        ]
        if literal:
            keys = " and ".join(literal)
            message = f"{keys} is written out, and EKS chooses it when it makes the cluster"
            yield Problem.from_subject(pool, message, unknown=True)


@rule("GPU085", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/worker.html")
def instances_without_the_tag_of_their_cluster(case: Case) -> Iterator[Problem]:
    """Instances without the tag of their cluster.

    EKS documents kubernetes.io/cluster/NAME on self-managed instances; controllers find nodes by it.

    Fix: Tag the group kubernetes.io/cluster/NAME=owned with PropagateAtLaunch.
    """
    for pool in case.gpu_pools:
        if pool.kind != "self-managed" or not pool.launch:
            continue
        group = [each for each in mappings(pool.properties.get("Tags")) if is_true(each.get("PropagateAtLaunch"))]
        launched = [
            tag
            for each in pool.launch.tags
            if each.get("ResourceType") == "instance"
            for tag in mappings(each.get("Tags"))
        ]
        if not any(_may_own(each.get("Key")) for each in (*group, *launched)):
            yield Problem.from_subject(pool, f"its instances get no tag {CLUSTER_TAG}{case.cluster.name}")


def _may_own(key: Any) -> bool:
    return str(key).startswith((CLUSTER_TAG, "${"))


@rule(
    "GPU087",
    "error",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html",
)
def instance_metadata_is_disabled(case: Case) -> Iterator[Problem]:
    """Metadata service of the instances is off.

    Nodes read their user data and the credentials of their role there; they cannot join.

    Fix: Leave HttpEndpoint enabled and require tokens.
    """
    for pool in case.gpu_pools:
        if pool.launch.metadata_endpoint == "disabled":
            yield Problem.from_subject(pool, "its instances have no metadata service")


@rule("GPU088", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html")
def user_data_installs_a_driver_that_the_image_has(case: Case) -> Iterator[Problem]:
    """User data installs a driver that the image has.

    The installation is slow, may break the driver of the image, and holds the node back when it fails.

    Fix: Remove the installation, or take an image without driver.
    """
    for pool in case.gpu_pools:
        commands = [part for each in pool.user_data.scripts for part in _COMMAND_ENDS.split(each)]
        found = next((each for each in commands if _is_installation(each)), None)
        if found and has_driver(pool) is Answer.YES:
            command = " ".join(found.split())[:80]
            yield Problem.from_subject(pool, f"'{command}' over the driver that its image brings")


def _is_installation(command: str) -> bool:
    if command.lstrip().startswith("#"):
        return False
    packaged = "install" in command and any(each in command for each in _DRIVERS) and _INSTALLERS.search(command)
    return bool(packaged) or ("NVIDIA-Linux-" in command and ".run" in command)


@rule("GPU089", "error", source="https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet/")
def kubelet_is_given_what_it_does_not_know(case: Case) -> Iterator[Problem]:
    """Kubelet is given what it does not know.

    Kubelet exits on it, again and again, and the node never joins.

    Fix: Remove the flag, or say the same in spec.kubelet.config of the NodeConfig.
    """
    for pool in case.gpu_pools:
        flags = [each.partition("=")[0].lstrip("-") for each in pool.user_data.kubelet_flags]
        for flag in flags:
            if flag in _GONE_FLAGS:
                since = f" since {_GONE_FLAGS[flag]}" if _GONE_FLAGS[flag] else ""
                yield Problem.from_subject(pool, f"kubelet does not know --{flag}{since}")
        pods = pool.user_data.kubelet_config.get("maxPods")
        if pods is not None and not isinstance(pods, Unknown) and known_number(pods) is None:
            yield Problem.from_subject(pool, f"maxPods of kubelet is {pods!r}, not a number")


@rule("GPU093", "error", source="https://kubernetes.io/releases/version-skew-policy/")
def nodes_of_another_kubernetes_version(case: Case) -> Iterator[Problem]:
    """Kubernetes version of the nodes does not go with the cluster's.

    Kubelet may not be newer than the control plane, nor more than three minor versions older.

    Fix: Take the cluster's version for the nodes, or leave Version out.
    """
    cluster = case.cluster
    if not cluster.whole or not _MINOR.fullmatch(cluster.version or ""):
        return
    plane = minor(cluster.version or "")
    for pool in cluster.pools:
        version = _version(pool)
        nodes = minor(version) if version and _MINOR.fullmatch(version) else plane
        if nodes > plane or plane[1] - nodes[1] > OLDEST_KUBELET:
            yield Problem.from_subject(pool, f"its nodes are {version}, the cluster is {cluster.version}")


def _version(pool: Pool) -> str | None:
    """Return the minor version of a pool's nodes, as its image or its group names it."""
    images = [str(pool_image(pool) or ""), *_selected(pool)]
    found = {each.group(1) for each in map(_IMAGE_VERSION.search, images) if each}
    if found:
        return found.pop() if len(found) == 1 else None
    return known_text(pool.properties.get("Version")) if pool.kind == "managed" else None


def _selected(pool: Pool) -> list[str]:
    """Return the parameters and names by which an EC2NodeClass chooses its image."""
    terms = pool.launch.image_terms
    return [text for each in terms for key in ("ssmParameter", "name") if (text := known_text(each.get(key)))]


@rule("GPU368", "error", source=_BOTTLEROCKET_DOCS)
def settings_that_the_node_refuses_at_boot(case: Case) -> Iterator[Problem]:
    """Settings that the node refuses at boot.

    Bottlerocket takes none of them and stays off the cluster; nodeadm ends, and kubelet never starts.

    Fix: Correct the setting as the message says.
    """
    for pool in case.cluster.pools:
        if pool.operating_system == "bottlerocket":
            found = tuple(_bottlerocket_errors(pool.user_data.settings))
        else:
            found = tuple(_nodeadm_errors(pool)) if pool.operating_system == "al2023" else ()
        for text in found:
            yield Problem.from_subject(pool, text)


def _bottlerocket_errors(settings: Mapping[str, Any]) -> Iterator[str]:
    for name in settings:
        if name not in _SECTIONS and not is_expression(name):
            yield f"Bottlerocket has no settings.{name}{did_you_mean(name, _SECTIONS)}"
    plugin = mapping(dig(dict(settings), "kubelet-device-plugins", "nvidia"))
    for name, value in plugin.items():
        path = f"settings.kubelet-device-plugins.nvidia.{name}"
        if name not in _PLUGIN:
            yield f"Bottlerocket has no {path}{did_you_mean(name, _PLUGIN)}"
            continue
        known = _PLUGIN[name]
        if known and isinstance(value, str) and value not in known and not is_expression(value):
            yield f"{path} must be of {', '.join(known)}, got {value!r}"


def _nodeadm_errors(pool: Pool) -> Iterator[str]:
    for version, kind in dict.fromkeys(_OF_NODEADM.findall(pool.user_data.text or "")):
        if version != _VERSION:
            yield f"nodeadm knows no node.eks.aws/{version}; it is node.eks.aws/{_VERSION}"
        if kind != _KIND:
            yield f"nodeadm knows no kind {kind}; it is {_KIND}"
    strategy = dig(pool.user_data.node_config, "instance", "localStorage", "strategy")
    if isinstance(strategy, str) and strategy not in _STRATEGIES and not is_expression(strategy):
        yield f"instance.localStorage.strategy must be of {', '.join(_STRATEGIES)}, got {strategy!r}"


@rule(
    "GPU057",
    "error",
    source="https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction",
)
def label_or_taint_that_a_node_cannot_have(case: Case) -> Iterator[Problem]:
    """Label or taint that a node cannot have.

    EKS refuses it (KubernetesLabelInvalid), or kubelet does not start and the node never joins.

    Fix: Use a domain of your own, or node.kubernetes.io where kubelet may set it.
    """
    for pool in case.cluster.pools:
        for why in _refusals(pool) if pool.is_group else ():
            yield Problem.from_subject(pool, why)


def _refusals(pool: Pool) -> Iterator[str]:
    for key, value in {**pool.user_data.node_labels, **mapping(pool.properties.get("Labels"))}.items():
        if "${" in key:
            continue
        if not QUALIFIED_NAME.fullmatch(key):
            yield f"{key!r} is no key of a label"
        elif (text := known_text(value)) is not None and "${" not in text and not LABEL_VALUE.fullmatch(text):
            yield f"{text!r} is no value of label {key}"
        elif _is_foreign(key) or (pool.kind == "managed" and key.startswith(f"{EKS_DOMAIN}/")):
            yield f"label {key} is not for a node to give itself"
    for taint in (*pool.taints, *pool.startup_taints):
        if "${" not in taint.key and not QUALIFIED_NAME.fullmatch(taint.key):
            yield f"{taint.key!r} is no key of a taint"


def _is_foreign(key: str) -> bool:
    ruled = is_under(key, RESTRICTED_DOMAINS) and not is_under(key, KUBELET_DOMAINS)
    return ruled and key not in KUBELET_LABELS

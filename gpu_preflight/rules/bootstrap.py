"""Rules for user data, boot settings and labels that keep nodes from joining the cluster."""

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
# Flags that kubelet doesn't have: removed in the minor version of the value, or flags of AL2's bootstrap script.
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
_VALID_NAME = "Use at most 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends."
_OF_NODEADM = regex(r"apiVersion:\s*[\"']?node\.eks\.aws/([\w.-]{1,40})[\"']?[^\S\n]*\n\s*kind:\s*[\"']?([A-Za-z]+)")


def _boots_itself(pool: Pool) -> bool:
    """Whether the user data must be complete: EKS adds to it for managed groups without a custom image."""
    return bool(pool.launch) and (pool.kind == "self-managed" or (pool.kind == "managed" and bool(pool_image(pool))))


def _cluster_settings(pool: Pool) -> dict[str, Any]:
    """Return the cluster settings of the user data, with the names of NodeConfig."""
    settings = mapping(dig(pool.user_data.settings, "kubernetes"))
    config = mapping(pool.user_data.node_config.get("cluster"))
    names = zip(_NODE_CONFIG, _BOTTLEROCKET_KEYS, strict=False)
    return config | {ours: settings[theirs] for ours, theirs in names if theirs in settings}


@rule("GPU082", "error", source=_NODEADM)
def user_data_does_not_say_which_cluster_to_join(case: Case) -> Iterator[Problem]:
    """User data doesn't name the cluster to join.

    With a custom image, and in self-managed groups, EKS doesn't add these settings. The nodes never join.

    Fix: Set cluster.name, apiServerEndpoint, certificateAuthority and cidr in a MIME part application/node.eks.aws; for
    Bottlerocket set cluster-name, api-server and cluster-certificate.
    """
    for pool in case.gpu_pools:
        if not _boots_itself(pool) or pool.user_data.format == "unknown":
            continue
        if pool.operating_system == "al2023" and not _has_nodeadm_script(pool):
            lacking = [each for each in _NODE_CONFIG if not _cluster_settings(pool).get(each)]
            if lacking:
                names = ", ".join(f"cluster.{each}" for each in lacking)
                text = f"its user data doesn't set {names} for nodeadm, so the nodes can't join"
                fix = f"Set {names} in a NodeConfig in a MIME part application/node.eks.aws."
                yield Problem.from_subject(pool, text, fix=fix)
        elif pool.operating_system == "bottlerocket":
            settings = mapping(dig(pool.user_data.settings, "kubernetes"))
            lacking = [each for each in _BOTTLEROCKET_KEYS if not settings.get(each)]
            if lacking:
                keys = ", ".join(f"settings.kubernetes.{each}" for each in lacking)
                message = f"its user data doesn't set {keys}, so the nodes can't join"
                yield Problem.from_subject(pool, message, fix=f"Set {keys} in the TOML of the user data.")


def _has_nodeadm_script(pool: Pool) -> bool:
    """Whether a script may set what the NodeConfig lacks, or is AL2's script, which another rule reports."""
    return any("nodeadm" in each or "/etc/eks/" in each for each in pool.user_data.scripts)


@rule("GPU083", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/al2023.html")
def bootstrap_script_of_amazon_linux_2_on_al2023(case: Case) -> Iterator[Problem]:
    """User data calls the bootstrap script of Amazon Linux 2 on AL2023.

    The script doesn't exist on AL2023, so kubelet never starts.

    Fix: Replace the script with a NodeConfig in a MIME part application/node.eks.aws.
    """
    for pool in case.gpu_pools:
        called = any(_AL2_SCRIPT in each for each in pool.user_data.scripts)
        if called and pool.operating_system == "al2023" and _boots_itself(pool):
            yield Problem.from_subject(pool, f"its user data calls {_AL2_SCRIPT}, which AL2023 doesn't have")


@rule("GPU084", "error", source=_NODEADM)
def nodes_join_another_cluster(case: Case) -> Iterator[Problem]:
    """User data joins nodes to another cluster.

    The nodes fail on the certificate or the name, or join the wrong cluster.

    Fix: Take name, API server endpoint and certificate authority from the pool's cluster, by Ref and Fn::GetAtt.
    """
    cluster = case.cluster
    for pool in case.gpu_pools:
        settings = _cluster_settings(pool)
        name = known_text(settings.get("name"))
        if cluster.resource is None or not settings:
            continue
        own = known_text(cluster.resource.properties.get("Name"))
        if name and own and not may_equal(name, own):
            yield Problem.from_subject(pool, f"its user data joins the nodes to cluster {name} instead of {own}")
        for key in _NODE_CONFIG[:3]:
            other = referred(settings.get(key), cluster.resources)
            if other and other.type == cluster.resource.type and not refers(settings[key], cluster.resource):
                setting = _setting_name(pool, key)
                own_path = cluster.resource.path
                message = (
                    f"{setting} in its user data is from cluster {other.path}, but the pool is in cluster {own_path}"
                )
                fix = f"Take {setting} from {own_path}, by Ref or Fn::GetAtt."
                yield Problem.from_subject(pool, message, fix=fix)
        literal = [
            each for each in _NODE_CONFIG[1:3] if (text := known_text(settings.get(each))) and not is_expression(text)
        ]
        if literal:
            keys = " and ".join(_setting_name(pool, each) for each in literal)
            message = f"its user data has a fixed {keys}, but EKS sets this value when it creates the cluster"
            fix = f"Take {keys} from {cluster.resource.path} by Fn::GetAtt."
            yield Problem.from_subject(pool, message, fix=fix, unknown=True)


def _setting_name(pool: Pool, key: str) -> str:
    """Return the name of a cluster setting in the user data of a pool."""
    if pool.operating_system == "bottlerocket":
        return f"settings.kubernetes.{_BOTTLEROCKET_KEYS[_NODE_CONFIG.index(key)]}"
    return f"cluster.{key}"


@rule("GPU085", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/worker.html")
def instances_without_the_tag_of_their_cluster(case: Case) -> Iterator[Problem]:
    """Instances lack the tag of their cluster.

    EKS documents the tag kubernetes.io/cluster/NAME for self-managed instances. Controllers find nodes by it.

    Fix: Tag the Auto Scaling group with kubernetes.io/cluster/<cluster>=owned and PropagateAtLaunch: true.
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
            tag = f"{CLUSTER_TAG}{case.cluster.name}"
            owned = f"{CLUSTER_TAG}{case.cluster.written_name}=owned"
            fix = f"Tag the Auto Scaling group with {owned} and PropagateAtLaunch: true."
            yield Problem.from_subject(pool, f"its instances lack tag {tag}", fix=fix)


def _may_own(key: Any) -> bool:
    return str(key).startswith((CLUSTER_TAG, "${"))


@rule(
    "GPU087",
    "error",
    source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/configuring-instance-metadata-options.html",
)
def instance_metadata_is_disabled(case: Case) -> Iterator[Problem]:
    """Instance metadata service is off.

    Nodes read their user data and the credentials of their role from it. They can't join without it.

    Fix: Set HttpEndpoint to enabled and HttpTokens to required.
    """
    for pool in case.gpu_pools:
        if pool.launch.metadata_endpoint == "disabled":
            text = "MetadataOptions.HttpEndpoint is disabled, so its nodes can't read their user data and can't join"
            yield Problem.from_subject(pool, text)


@rule("GPU088", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html")
def user_data_installs_a_driver_that_the_image_has(case: Case) -> Iterator[Problem]:
    """User data installs a driver that the image already has.

    The installation is slow and may break the image's driver. If it fails, the node doesn't join.

    Fix: Remove the installation, or use an image without a driver.
    """
    for pool in case.gpu_pools:
        commands = [part for each in pool.user_data.scripts for part in _COMMAND_ENDS.split(each)]
        found = next((each for each in commands if _is_installation(each)), None)
        if found and has_driver(pool) is Answer.YES:
            command = " ".join(found.split())[:80]
            text = f"its user data installs a driver with '{command}', but its image already has one"
            yield Problem.from_subject(pool, text)


def _is_installation(command: str) -> bool:
    if command.lstrip().startswith("#"):
        return False
    packaged = "install" in command and any(each in command for each in _DRIVERS) and _INSTALLERS.search(command)
    return bool(packaged) or ("NVIDIA-Linux-" in command and ".run" in command)


@rule("GPU089", "error", source="https://kubernetes.io/docs/reference/command-line-tools-reference/kubelet/")
def kubelet_is_given_what_it_does_not_know(case: Case) -> Iterator[Problem]:
    """Node's kubelet doesn't accept a flag or value.

    kubelet exits again and again, and the node never joins.

    Fix: Remove the flag from the user data.
    """
    for pool in case.gpu_pools:
        flags = [each.partition("=")[0].lstrip("-") for each in pool.user_data.kubelet_flags]
        for flag in flags:
            if flag in _GONE_FLAGS:
                since = f" since Kubernetes {_GONE_FLAGS[flag]}" if _GONE_FLAGS[flag] else ""
                yield Problem.from_subject(pool, f"kubelet has no flag --{flag}{since}, which the user data sets")
        pods = pool.user_data.kubelet_config.get("maxPods")
        if pods is not None and not isinstance(pods, Unknown) and known_number(pods) is None:
            fix = "Set maxPods in spec.kubelet.config of the NodeConfig to a number, without quotes."
            yield Problem.from_subject(pool, f"maxPods of kubelet must be a number, got {pods!r}", fix=fix)


@rule("GPU093", "error", source="https://kubernetes.io/releases/version-skew-policy/")
def nodes_of_another_kubernetes_version(case: Case) -> Iterator[Problem]:
    """Kubernetes version of the nodes is newer than the control plane's, or too old for it.

    kubelet may not be newer than the control plane, nor more than three minor versions older.

    Fix: Use an image of the cluster's Kubernetes version.
    """
    cluster = case.cluster
    if not cluster.whole or not _MINOR.fullmatch(cluster.version or ""):
        return
    plane = minor(cluster.version or "")
    for pool in cluster.pools:
        version = _version(pool)
        nodes = minor(version) if version and _MINOR.fullmatch(version) else plane
        if nodes > plane or plane[1] - nodes[1] > OLDEST_KUBELET:
            differs = "newer" if nodes > plane else f"more than {OLDEST_KUBELET} minor versions older"
            text = f"its nodes have Kubernetes {version}, which is {differs} than the control plane's {cluster.version}"
            own = f"Remove Version, or set it to {cluster.version}." if "Version" in pool.properties else ""
            fix = own or f"Use a node image of Kubernetes {cluster.version}."
            yield Problem.from_subject(pool, text, fix=fix)


def _version(pool: Pool) -> str | None:
    """Return the minor version of a pool's nodes from its image or its group."""
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
    """Node rejects its boot settings.

    Bottlerocket rejects all settings and doesn't join the cluster. On AL2023, nodeadm exits and kubelet never starts.

    Fix: Correct the setting as the message states.
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
            yield f"Bottlerocket has no setting settings.{name}{did_you_mean(name, _SECTIONS)}"
    plugin = mapping(dig(dict(settings), "kubelet-device-plugins", "nvidia"))
    for name, value in plugin.items():
        path = f"settings.kubelet-device-plugins.nvidia.{name}"
        if name not in _PLUGIN:
            yield f"Bottlerocket has no setting {path}{did_you_mean(name, _PLUGIN)}"
            continue
        known = _PLUGIN[name]
        if known and isinstance(value, str) and value not in known and not is_expression(value):
            yield f"Bottlerocket setting {path} must be one of {', '.join(known)}, got {value!r}"


def _nodeadm_errors(pool: Pool) -> Iterator[str]:
    for version, kind in dict.fromkeys(_OF_NODEADM.findall(pool.user_data.text or "")):
        if version != _VERSION:
            yield f"nodeadm doesn't support node.eks.aws/{version} in the user data; write node.eks.aws/{_VERSION}"
        if kind != _KIND:
            yield f"nodeadm doesn't support kind {kind} in the user data; write {_KIND}"
    strategy = dig(pool.user_data.node_config, "instance", "localStorage", "strategy")
    if isinstance(strategy, str) and strategy not in _STRATEGIES and not is_expression(strategy):
        yield (
            f"instance.localStorage.strategy of its NodeConfig must be one of {', '.join(_STRATEGIES)}, got "
            f"{strategy!r}"
        )


@rule(
    "GPU057",
    "error",
    source="https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction",
)
def label_or_taint_that_a_node_cannot_have(case: Case) -> Iterator[Problem]:
    """Label or taint isn't valid for a node.

    EKS rejects it (KubernetesLabelInvalid), or kubelet doesn't start and the node never joins.

    Fix: Use a label with your own domain, such as example.com/gpu.
    """
    for pool in case.cluster.pools:
        for why, fix in _refusals(pool) if pool.is_group else ():
            yield Problem.from_subject(pool, why, fix=fix)


def _refusals(pool: Pool) -> Iterator[tuple[str, str]]:
    """Yield why a label or taint isn't valid, and the fix; an empty fix is the rule's."""
    for key, value in {**pool.user_data.node_labels, **mapping(pool.properties.get("Labels"))}.items():
        if "${" in key:
            continue
        if not QUALIFIED_NAME.fullmatch(key):
            yield f"{key!r} isn't a valid label key", _VALID_NAME
        elif (text := known_text(value)) is not None and "${" not in text and not LABEL_VALUE.fullmatch(text):
            yield f"{text!r} isn't a valid value of label {key}", _VALID_NAME
        elif _is_foreign(key) or (pool.kind == "managed" and key.startswith(f"{EKS_DOMAIN}/")):
            yield f"a node isn't allowed to set label {key} on itself", ""
    for taint in (*pool.taints, *pool.startup_taints):
        if "${" not in taint.key and not QUALIFIED_NAME.fullmatch(taint.key):
            yield f"{taint.key!r} isn't a valid taint key", _VALID_NAME


def _is_foreign(key: str) -> bool:
    ruled = is_under(key, RESTRICTED_DOMAINS) and not is_under(key, KUBELET_DOMAINS)
    return ruled and key not in KUBELET_LABELS

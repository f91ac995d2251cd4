"""Constraints that the checker doesn't evaluate: a pod that has one is never certain to run.

A row of `_FIELDS` names a field, the values that can keep a pod from running, and the condition on which it runs.
Add a field by adding a row. `tests/preflight/properties/fields.yaml` lists every field of the schemas.

Sources: kubernetes/kubernetes v1.36 pkg/kubelet/sysctl/safe_sysctls.go, pkg/security/apparmor/validate.go,
pkg/kubelet/kuberuntime/security_context.go ``verifyRunAsNonRoot``, pkg/kubelet/userns/userns_manager.go,
pkg/volume/hostpath/host_path.go ``checkType``, pkg/controller/deployment/deployment_controller.go ``syncDeployment``,
pkg/controller/job/job_controller.go ``syncJob``
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpu_facts.light import dataclass
from gpu_facts.storage import INSTALLED_BY
from gpu_preflight.cluster.kueue import find_cluster_queue, is_queued
from gpu_preflight.cluster.storage import installs
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import Pod, Workload
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, items, known_number, mapping, mappings

_SAFE_SYSCTLS = (
    "kernel.shm_rmid_forced",
    *(f"net.ipv4.{name}" for name in ("ip_local_port_range", "ip_local_reserved_ports", "ip_unprivileged_port_start")),
    *(f"net.ipv4.tcp_{name}" for name in ("fin_timeout", "rmem", "syncookies", "wmem")),
    *(f"net.ipv4.tcp_keepalive_{name}" for name in ("intvl", "probes", "time")),
    "net.ipv4.ping_group_range",
)
# Seconds. Assumption of this project: within a longer deadline, a new node can start.
_SHORT_DEADLINE = 60
_USER_NAMESPACES = "the nodes enable user namespaces, and their NVIDIA container toolkit supports them"
_JOB_CONTROLLER = "kubernetes.io/job-controller"
# Directories that exist on every node.
_ON_EVERY_NODE = ("/", "/dev", "/dev/shm", "/etc", "/lib/modules", "/proc", "/run", "/sys", "/tmp", "/usr", "/var")
_EXISTING = ("BlockDevice", "CharDevice", "Directory", "File", "Socket")
# Volumes that kubelet mounts over the network or by an in-tree plugin. Several have been removed.
_MOUNTED = (
    *("awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "fc", "flexVolume", "flocker"),
    *("gcePersistentDisk", "gitRepo", "glusterfs", "image", "iscsi", "photonPersistentDisk", "portworxVolume"),
    *("quobyte", "rbd", "scaleIO", "storageos", "vsphereVolume"),
)
_CONTEXTS = ("securityContext", "containers[].securityContext", "initContainers[].securityContext")
_CONTAINERS = ("containers[]", "initContainers[]")


@dataclass(frozen=True, slots=True)
class _Field:
    """A field that can keep a pod from running.

    Attributes:
        path: Its place in the spec. ``[]`` means each element of a list.
        holds_back: Whether a value can keep the pod from running. A value known only at deployment can.
        condition: On which condition the pod runs. ``{}`` is the value.
    """

    path: str
    holds_back: Callable[[Any], bool]
    condition: str


def _always(_value: Any) -> bool:
    return True


def _must_exist(volume: Any) -> bool:
    path, kind = dig(volume, "path"), dig(volume, "type")
    if kind is not None and (is_open(path) or is_open(kind)):
        return True
    return isinstance(path, str) and kind in _EXISTING and path not in _ON_EVERY_NODE


_FIELDS = (
    # User namespaces need Linux 6.3, containerd 2.0 and runc 1.2. Bottlerocket and Auto Mode set
    # user.max_user_namespaces to 0. NVIDIA's container toolkit fails in them, up to GPU Operator v26.3.1.
    # Sources (2026-11): https://kubernetes.io/docs/concepts/workloads/pods/user-namespaces/,
    # bottlerocket-os/bottlerocket#2163, aws/containers-roadmap#2797, NVIDIA/cloud-native-docs#402
    _Field("hostUsers", lambda value: value is False, _USER_NAMESPACES),
    _Field("schedulingGroup.podGroupName", _always, "PodGroup {} exists and allows the scheduler to place its pods"),
    _Field(
        "setHostnameAsFQDN", lambda value: value is True, "the pod's host name and domain have at most 64 characters"
    ),
    _Field(
        "securityContext.sysctls[].name",
        lambda value: value not in _SAFE_SYSCTLS,
        "kubelet allows sysctl {} (allowedUnsafeSysctls)",
    ),
    _Field(
        "securityContext.supplementalGroupsPolicy",
        lambda value: value == "Strict",
        "the container runtime of the nodes supports supplementalGroupsPolicy {}",
    ),
    *(
        row
        for path in _CONTEXTS
        for row in (
            _Field(f"{path}.seccompProfile.localhostProfile", _always, "the nodes have seccomp profile {}"),
            # AL2023 and Bottlerocket use SELinux.
            _Field(
                f"{path}.appArmorProfile.type",
                lambda value: value != "Unconfined",
                "the nodes enable AppArmor, for a profile of type {}",
            ),
            _Field(f"{path}.appArmorProfile.localhostProfile", _always, "the nodes have AppArmor profile {}"),
            _Field(f"{path}.seLinuxOptions.type", _always, "the SELinux policy of the nodes has type {}"),
            _Field(f"{path}.seLinuxOptions.role", _always, "the SELinux policy of the nodes has role {}"),
            _Field(f"{path}.seLinuxOptions.user", _always, "the SELinux policy of the nodes has user {}"),
            _Field(f"{path}.windowsOptions.hostProcess", lambda value: value is True, "the nodes run Windows"),
        )
    ),
    *(
        _Field(f"{path}.imagePullPolicy", lambda value: value == "Never", "the image is already on the node")
        for path in _CONTAINERS
    ),
    *(_Field(f"volumes[].{kind}", _always, f"the nodes can mount the {kind} volume") for kind in _MOUNTED),
    _Field("volumes[].hostPath", _must_exist, "the nodes have {0[path]}"),
    _Field("volumes[].projected.sources[].clusterTrustBundle", _always, "the ClusterTrustBundle of the volume exists"),
    _Field("volumes[].projected.sources[].podCertificate", _always, "a signer issues the pod's certificate"),
)
# Fields outside the pod spec that a controller reads.
_OWNER_FIELDS = {
    "Deployment": (_Field("paused", lambda value: value is True, "the Deployment, which is paused, is resumed"),),
    "Job": (
        _Field("managedBy", lambda value: value != _JOB_CONTROLLER, "controller {} creates the pods of the Job"),
        # The deadline counts from the creation of the Job, and a new node takes more than a minute to start.
        _Field(
            "activeDeadlineSeconds",
            lambda value: (known_number(value) or 0) <= _SHORT_DEADLINE,
            "the pods of the Job start in less than {} seconds",
        ),
        _Field("scheduling", _always, "the cluster's scheduler places the pods of the Job as spec.scheduling requires"),
    ),
}


def unevaluated(workload: Workload, cluster: Cluster) -> Iterator[Reason]:
    """Yield each constraint of a workload that isn't evaluated, with the condition on which its pods run.

    Args:
        workload: The workload.
        cluster: Its cluster.
    """
    pod, owner = workload.pod, workload.owner
    written = {key: value for key, value in pod.written.items() if key not in pod.open_parts}
    job = mapping(dig(owner.spec, "jobTemplate", "spec")) if owner.kind == "CronJob" else {}
    found = [
        *(each for row in _FIELDS for each in _field_conditions(row, written)),
        *(each for row in _OWNER_FIELDS.get(owner.kind, ()) for each in _field_conditions(row, owner.spec)),
        *(each for row in _OWNER_FIELDS["Job"] for each in _field_conditions(row, job)),
        *_driver_conditions(written, cluster),
        *_huge_page_conditions(written),
        *_queue_conditions(workload, cluster),
    ]
    yield from _root_containers(written)
    for field, condition in dict.fromkeys(found):
        text = f"{field} isn't evaluated: the pod runs if {condition}"
        yield Reason(Answer.UNKNOWN, "pod", text, condition=condition)


def image_assumptions(pod: Pod) -> Iterator[str]:
    """Yield the requirements on images that only their registry can confirm. Nearly every image meets them.

    Args:
        pod: The pod.
    """
    for name, user in _users(pod.written):
        if user is None or is_open(user):
            yield f"the user of container {name}, or of its image, is a number and not 0 (runAsNonRoot)"


def find_values(value: Any, path: str) -> Iterator[Any]:
    """Yield each value at a path. If a part of the path is known only at deployment, yield that part."""
    key, _, rest = path.partition(".")
    if isinstance(value, Unknown):
        yield value
        return
    found = dig(value, key.removesuffix("[]"))
    for each in items(found) if key.endswith("[]") and not isinstance(found, Unknown) else [found]:
        if rest and each is not None:
            yield from find_values(each, rest)
        elif each is not None:
            yield each


def _part(row: _Field) -> str:
    return row.path.partition(".")[0].removesuffix("[]")


def _field_conditions(row: _Field, spec: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for value in find_values(spec, row.path):
        if is_open(value):
            yield _part(row), f"the value of {_part(row)} that deployment sets allows the pod to run"
        elif row.holds_back(value):
            yield row.path.replace("[]", ""), row.condition.format(value)


def is_open(value: Any) -> bool:
    """Whether a value is known only at deployment."""
    return isinstance(value, Unknown) or (isinstance(value, str) and is_expression(value))


def _users(pod: Mapping[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield the name and the user of each container that must not run as root."""
    whole = mapping(pod.get("securityContext"))
    for container in (*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))):
        context = {**whole, **mapping(container.get("securityContext"))}
        if context.get("runAsNonRoot") is True:
            yield container.get("name"), context.get("runAsUser")


def _root_containers(pod: Mapping[str, Any]) -> Iterator[Reason]:
    for name, user in _users(pod):
        if user == 0:
            text = f"kubelet doesn't start container {name}: runAsNonRoot is true, and runAsUser is 0"
            yield Reason(Answer.NO, "pod", text)


def _driver_conditions(pod: Mapping[str, Any], cluster: Cluster) -> Iterator[tuple[str, str]]:
    known = {each.name for each in cluster.objects_of_kind("CSIDriver")}
    for name in map(str, find_values(pod, "volumes[].csi.driver")):
        if name not in known and not (name in INSTALLED_BY and installs(INSTALLED_BY[name], cluster)):
            yield "volumes.csi", f"CSI driver {name} runs on the nodes"


def _huge_page_conditions(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield an emptyDir of huge pages that no container requests."""
    requested = [name for each in find_values(pod, "containers[].resources.limits") for name in mapping(each)]
    for medium in find_values(pod, "volumes[].emptyDir.medium"):
        if (is_open(medium) or str(medium).startswith("HugePages")) and not any(
            name.startswith("hugepages-") for name in requested
        ):
            yield "volumes.emptyDir", f"kubelet mounts an emptyDir of {medium} that no container requests"


def _queue_conditions(workload: Workload, cluster: Cluster) -> Iterator[tuple[str, str]]:
    """Yield the admission checks of the ClusterQueue, which controllers outside Kueue may decide."""
    queue = find_cluster_queue(workload, cluster) if is_queued(workload) else None
    for path in ("admissionChecks[]", "admissionChecksStrategy.admissionChecks[].name"):
        for name in find_values(queue.spec, path) if queue else ():
            yield "admissionChecks", f"admission check {name} of the ClusterQueue passes"

"""Storage that GPU pods claim and never get."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.quantities import quantity
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import (
    EBS_PROVISIONERS,
    Claimed,
    is_ebs,
    made_by_a_stateful_set,
    volume_of,
)
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import Unknown, dig, known_text, mapping
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.schema.fault import is_slip_for_one

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"
_ONE_POD = "ReadWriteOncePod"
_ONE_NODE = ("ReadWriteOnce", _ONE_POD)


@rule("GPU320", "error", source=_VOLUMES)
def claim_of_storage_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Claim of storage that does not exist.

    The pod stays Pending until somebody makes the PersistentVolumeClaim in its namespace. Others may do so beside the
    input: it is certain of a name that can only be a slip for one that is there.

    Fix: Create the claim in the pod's namespace, or correct the name.
    """
    cluster = case.cluster
    for workload, claim in case.gpu_claims:
        if claim.name is None or claim.spec is not None or made_by_a_stateful_set(claim.name, workload, cluster):
            continue
        name, beside = f"{workload.namespace}/{claim.name}", _claims_beside(workload, cluster)
        if cluster.whole:
            hint = did_you_mean(claim.name, beside) or _elsewhere(claim.name, cluster)
            text = f"PersistentVolumeClaim {name} does not exist{hint}"
            yield Problem.of(
                workload, text, unknown=not cluster.sees_objects or not is_slip_for_one(claim.name, beside)
            )
        elif beside:
            # Of a cluster that is not in the input more may be there.
            text = f"PersistentVolumeClaim {name} is not among those of its namespace, {', '.join(beside)}"
            yield Problem.of(workload, f"{text}{did_you_mean(claim.name, beside)}", unknown=True)


def _claims_beside(workload: Workload, cluster: Cluster) -> list[str]:
    return sorted(name for namespace, name in cluster.volume_claims if namespace == workload.namespace)


def _elsewhere(name: str, cluster: Cluster) -> str:
    spaces = [each.namespace for each in cluster.of_kind("PersistentVolumeClaim") if each.name == name]
    return f"; namespace {spaces[-1]} has one" if spaces else ""


@rule("GPU322", "error", source=_VOLUMES)
def disk_of_one_node_for_pods_on_several(case: Case) -> Iterator[Problem]:
    """Disk of one node for pods on several.

    An EBS volume is attached to one node; pods on others hang in ContainerCreating with a Multi-Attach error.

    Fix: Give each pod a claim of its own by a StatefulSet, or share files by EFS, FSx or S3.
    """
    for workload, claim in case.gpu_claims:
        replicas = workload.replicas
        if claim.name is None or claim.spec is None or replicas is None or replicas < 2 or workload.takes_turns:
            continue
        modes = claim.modes
        if modes == [_ONE_POD]:
            # Source: kubernetes/kubernetes v1.36.1 pkg/scheduler/framework/plugins/volumerestrictions/
            text = f"{replicas} pods share {claim.title}, which is {_ONE_POD}: a second one stays Pending"
            yield Problem.of(workload, text)
            continue
        if not modes or any(isinstance(each, Unknown) or each not in _ONE_NODE for each in modes):
            continue
        if not is_ebs(claim, case.cluster):
            continue
        together = [each.per_node for each in case.verdict(workload).pools if each.answer is not Answer.NO]
        apart = bool(together) and all(each is not None and each < replicas for each in together)
        text = f"{replicas} pods share {claim.title}, which is {' and '.join(map(str, modes))}"
        yield Problem.of(workload, text, unknown=not apart)


@rule("GPU323", "error", source="https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/2178")
def access_mode_that_the_driver_does_not_have(case: Case) -> Iterator[Problem]:
    """Access mode that the driver does not have.

    The driver refuses to make the volume; EBS takes ReadWriteMany for raw block devices only, ReadOnlyMany never.

    Fix: Claim ReadWriteOnce, or a class of EFS, FSx or S3.
    """
    cluster = case.cluster
    for workload, claim in case.gpu_claims:
        if claim.spec is None or not is_ebs(claim, cluster):
            continue
        block = claim.spec.get("volumeMode") == "Block"
        wrong = [each for each in claim.modes if each == "ReadOnlyMany" or (each == "ReadWriteMany" and not block)]
        if wrong:
            yield Problem.of(workload, f"{claim.title} wants {' and '.join(wrong)} of an EBS volume with a file system")


@rule("GPU325", "error", source=_VOLUMES)
def claim_that_its_volume_does_not_meet(case: Case) -> Iterator[Problem]:
    """Claim that its volume does not meet.

    Kubernetes does not bind the two, and the pod stays Pending.

    Fix: Give claim and volume the same class and access modes, and the volume at least the size of the claim.
    """
    for workload, claim in case.gpu_claims:
        volume = volume_of(claim, case.cluster)
        if claim.spec is None or volume is None:
            continue
        for why in _differs(claim, volume, workload):
            yield Problem.of(workload, f"{claim.title} is not bound to PersistentVolume {volume.name}: {why}")


def _differs(claim: Claimed, volume: Object, workload: Workload) -> Iterator[str]:
    spec = mapping(claim.spec)
    ours, theirs = spec.get("storageClassName"), volume.spec.get("storageClassName", "")
    if isinstance(ours, str) and isinstance(theirs, str) and ours != theirs:
        yield f"it is of class {theirs or 'none'}, the claim of {ours or 'none'}"
    offered = volume.spec.get("accessModes")
    if isinstance(offered, list) and (lacking := [each for each in claim.modes if each not in offered]):
        yield f"it does not offer {', '.join(map(str, lacking))}"
    wants = quantity("memory", dig(spec, "resources", "requests", "storage"))
    has = quantity("memory", dig(dict(volume.spec), "capacity", "storage"))
    if wants is not None and has is not None and wants > has:
        yield "the claim asks for more than its capacity"
    bound = mapping(volume.spec.get("claimRef"))
    name, space = known_text(bound.get("name")), known_text(bound.get("namespace")) or workload.namespace
    if name and claim.name and (space, name) != (workload.namespace, claim.name):
        yield f"it is kept for claim {space}/{name}"


@rule("GPU326", "warning", source=_VOLUMES)
def one_disk_under_two_volumes(case: Case) -> Iterator[Problem]:
    """One disk under two volumes.

    A disk is attached to one node; a pod of the other volume hangs, or both write over each other.

    Fix: Make a disk for each volume, or let both pods use one claim on one node.
    """
    seen: dict[str, Object] = {}
    for volume in case.cluster.of_kind("PersistentVolume"):
        handle = known_text(dig(dict(volume.spec), "csi", "volumeHandle"))
        if handle is None or dig(dict(volume.spec), "csi", "driver") not in EBS_PROVISIONERS:
            continue
        if handle in seen:
            text = f"PersistentVolume {volume.name}: its disk {handle} is that of PersistentVolume {seen[handle].name}"
            yield Problem(volume, text)
        seen.setdefault(handle, volume)

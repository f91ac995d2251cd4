"""Storage classes by which GPU pods never get a volume."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from gpu_facts.refusals import did_you_mean
from gpu_facts.storage import BROUGHT_BY, EBS_OF_AUTO_MODE
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.storage import (
    EBS_PROVISIONERS,
    default_classes,
    driver_of,
    installs,
    storage_class,
)
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import dig, is_expression
from gpu_preflight.rules.rule import Problem, rule
from gpu_preflight.schema.fault import is_slip_for_one

_CLASSES = "https://kubernetes.io/docs/concepts/storage/storage-classes/"
# EKS makes it in every cluster, and since 1.30 no longer makes it the default.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions-standard.html (2026-11)
_OF_EKS = "gp2"
_WITHOUT_DEFAULT = (1, 30)
_EBS_TYPES = ("gp2", "gp3", "io1", "io2", "sc1", "st1", "standard", "sbg1", "sbp1")
# Provisioners that no driver stands behind: volumes are made by hand.
_BY_HAND = ("kubernetes.io/no-provisioner",)


@rule("GPU321", "error", source=_CLASSES)
def storage_class_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """StorageClass that does not exist.

    Nothing makes the volume of the claim, and its pod stays Pending until somebody makes the class. Others may do so
    beside the input: it is certain of a name that can only be a slip for one that is there.

    Fix: Create the StorageClass, name one that is there, or name the volume in the claim.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    classes = [*(each.name for each in cluster.of_kind("StorageClass")), _OF_EKS]
    for workload, claim in case.gpu_claims:
        spec = claim.spec
        if spec is None or spec.get("volumeName") or spec.get("selector") or spec.get("dataSource"):
            continue
        name = spec.get("storageClassName")
        if name is None and not _has_default(cluster):
            text = f"{claim.title} names no StorageClass, and Kubernetes {cluster.version} on EKS has no default one"
            yield Problem.of(workload, text, unknown=True)
        elif isinstance(name, str) and name and storage_class(claim, cluster) is None and not _may_be(name, cluster):
            text = f"{claim.title} is of StorageClass {name}, which does not exist{did_you_mean(name, classes)}"
            certain = cluster.sees_objects and is_slip_for_one(name, classes)
            yield Problem.of(workload, text, unknown=not certain)


def _has_default(cluster: Cluster) -> bool:
    """Whether a class is the default, or may be: add-ons and charts make one where their values say so."""
    if cluster.version is None or minor(cluster.version) < _WITHOUT_DEFAULT:
        return True
    values = [*(each.configuration for each in cluster.addons), *(each.values for each in cluster.charts)]
    return bool(default_classes(cluster)) or any("storageclass" in str(each).lower() for each in values)


def _may_be(name: str, cluster: Cluster) -> bool:
    """Whether something may make a class that is not in the input, or volumes of its name stand there already."""
    values = [*(each.configuration for each in cluster.addons), *(each.values for each in cluster.charts)]
    volumes = cluster.of_kind("PersistentVolume")
    by_hand = any(each.spec.get("storageClassName") == name for each in volumes)
    return name == _OF_EKS or by_hand or any(name in str(each) for each in values)


@rule("GPU324", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/storage.html")
def storage_class_whose_driver_is_absent(case: Case) -> Iterator[Problem]:
    """StorageClass or PersistentVolume whose driver is absent.

    Nobody makes the volume, and the pod stays Pending.

    Fix: Install the driver's add-on, or name the provisioner of one that is there.
    """
    cluster = case.cluster
    if not cluster.whole:
        return
    for workload, claim in case.gpu_claims:
        source, made = driver_of(claim, cluster)
        if source is None or made is None or made in _BY_HAND or _runs(made, cluster):
            continue
        known = [*BROUGHT_BY, EBS_OF_AUTO_MODE]
        near = get_close_matches(made, known, 1, 0.8) if made not in known else []
        said = f"{claim.title} is of {source.kind} {source.name}, whose driver {made}"
        if made == EBS_OF_AUTO_MODE:
            yield Problem.of(workload, f"{said} is that of EKS Auto Mode, which is off")
        elif near:
            yield Problem.of(workload, f"{said} does not exist; did you mean '{near[0]}'?")
        else:
            brought = BROUGHT_BY.get(made)
            what = f"nothing installs; add-on {brought} brings it" if brought else "nothing here installs"
            yield Problem.of(workload, f"{said} {what}", unknown=brought is None or not cluster.sees_objects)


def _runs(driver: str, cluster: Cluster) -> bool:
    if driver == EBS_OF_AUTO_MODE:
        return cluster.auto_mode
    brought = BROUGHT_BY.get(driver)
    listed = any(each.name == driver for each in cluster.of_kind("CSIDriver"))
    return listed or (brought is not None and installs(brought, cluster))


@rule("GPU396", "error", source="https://docs.aws.amazon.com/ebs/latest/userguide/ebs-volume-types.html")
def storage_class_of_a_volume_type_that_ebs_does_not_have(case: Case) -> Iterator[Problem]:
    """StorageClass of a volume type that EBS does not have.

    The driver refuses to make the volume, and the pod stays Pending.

    Fix: Write gp3.
    """
    for workload, claim in case.gpu_claims:
        storage = storage_class(claim, case.cluster)
        if storage is None or storage.content.get("provisioner") not in EBS_PROVISIONERS:
            continue
        written = dig(dict(storage.content), "parameters", "type")
        if isinstance(written, str) and written.lower() not in _EBS_TYPES and not is_expression(written):
            text = f"{claim.title} is of StorageClass {storage.name}, and EBS has no volume type {written}"
            yield Problem.of(workload, text)


@rule("GPU401", "warning", source=_CLASSES)
def two_default_storage_classes(case: Case) -> Iterator[Problem]:
    """Two default StorageClasses.

    A claim that names none gets the class that was made last, whichever that is in this cluster.

    Fix: Leave the annotation storageclass.kubernetes.io/is-default-class on one of them.
    """
    defaults = default_classes(case.cluster)
    for each in defaults[1:]:
        yield Problem(each, f"StorageClass {each.name} is the default, and so is {defaults[0].name}")

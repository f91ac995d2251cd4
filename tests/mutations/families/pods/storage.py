"""Claims of storage, classes and volumes."""

from __future__ import annotations

import copy
from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, look, pod, put, replace

EBS = "https://docs.aws.amazon.com/eks/latest/userguide/ebs-csi.html"
DOCS = "https://kubernetes.io/docs/concepts/storage/persistent-volumes/"


def claims(given: Written) -> list[Any]:
    """The PersistentVolumeClaims that pods with GPUs use."""
    used = {name for each in given.gpu_workloads for name in claimed(each)}
    return [each for each in given.objects("PersistentVolumeClaim") if each["metadata"]["name"] in used]


def classes(given: Written) -> list[Any]:
    """The StorageClasses of those claims."""
    used = {look(each, "spec", "storageClassName") for each in claims(given)}
    return [each for each in given.objects("StorageClass") if each["metadata"]["name"] in used]


def claimed(each: Any) -> list[str]:
    """The claims that a workload names."""
    volumes = look(pod(each), "spec", "volumes") or []
    return [name for one in volumes if (name := look(one, "persistentVolumeClaim", "claimName"))]


@operator(MEASURED + "a claim of storage that is not there")
def claim_that_is_not_there(given: Written) -> bool:
    """The pod uses a claim that doesn't exist."""
    lost = claims(given)[:1]
    given.documents = [each for each in given.documents if each not in lost]
    return bool(lost)


@operator(MEASURED + "a claim in another namespace")
def claim_of_another_namespace(given: Written) -> bool:
    """The claim is in another namespace than the pod."""
    return any(put(each, "metadata", "namespace", to="default") for each in claims(given))


@operator(MEASURED + "a StorageClass that is not there")
def class_that_is_not_there(given: Written) -> bool:
    """The claim names a StorageClass that is not there."""
    return any(
        look(each, "spec", "storageClassName") and put(each, "spec", "storageClassName", to="fast-ssd")
        for each in claims(given)
    )


@operator(MEASURED + "a StorageClass of a template of claims that is not there")
def class_of_a_template_that_is_not_there(given: Written) -> bool:
    """The claims that a StatefulSet makes name a StorageClass that is not there."""
    way = ("spec", "volumeClaimTemplates", 0, "spec", "storageClassName")
    return any(replace(each, *way, to="fast-ssd") for each in given.objects("StatefulSet"))


@operator(MEASURED + "one EBS disk for many replicas")
def disk_for_many_replicas(given: Written) -> bool:
    """Replicas on different nodes share one EBS disk."""
    for each in given.gpu_workloads:
        if each["kind"] == "Deployment" and claimed(each):
            for one in claims(given):
                put(one, "spec", "accessModes", to=["ReadWriteOnce"])
                if given.objects("StorageClass"):
                    put(one, "spec", "storageClassName", to=given.objects("StorageClass")[0]["metadata"]["name"])
            return put(each, "spec", "replicas", to=3)
    return False


@operator("https://github.com/kubernetes-sigs/aws-ebs-csi-driver/issues/1028")
def disk_that_many_write(given: Written) -> bool:
    """An EBS disk has an access mode for writing from many nodes."""
    disks = {
        each["metadata"]["name"] for each in given.objects("StorageClass") if "ebs" in str(each.get("provisioner"))
    }
    return any(
        put(each, "spec", "accessModes", to=["ReadWriteMany"])
        for each in claims(given)
        if look(each, "spec", "storageClassName") in disks
    )


@operator(EBS)
def provisioner_misspelt(given: Written) -> bool:
    """The provisioner is misspelt."""
    return any(put(each, "provisioner", to="ebs.csi.aws") for each in classes(given))


@operator("https://kubernetes.io/docs/concepts/storage/volumes/#awselasticblockstore")
def provisioner_of_the_tree(given: Written) -> bool:
    """The provisioner is the one in Kubernetes' own tree, and the parameter is of the driver."""
    return any(
        put(each, "provisioner", to="kubernetes.io/aws-ebs") and put(each, "parameters", to={"type": "gp4"})
        for each in classes(given)
    )


@operator(MEASURED + "the driver of a StorageClass is absent")
def no_driver(given: Written) -> bool:
    """The driver of the StorageClass is not installed."""
    for template in given.templates:
        for name, each in list(template["Resources"].items()):
            if str(look(each, "Properties", "AddonName")).endswith("-csi-driver"):
                del template["Resources"][name]
                return True
    return False


@operator("https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html")
def provisioner_of_auto_mode(given: Written) -> bool:
    """The StorageClass has the provisioner of EKS Auto Mode, and the cluster is none."""
    if "ComputeConfig" in str(given.templates):
        return False
    return any(put(each, "provisioner", to="ebs.csi.eks.amazonaws.com") for each in classes(given))


@operator("https://docs.aws.amazon.com/eks/latest/userguide/create-storage-class.html")
def provisioner_of_the_driver_in_auto_mode(given: Written) -> bool:
    """The StorageClass has the provisioner of the driver, and EKS Auto Mode has its own."""
    return any(
        put(each, "provisioner", to="ebs.csi.aws.com")
        for each in given.objects("StorageClass")
        if given.objects("NodeClass")
    )


@operator(DOCS)
def disk_before_the_pod(given: Written) -> bool:
    """The disk is made before its pod has a node."""
    return any(
        put(each, "volumeBindingMode", to="Immediate") for each in classes(given) if each.get("volumeBindingMode")
    )


@operator(MEASURED + "a volume in a zone without GPU nodes")
def volume_in_another_zone(given: Written) -> bool:
    """The volume is in a zone in which no GPU node is."""
    way = ("spec", "nodeAffinity", "required", "nodeSelectorTerms", 0, "matchExpressions", 0, "values")
    return any(replace(each, *way, to=["us-west-2c"]) for each in given.objects("PersistentVolume"))


@operator(MEASURED + "one volume handle twice")
def one_handle_twice(given: Written) -> bool:
    """Two volumes name one disk."""
    for each in given.objects("PersistentVolume"):
        twin = copy.deepcopy(each)
        put(twin, "metadata", "name", to="data-2")
        put(twin, "spec", "claimRef", to={"name": "data-2", "namespace": "ml"})
        given.documents.append(twin)
        return True
    return False


@operator(DOCS)
def claim_of_another_class_than_its_volume(given: Written) -> bool:
    """The claim of a volume that exists has another class than the volume."""
    return any(
        put(each, "spec", "storageClassName", to="gp3")
        for each in given.objects("PersistentVolumeClaim")
        if look(each, "spec", "volumeName")
    )


@operator(DOCS)
def access_mode_misspelt(given: Written) -> bool:
    """The access mode is written as kubectl prints it."""
    return any(put(each, "spec", "accessModes", to=["RWO"]) for each in claims(given))

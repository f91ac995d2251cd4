"""Launch templates that EKS or EC2 refuses."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from gpu_facts.labels import AUTOSCALED_TAG
from gpu_facts.light import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import has_driver, pool_image
from gpu_preflight.cluster.pools import has_open_tags, is_given, is_visible, launched_groups, launches_gpus
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import read_pod_template
from gpu_preflight.reading.unknown import Unknown, is_true, known_text, mapping, mappings
from gpu_preflight.reading.user_data import MAX_BYTES, UserData
from gpu_preflight.rule import Problem, rule

_SUPPORT = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
_MIME = ("mime-version", "content-type")
_AUTOSCALER = (
    "https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws"
)
# Families that came before launch configurations stopped taking new ones, at the end of 2022.
_OLD = ("g2", "g3", "g3s", "g4dn", "g5", "g5g", "p2", "p3", "p3dn", "p4d", "p4de")
_INSTALLS = regex(
    r"NVIDIA-Linux-\S*\.run|\b(?:install|add-repo)\b[^\n]*(?:nvidia-driver|kmod-nvidia|cuda-drivers|cuda-toolkit|"
    r"cuda-repo|nvidia-container-toolkit|nvidia-docker2|\bcuda\b)|developer\.download\.nvidia\.com/compute/cuda/repos",
)


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in launched_groups(cluster) if pool.kind == "managed"]


@rule("GPU040", "error", source=_SUPPORT)
def launch_template_with_what_a_managed_group_must_not_have(case: Case) -> Iterator[Problem]:
    """Launch template with what a managed group must not have.

    EKS sets these itself and refuses the node group.

    Fix: Remove it; subnets, role and CapacityType belong to the node group.
    """
    for pool in _managed(case.cluster):
        names = list(_forbidden_parts(pool))
        if names:
            yield Problem.from_subject(pool, f"the launch template must not have {', '.join(names)}")


def _forbidden_parts(pool: Pool) -> Iterator[str]:
    launch = pool.launch
    if any(is_given(each.subnet) for each in launch.interfaces):
        yield "NetworkInterfaces.SubnetId"
    if is_given(launch.profile):
        yield "IamInstanceProfile"
    if launch.market == "spot":
        yield "InstanceMarketOptions.MarketType spot"
    if is_true(launch.hibernates):
        yield "HibernationOptions"
    if is_given(launch.shutdown):
        yield "InstanceInitiatedShutdownBehavior"


@rule("GPU041", "error", source=_SUPPORT)
def instance_types_in_two_places_or_in_none(case: Case) -> Iterator[Problem]:
    """Instance types in two places, or in none.

    EKS refuses types in both group and launch template; in neither it takes t3.medium, which has no GPU.

    Fix: Name the types once: InstanceTypes of the group, or InstanceType of the launch template.
    """
    for pool in case.cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        group, template = pool.properties.get("InstanceTypes"), pool.launch.instance_type
        if is_given(group) and is_given(template):
            yield Problem.from_subject(pool, "instance types in the group and in its launch template")
        elif group is None and template is None and pool.launch.attributes is None:
            ami_type = known_text(pool.properties.get("AmiType")) or ""
            if "NVIDIA" in ami_type:
                yield Problem.from_subject(pool, f"{ami_type} without instance type is a t3.medium")


@rule("GPU042", "error", source=_SUPPORT)
def disk_size_or_remote_access_beside_a_launch_template(case: Case) -> Iterator[Problem]:
    """Disk size or remote access beside a launch template.

    EKS refuses the node group.

    Fix: Size the disk by BlockDeviceMappings and name the key in the launch template.
    """
    for pool in case.cluster.pools:
        names = [name for name in ("DiskSize", "RemoteAccess") if is_given(pool.properties.get(name))]
        if pool.kind == "managed" and names and is_given(pool.properties.get("LaunchTemplate")):
            yield Problem.from_subject(pool, f"{' and '.join(names)} beside a launch template")


@rule("GPU043", "error", source=_SUPPORT)
def image_named_twice_or_not_at_all(case: Case) -> Iterator[Problem]:
    """Image named twice, or not at all.

    With ImageId in the launch template EKS refuses AmiType, Version and ReleaseVersion; CUSTOM needs one.

    Fix: Keep either ImageId in the launch template, or AmiType, Version and ReleaseVersion of the group.
    """
    for pool in case.cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        given = [name for name in ("AmiType", "Version", "ReleaseVersion") if is_given(pool.properties.get(name))]
        custom = pool.properties.get("AmiType") == "CUSTOM"
        beside = [name for name in given if not (name == "AmiType" and custom)]
        if is_given(pool.launch.image) and beside:
            yield Problem.from_subject(pool, f"{', '.join(beside)} beside ImageId in the launch template")
        elif custom and pool.launch.image is None:
            yield Problem.from_subject(pool, "AmiType CUSTOM, but no ImageId in a launch template")


@rule("GPU055", "error", source=_SUPPORT)
def user_data_that_ec2_or_eks_refuses(case: Case) -> Iterator[Problem]:
    """User data that EC2 or EKS refuses.

    The node group fails with Ec2LaunchTemplateInvalidConfiguration, or the node never joins.

    Fix: Write a MIME multipart message for AL2023 or TOML for Bottlerocket, in base64 and at most 16 KB.
    """
    for pool in launched_groups(case.cluster):
        size = len((pool.user_data.text or "").encode(errors="replace"))
        partly = isinstance(mapping(pool.launch.user_data).get("Fn::Base64"), Unknown)
        why = f"has {size} bytes, EC2 takes {MAX_BYTES}" if size > MAX_BYTES else _misformed(pool)
        if why:
            yield Problem.from_subject(pool, f"user data {why}", unknown=partly)
    for pool in case.cluster.pools:
        text = pool.user_data.text or ""
        if pool.kind == "karpenter" and pool.operating_system == "bottlerocket" and text.strip() and _is_no_toml(pool):
            yield Problem.from_subject(pool, "user data is no TOML, into which Karpenter writes", unknown="${" in text)


def _is_no_toml(pool: Pool) -> bool:
    """Whether Karpenter cannot read what it is to add to, so that it launches nothing; it adds to no custom family.

    Source: aws/karpenter-provider-aws 009da959 pkg/providers/amifamily/bootstrap/bottlerocket.go, custom.go ``Script``
    """
    if pool.node_class is None or pool.node_class.spec.get("amiFamily") == "Custom":
        return False
    return pool.user_data.format in ("nodeadm", "script") or pool.user_data.problem is not None


def _misformed(pool: Pool) -> str | None:
    data, raw = pool.user_data, pool.launch.user_data
    if data.text is None:
        return None if isinstance(raw, str) and _is_base64(raw) else data.problem
    if pool.operating_system == "bottlerocket" or (pool.operating_system == "al2023" and _is_mime(data)):
        return data.problem if data.format == "unknown" else None
    merged = pool.kind == "managed" and pool.operating_system in ("al2023", "al2") and pool.launch.image is None
    fits = data.format == "nodeadm" or _is_mime(data)
    return "is no MIME message, which EKS merges" if merged and not fits else None


def _is_mime(data: UserData) -> bool:
    return (data.text or "").lstrip().lower().startswith(_MIME)


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


@rule("GPU056", "error", source="https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html")
def tag_that_only_aws_may_set(case: Case) -> Iterator[Problem]:
    """Tag that only AWS may set.

    AWS refuses the tag, and with it the node group or each launch.

    Fix: Rename the tag; 'aws:' is reserved.
    """
    for pool in case.cluster.pools:
        keys = [key for key in _tag_keys(pool) if key.lower().startswith("aws:")]
        if pool.is_group and keys:
            yield Problem.from_subject(pool, f"{', '.join(keys)} is a tag that only AWS may set")


def _tag_keys(pool: Pool) -> list[str]:
    tags = pool.properties.get("Tags")
    listed = [*mappings(tags)]
    for each in pool.launch.tags:
        listed += mappings(each.get("Tags"))
    return [*mapping(tags), *(key for each in listed if (key := known_text(each.get("Key"))))]


@rule("GPU244", "error", source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-configurations.html")
def launch_configuration_instead_of_launch_template(case: Case) -> Iterator[Problem]:
    """Launch configuration instead of launch template.

    It takes no instance types of 2023 and later, and accounts from October 2024 on cannot make one.

    Fix: Use AWS::EC2::LaunchTemplate.
    """
    for pool in (*case.cluster.pools, *case.cluster.unclaimed):
        configured = pool.kind == "self-managed" and pool.properties.get("LaunchConfigurationName") is not None
        if configured and (launches_gpus(pool) or not pool.instance_types):
            newer = [name for name in pool.instance_types if name.partition(".")[0] not in _OLD]
            what = f"takes no {newer[0]}" if newer else "cannot be made in accounts from October 2024 on"
            yield Problem.from_subject(pool, f"a launch configuration {what}", unknown=not newer or pool.undecided)


@rule("GPU343", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/launch-workers.html")
def gpu_group_that_names_no_cluster(case: Case) -> Iterator[Problem]:
    """GPU group that names no cluster.

    Its instances start, cost money and join nothing: neither tags nor user data say of which cluster they are nodes.

    Fix: Tag the group kubernetes.io/cluster/<cluster> and name the cluster in its user data, or use a managed node
    group.
    """
    for pool in case.cluster.unclaimed:
        nodes = "eks" in str(pool.launch.image).lower() or pool.operating_system in ("al2023", "bottlerocket")
        read = pool.user_data.format == "none" and is_visible(pool) and not has_open_tags(pool.properties)
        text = f"neither its tags nor its user data name a cluster that its {pool.instance_types[0]} would join"
        yield Problem.from_subject(pool, text, unknown=not (nodes and read))


@rule("GPU245", "warning", source="https://docs.aws.amazon.com/eks/latest/best-practices/cas.html")
def scaling_policy_on_the_group_of_gpu_nodes(case: Case) -> Iterator[Problem]:
    """Scaling policy on the group of GPU nodes.

    It knows nothing of pods: it ends nodes on which a job runs, and undoes what the autoscaler does.

    Fix: Remove the policy; cluster autoscaler or Karpenter makes nodes for pods that are Pending.
    """
    for policy in case.cluster.resources_of_type("AWS::AutoScaling::ScalingPolicy"):
        group = policy.properties.get("AutoScalingGroupName")
        for pool in case.gpu_pools:
            if pool.kind == "self-managed" and pool.resource is not None and _is_group(group, pool):
                kind = known_text(policy.properties.get("PolicyType")) or "SimpleScaling"
                yield Problem.from_subject(pool, f"{kind} policy {policy.path} changes its size too")


def _is_group(reference: object, pool: Pool) -> bool:
    if isinstance(reference, Unknown):
        return pool.resource is not None and reference.resource == pool.resource.key
    return reference is not None and reference == pool.properties.get("AutoScalingGroupName")


@rule("GPU246", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html")
def driver_installed_at_boot_over_the_images_own(case: Case) -> Iterator[Problem]:
    """Driver installed at boot over the image's own.

    Boot takes minutes more and fails with the mirror; two drivers that differ leave the node without GPUs.

    Fix: Remove the installation: driver and container toolkit are in the image, CUDA belongs in the container.
    """
    for pool in case.gpu_pools:
        if has_driver(pool) is Answer.YES and pool.kind != "auto-mode":
            found = next((match for text in pool.user_data.scripts if (match := _INSTALLS.search(text))), None)
            if found:
                shown = " ".join(found.group().split())[:60]
                yield Problem.from_subject(pool, f"its image has the driver, and user data runs '{shown}'")


@rule("GPU247", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html")
def image_named_by_a_literal_id(case: Case) -> Iterator[Problem]:
    """Image by a literal id.

    It does not follow Kubernetes versions and fixes, and exists in one Region.

    Fix: Set AmiType, or resolve the SSM parameter of the accelerated image.
    """
    for pool in case.gpu_pools:
        image = known_text(pool_image(pool)) or ""
        if pool.is_group and re.fullmatch(r"ami-[0-9a-f]{8,17}", image):
            yield Problem.from_subject(pool, f"image {image} is of one Region, version and day")


@rule("GPU248", "error", source=f"{_AUTOSCALER}/examples/cluster-autoscaler-autodiscover.yaml")
def cluster_autoscalers_deployment_is_incomplete(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler's Deployment is incomplete.

    Without an image it is refused; without service account it may read nothing and makes no node.

    Fix: Install the chart, or take all of the upstream manifest.
    """
    cluster = case.cluster
    for each in cluster.objects_of_kind("Deployment"):
        pod = read_pod_template(each)
        containers = pod.containers or ()
        images = [one.image_text for one in containers]
        if each.name != "cluster-autoscaler" and not any("/cluster-autoscaler:" in image for image in images):
            continue
        lacks = [
            name
            for name, there in (
                ("image", pod.open_parts or (containers and all(one.image for one in containers))),
                ("serviceAccountName", pod.service_account),
            )
            if not there
        ]
        if lacks:
            yield Problem(each, f"Deployment {each.namespace}/{each.name} has no {' and no '.join(lacks)}")


@rule("GPU249", "warning", source=f"{_AUTOSCALER}/README.md")
def cluster_autoscaler_takes_the_groups_of_other_clusters(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler takes the groups of other clusters.

    It removes their nodes, which it does not know, and makes nodes there for pods that are here.

    Fix: Discover by k8s.io/cluster-autoscaler/enabled and k8s.io/cluster-autoscaler/<cluster> together.
    """
    for each in case.cluster.autoscalers:
        told = known_text(each.flags.get("node-group-auto-discovery")) if each.kind == "cluster-autoscaler" else None
        tags = [one for part in (told or "").split() for one in part.partition("asg:tag=")[2].split(",") if one]
        if tags and {tag.partition("=")[0] for tag in tags} == {AUTOSCALED_TAG}:
            yield Problem(each, f"cluster autoscaler takes every group tagged {AUTOSCALED_TAG}, of any cluster")


@rule(
    "GPU250",
    "warning",
    source="https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/FAQ.md",
)
def cluster_autoscaler_keeps_nodes_with_local_storage(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler keeps nodes with local storage.

    skip-nodes-with-local-storage is on unless it is switched off; GPU nodes that nobody uses cost on.

    Fix: Set --skip-nodes-with-local-storage=false.
    """
    names = [pool.name for pool in case.gpu_pools if pool.is_group]
    for each in case.cluster.autoscalers:
        flag = each.flags.get("skip-nodes-with-local-storage", "true")
        if each.kind == "cluster-autoscaler" and names and str(flag).lower() == "true":
            message = (
                f"a pod with an emptyDir, such as /dev/shm, keeps an idle node of pool {', '.join(names)} for ever"
            )
            yield Problem(each, message)

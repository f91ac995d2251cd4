"""Rules for launch templates that EKS or EC2 rejects."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator

from gpu_facts.hardware.catalogue import catalogue
from gpu_facts.labels import AUTOSCALED_BY_TAG, AUTOSCALED_TAG
from gpu_facts.light import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import has_driver, pool_image
from gpu_preflight.cluster.pools import has_open_tags, is_given, is_visible, launched_groups, launches_gpus
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import read_pod_template
from gpu_preflight.node.nodes import gpu_types
from gpu_preflight.reading.unknown import Unknown, is_true, known_text, mapping, mappings
from gpu_preflight.reading.user_data import MAX_BYTES, UserData
from gpu_preflight.rule import Problem, rule

_SUPPORT = "https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html"
_MIME = ("mime-version", "content-type")
_AUTOSCALER = (
    "https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws"
)
# Launch configurations support only families that EC2 released before the end of 2022.
_OLD = ("g2", "g3", "g3s", "g4dn", "g5", "g5g", "p2", "p3", "p3dn", "p4d", "p4de")
_INSTALLS = regex(
    r"NVIDIA-Linux-\S*\.run|\b(?:install|add-repo)\b[^\n]*(?:nvidia-driver|kmod-nvidia|cuda-drivers|cuda-toolkit|"
    r"cuda-repo|nvidia-container-toolkit|nvidia-docker2|\bcuda\b)|developer\.download\.nvidia\.com/compute/cuda/repos",
)


# What a launch template sets instead of properties of a node group.
_IN_A_TEMPLATE = {
    "DiskSize": "BlockDeviceMappings",
    "RemoteAccess": "KeyName",
}
_MULTIPART = "Write a MIME multipart message, with each script in a part text/x-shellscript."
_TOML = "Write Bottlerocket's settings as valid TOML."
_BASE64 = "Encode UserData of the launch template with Fn::Base64."
_SHORTEN = f"Shorten the user data to {MAX_BYTES} bytes, for example by downloading a script at boot."


def _managed(cluster: Cluster) -> list[Pool]:
    return [pool for pool in launched_groups(cluster) if pool.kind == "managed"]


@rule("GPU040", "error", source=_SUPPORT)
def launch_template_with_what_a_managed_group_must_not_have(case: Case) -> Iterator[Problem]:
    """Launch template has settings that a managed node group doesn't allow.

    EKS sets these itself and rejects the node group.

    Fix: Remove these settings from the launch template.
    """
    for pool in _managed(case.cluster):
        parts = dict(_forbidden_parts(pool))
        if parts:
            text = f"its launch template sets {', '.join(parts)}, which EKS rejects for managed node groups"
            instead = " and ".join(filter(None, parts.values()))
            moved = f", and set {instead} in the node group" if instead else ""
            yield Problem.from_subject(pool, text, fix=f"Remove {', '.join(parts)} from the launch template{moved}.")


def _forbidden_parts(pool: Pool) -> Iterator[tuple[str, str]]:
    """Yield the settings that EKS rejects, and the property of the node group for each; empty if there is none."""
    launch = pool.launch
    if any(is_given(each.subnet) for each in launch.interfaces):
        yield "NetworkInterfaces.SubnetId", "Subnets"
    if is_given(launch.profile):
        yield "IamInstanceProfile", "NodeRole"
    if launch.market == "spot":
        yield "InstanceMarketOptions.MarketType spot", "CapacityType: SPOT"
    if is_true(launch.hibernates):
        yield "HibernationOptions", ""
    if is_given(launch.shutdown):
        yield "InstanceInitiatedShutdownBehavior", ""


@rule("GPU041", "error", source=_SUPPORT)
def instance_types_in_two_places_or_in_none(case: Case) -> Iterator[Problem]:
    """Instance types are set in two places or in none.

    EKS rejects types in both the group and the launch template. If neither has one, EKS uses t3.medium, which has no
    GPU.

    Fix: Set the types once: InstanceTypes of the group, or InstanceType of the launch template.
    """
    for pool in case.cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        group, template = pool.properties.get("InstanceTypes"), pool.launch.instance_type
        if is_given(group) and is_given(template):
            text = "both the group and its launch template set instance types, which EKS rejects"
            fix = "Remove InstanceType from the launch template, or InstanceTypes from the node group."
            yield Problem.from_subject(pool, text, fix=fix)
        elif group is None and template is None and pool.launch.attributes is None:
            ami_type = known_text(pool.properties.get("AmiType")) or ""
            if "NVIDIA" in ami_type:
                text = f"no instance type is set for AmiType {ami_type}, so EKS launches t3.medium, which has no GPU"
                fix = "Set InstanceTypes of the node group to types with NVIDIA GPUs, such as [g6.xlarge]."
                yield Problem.from_subject(pool, text, fix=fix)


@rule("GPU042", "error", source=_SUPPORT)
def disk_size_or_remote_access_beside_a_launch_template(case: Case) -> Iterator[Problem]:
    """Node group sets disk size or remote access next to a launch template.

    EKS rejects the node group.

    Fix: Move the settings to the launch template.
    """
    for pool in case.cluster.pools:
        names = [name for name in ("DiskSize", "RemoteAccess") if is_given(pool.properties.get(name))]
        if pool.kind == "managed" and names and is_given(pool.properties.get("LaunchTemplate")):
            text = f"it sets {' and '.join(names)} next to a launch template, which EKS rejects"
            instead = " and ".join(_IN_A_TEMPLATE[each] for each in names)
            fix = f"Remove {' and '.join(names)} from the node group, and set {instead} in the launch template."
            yield Problem.from_subject(pool, text, fix=fix)


@rule("GPU043", "error", source=_SUPPORT)
def image_named_twice_or_not_at_all(case: Case) -> Iterator[Problem]:
    """Node image is set twice or not at all.

    With ImageId in the launch template, EKS rejects AmiType, Version and ReleaseVersion. AmiType CUSTOM needs an
    ImageId.

    Fix: Remove the properties from the node group, or ImageId from the launch template.
    """
    for pool in case.cluster.pools:
        if pool.kind != "managed" or not is_visible(pool):
            continue
        given = [name for name in ("AmiType", "Version", "ReleaseVersion") if is_given(pool.properties.get(name))]
        custom = pool.properties.get("AmiType") == "CUSTOM"
        beside = [name for name in given if not (name == "AmiType" and custom)]
        if is_given(pool.launch.image) and beside:
            text = f"it sets {', '.join(beside)} next to ImageId in the launch template, which EKS rejects"
            fix = f"Remove {', '.join(beside)} from the node group, or ImageId from the launch template."
            yield Problem.from_subject(pool, text, fix=fix)
        elif custom and pool.launch.image is None:
            text = "AmiType is CUSTOM, but no launch template sets ImageId, so EKS rejects the group"
            fix = "Set AmiType to an image type for its instance types, such as AL2023_x86_64_NVIDIA, or set ImageId."
            yield Problem.from_subject(pool, text, fix=fix)


@rule("GPU055", "error", source=_SUPPORT)
def user_data_that_ec2_or_eks_refuses(case: Case) -> Iterator[Problem]:
    """EC2 or EKS rejects the user data.

    The node group fails with Ec2LaunchTemplateInvalidConfiguration, or the node never joins.

    Fix: Write a MIME multipart message for AL2023 or TOML for Bottlerocket, in base64 and at most 16 KB.
    """
    for pool in launched_groups(case.cluster):
        size = len((pool.user_data.text or "").encode(errors="replace"))
        partly = isinstance(mapping(pool.launch.user_data).get("Fn::Base64"), Unknown)
        why = f"has {size} bytes, but EC2 allows {MAX_BYTES}" if size > MAX_BYTES else _misformed(pool)
        if why:
            by_system = _TOML if pool.operating_system == "bottlerocket" else _MULTIPART
            fix = _BASE64 if why == "isn't base64" else _SHORTEN if size > MAX_BYTES else by_system
            yield Problem.from_subject(pool, f"user data {why}", fix=fix, unknown=partly)
    for pool in case.cluster.pools:
        text = pool.user_data.text or ""
        if pool.kind == "karpenter" and pool.operating_system == "bottlerocket" and text.strip() and _is_no_toml(pool):
            problem = "user data isn't valid TOML, so Karpenter can't add its settings and launches no node"
            fix = "Write spec.userData of the EC2NodeClass as TOML, for example a table [settings.kubernetes]."
            yield Problem.from_subject(pool, problem, fix=fix, unknown="${" in text)


def _is_no_toml(pool: Pool) -> bool:
    """Whether Karpenter can't parse the user data that it must extend, so it launches nothing.

    Karpenter doesn't extend the user data of a custom family.

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
    return "isn't a MIME message, so EKS can't merge its own part" if merged and not fits else None


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
    """Tag key is reserved for AWS.

    AWS rejects the tag, and with it the node group or each launch.

    Fix: Rename the tag; the prefix 'aws:' is reserved.
    """
    for pool in case.cluster.pools:
        keys = [key for key in _tag_keys(pool) if key.lower().startswith("aws:")]
        if pool.is_group and keys:
            yield Problem.from_subject(pool, f"tag {', '.join(keys)} has the prefix 'aws:', which only AWS may use")


def _tag_keys(pool: Pool) -> list[str]:
    tags = pool.properties.get("Tags")
    listed = [*mappings(tags)]
    for each in pool.launch.tags:
        listed += mappings(each.get("Tags"))
    return [*mapping(tags), *(key for each in listed if (key := known_text(each.get("Key"))))]


@rule("GPU244", "error", source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-configurations.html")
def launch_configuration_instead_of_launch_template(case: Case) -> Iterator[Problem]:
    """Auto Scaling group uses a launch configuration.

    Launch configurations don't support instance types of 2023 and later, and accounts created since October 2024 can't
    create one.

    Fix: Replace LaunchConfigurationName with LaunchTemplate, which refers to an AWS::EC2::LaunchTemplate.
    """
    for pool in (*case.cluster.pools, *case.cluster.unclaimed):
        configured = pool.kind == "self-managed" and pool.properties.get("LaunchConfigurationName") is not None
        if configured and (launches_gpus(pool) or not pool.instance_types):
            newer = [name for name in pool.instance_types if name.partition(".")[0] not in _OLD]
            old = "which accounts created since October 2024 can't create"
            what = f"which doesn't support {newer[0]}" if newer else old
            text = f"it uses a launch configuration, {what}"
            yield Problem.from_subject(pool, text, unknown=not newer or pool.undecided)


@rule("GPU343", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/launch-workers.html")
def gpu_group_that_names_no_cluster(case: Case) -> Iterator[Problem]:
    """Auto Scaling group of GPU nodes names no cluster.

    Its instances start and cost money, but join no cluster: neither tags nor user data name one.

    Fix: Tag the group kubernetes.io/cluster/<cluster>=owned with PropagateAtLaunch and name the cluster in its user
    data, or use a managed node group.
    """
    for pool in case.cluster.unclaimed:
        nodes = "eks" in str(pool.launch.image).lower() or pool.operating_system in ("al2023", "bottlerocket")
        read = pool.user_data.format == "none" and is_visible(pool) and not has_open_tags(pool.properties)
        text = f"neither its tags nor its user data name a cluster that its {pool.instance_types[0]} nodes can join"
        yield Problem.from_subject(pool, text, unknown=not (nodes and read))


@rule("GPU245", "warning", source="https://docs.aws.amazon.com/eks/latest/best-practices/cas.html")
def scaling_policy_on_the_group_of_gpu_nodes(case: Case) -> Iterator[Problem]:
    """Scaling policy changes the size of a group of GPU nodes.

    The policy ignores pods. It terminates nodes on which a job runs, and reverts changes of the autoscaler.

    Fix: Remove the policy; cluster autoscaler or Karpenter creates nodes for Pending pods.
    """
    for policy in case.cluster.resources_of_type("AWS::AutoScaling::ScalingPolicy"):
        group = policy.properties.get("AutoScalingGroupName")
        for pool in case.gpu_pools:
            if pool.kind == "self-managed" and pool.resource is not None and _is_group(group, pool):
                kind = known_text(policy.properties.get("PolicyType")) or "SimpleScaling"
                text = f"{kind} policy {policy.path} changes the group's size without regard to its pods"
                yield Problem.from_subject(pool, text)


def _is_group(reference: object, pool: Pool) -> bool:
    if isinstance(reference, Unknown):
        return pool.resource is not None and reference.resource == pool.resource.key
    return reference is not None and reference == pool.properties.get("AutoScalingGroupName")


@rule("GPU246", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html")
def driver_installed_at_boot_over_the_images_own(case: Case) -> Iterator[Problem]:
    """User data installs a driver at boot over the image's driver.

    The boot takes minutes longer and fails if the mirror fails. If the two drivers differ, the node has no GPUs.

    Fix: Remove the installation: driver and container toolkit are in the image, CUDA belongs in the container.
    """
    for pool in case.gpu_pools:
        if has_driver(pool) is Answer.YES and pool.kind != "auto-mode":
            found = next((match for text in pool.user_data.scripts if (match := _INSTALLS.search(text))), None)
            if found:
                shown = " ".join(found.group().split())[:60]
                yield Problem.from_subject(pool, f"its image already has the driver, but its user data runs '{shown}'")


@rule("GPU247", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html")
def image_named_by_a_literal_id(case: Case) -> Iterator[Problem]:
    """Node image has a fixed id.

    The image doesn't follow Kubernetes versions and fixes, and exists in only one region.

    Fix: Take the id from the SSM parameter of the EKS image with NVIDIA's driver.
    """
    for pool in case.gpu_pools:
        image = known_text(pool_image(pool)) or ""
        if pool.is_group and re.fullmatch(r"ami-[0-9a-f]{8,17}", image):
            text = f"its fixed image id {image} exists in only one region and doesn't follow Kubernetes versions"
            is_arm = any(catalogue()[each].architecture == "arm64" for each in gpu_types(pool))
            ami_type = f"AL2023_{'ARM' if is_arm else 'x86'}_64_NVIDIA"
            fix = f"Remove ImageId from the launch template, and set AmiType to {ami_type}."
            yield Problem.from_subject(pool, text, fix=fix if pool.kind == "managed" else "")


@rule("GPU248", "error", source=f"{_AUTOSCALER}/examples/cluster-autoscaler-autodiscover.yaml")
def cluster_autoscalers_deployment_is_incomplete(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler's Deployment is incomplete.

    Without an image, the API server rejects it. Without a service account, it has no access to the API and creates no
    node.

    Fix: Install the chart, or copy the whole upstream manifest.
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
    """Cluster autoscaler also scales groups of other clusters.

    It removes their nodes, which it doesn't know, and creates nodes there for pods of this cluster.

    Fix: Use --node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,k8s.io/cluster-autoscaler/<cluster>.
    """
    for each in case.cluster.autoscalers:
        flag = known_text(each.flags.get("node-group-auto-discovery")) if each.kind == "cluster-autoscaler" else None
        tags = [one for part in (flag or "").split() for one in part.partition("asg:tag=")[2].split(",") if one]
        if tags and {tag.partition("=")[0] for tag in tags} == {AUTOSCALED_TAG}:
            text = (
                f"cluster autoscaler scales every group with tag {AUTOSCALED_TAG}, including groups of other clusters"
            )
            name = case.cluster.written_name
            fix = f"Use --node-group-auto-discovery=asg:tag={AUTOSCALED_TAG},{AUTOSCALED_BY_TAG}{name}."
            yield Problem(each, text, fix)


@rule(
    "GPU250",
    "warning",
    source="https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/FAQ.md",
)
def cluster_autoscaler_keeps_nodes_with_local_storage(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler keeps idle nodes whose pods have local storage.

    skip-nodes-with-local-storage is true by default, so idle GPU nodes keep running and cost money.

    Fix: Set --skip-nodes-with-local-storage=false.
    """
    names = [pool.name for pool in case.gpu_pools if pool.is_group]
    for each in case.cluster.autoscalers:
        flag = each.flags.get("skip-nodes-with-local-storage", "true")
        if each.kind == "cluster-autoscaler" and names and str(flag).lower() == "true":
            default = "" if "skip-nodes-with-local-storage" in each.flags else " (the default)"
            kept = f"it never removes a node of pool {', '.join(names)} on which a pod with an emptyDir volume runs"
            message = f"cluster autoscaler: --skip-nodes-with-local-storage is true{default}, so {kept}"
            yield Problem(each, message)

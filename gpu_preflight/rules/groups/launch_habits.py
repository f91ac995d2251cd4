"""Habits of launching nodes that EKS, or GPUs, do not go with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_facts.labels import AUTOSCALED_TAG
from gpu_facts.light_patterns import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import has_driver, image_of
from gpu_preflight.cluster.launch import is_visible
from gpu_preflight.cluster.pools import has_open_tags, launches_gpus
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.pod import pod_of
from gpu_preflight.reading.unknown import Unknown, known_text
from gpu_preflight.rules.rule import Problem, rule

_AUTOSCALER = (
    "https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws"
)
# Families that came before launch configurations stopped taking new ones, at the end of 2022.
_OLD = ("g2", "g3", "g3s", "g4dn", "g5", "g5g", "p2", "p3", "p3dn", "p4d", "p4de")
_INSTALLS = regex(
    r"NVIDIA-Linux-\S*\.run|\b(?:install|add-repo)\b[^\n]*(?:nvidia-driver|kmod-nvidia|cuda-drivers|cuda-toolkit|"
    r"cuda-repo|nvidia-container-toolkit|nvidia-docker2|\bcuda\b)|developer\.download\.nvidia\.com/compute/cuda/repos",
)


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
            yield Problem.of(pool, f"a launch configuration {what}", unknown=not newer or pool.undecided)


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
        yield Problem.of(pool, text, unknown=not (nodes and read))


@rule("GPU245", "warning", source="https://docs.aws.amazon.com/eks/latest/best-practices/cas.html")
def scaling_policy_on_the_group_of_gpu_nodes(case: Case) -> Iterator[Problem]:
    """Scaling policy on the group of GPU nodes.

    It knows nothing of pods: it ends nodes on which a job runs, and undoes what the autoscaler does.

    Fix: Remove the policy; cluster autoscaler or Karpenter makes nodes for pods that are Pending.
    """
    for policy in case.cluster.resources_of("AWS::AutoScaling::ScalingPolicy"):
        group = policy.properties.get("AutoScalingGroupName")
        for pool in case.gpu_pools:
            if pool.kind == "self-managed" and pool.resource is not None and _is_group(group, pool):
                kind = known_text(policy.properties.get("PolicyType")) or "SimpleScaling"
                yield Problem.of(pool, f"{kind} policy {policy.path} changes its size too")


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
                yield Problem.of(pool, f"its image has the driver, and user data runs '{shown}'")


@rule("GPU247", "note", source="https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html")
def image_named_by_a_literal_id(case: Case) -> Iterator[Problem]:
    """Image by a literal id.

    It does not follow Kubernetes versions and fixes, and exists in one Region.

    Fix: Set AmiType, or resolve the SSM parameter of the accelerated image.
    """
    for pool in case.gpu_pools:
        image = known_text(image_of(pool)) or ""
        if pool.is_group and re.fullmatch(r"ami-[0-9a-f]{8,17}", image):
            yield Problem.of(pool, f"image {image} is of one Region, version and day")


@rule("GPU248", "error", source=f"{_AUTOSCALER}/examples/cluster-autoscaler-autodiscover.yaml")
def cluster_autoscalers_deployment_is_incomplete(case: Case) -> Iterator[Problem]:
    """Cluster autoscaler's Deployment is incomplete.

    Without an image it is refused; without service account it may read nothing and makes no node.

    Fix: Install the chart, or take all of the upstream manifest.
    """
    cluster = case.cluster
    for each in cluster.of_kind("Deployment"):
        pod = pod_of(each)
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

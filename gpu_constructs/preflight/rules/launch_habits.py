"""Habits of launching nodes that EKS, or GPUs, do not go with."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_constructs.preflight.answer import Answer
from gpu_constructs.preflight.images import has_driver, image_of
from gpu_constructs.preflight.model import Cluster, Pool
from gpu_constructs.preflight.nodes import gpu_types
from gpu_constructs.preflight.rules.rule import Problem, Rule
from gpu_constructs.preflight.unknown import Unknown, dig, known_text, mapping, mappings

_AUTOSCALER = (
    "https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-1.36.1/cluster-autoscaler/cloudprovider/aws"
)
_ENABLED = "k8s.io/cluster-autoscaler/enabled"
# Families that came before launch configurations stopped taking new ones, at the end of 2022.
_OLD = ("g2", "g3", "g3s", "g4dn", "g5", "g5g", "p2", "p3", "p3dn", "p4d", "p4de")
_INSTALLS = re.compile(
    r"NVIDIA-Linux-\S*\.run|\b(?:install|add-repo)\b[^\n]*(?:nvidia-driver|kmod-nvidia|cuda-drivers|cuda-toolkit|"
    r"cuda-repo|nvidia-container-toolkit|nvidia-docker2|\bcuda\b)|developer\.download\.nvidia\.com/compute/cuda/repos",
)


def _launch_configurations(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        if pool.kind == "self-managed" and pool.properties.get("LaunchConfigurationName") is not None:
            newer = [name for name in gpu_types(pool) if name.partition(".")[0] not in _OLD]
            what = f"takes no {newer[0]}" if newer else "cannot be made in accounts from October 2024 on"
            yield Problem(pool.origin, f"pool {pool.name}: a launch configuration {what}", unknown=not newer)


def _policies(cluster: Cluster) -> Iterator[Problem]:
    for policy in cluster.resources_of("AWS::AutoScaling::ScalingPolicy"):
        group = policy.properties.get("AutoScalingGroupName")
        for pool in cluster.gpu_pools:
            if pool.kind == "self-managed" and pool.resource is not None and _is_group(group, pool):
                kind = known_text(policy.properties.get("PolicyType")) or "SimpleScaling"
                yield Problem(pool.origin, f"pool {pool.name}: {kind} policy {policy.path} changes its size too")


def _is_group(reference: object, pool: Pool) -> bool:
    if isinstance(reference, Unknown):
        return pool.resource is not None and reference.resource == pool.resource.key
    return reference is not None and reference == pool.properties.get("AutoScalingGroupName")


def _driver_installed(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        if has_driver(pool) is Answer.YES and pool.kind != "auto-mode":
            found = next((match for text in pool.user_data.scripts if (match := _INSTALLS.search(text))), None)
            if found:
                shown = " ".join(found.group().split())[:60]
                yield Problem(pool.origin, f"pool {pool.name}: its image has the driver, and user data runs '{shown}'")


def _frozen(cluster: Cluster) -> Iterator[Problem]:
    for pool in cluster.gpu_pools:
        image = known_text(image_of(pool)) or ""
        if pool.is_group and re.fullmatch(r"ami-[0-9a-f]{8,17}", image):
            yield Problem(pool.origin, f"pool {pool.name}: image {image} is of one Region, version and day")


def _incomplete(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.of_kind("Deployment"):
        pod = mapping(dig(dict(each.spec), "template", "spec"))
        containers = mappings(pod.get("containers"))
        images = [known_text(one.get("image")) or "" for one in containers]
        if each.name != "cluster-autoscaler" and not any("/cluster-autoscaler:" in image for image in images):
            continue
        lacks = [
            name
            for name, there in (
                ("selector", each.spec.get("selector")),
                ("image", containers and all(one.get("image") for one in containers)),
                ("serviceAccountName", pod.get("serviceAccountName") or pod.get("serviceAccount")),
            )
            if not there
        ]
        if lacks:
            yield Problem(
                each.origin,
                f"Deployment {each.namespace}/{each.name} has no {' and no '.join(lacks)}",
                unknown=not cluster.whole,
            )


def _foreign_groups(cluster: Cluster) -> Iterator[Problem]:
    for each in cluster.autoscalers:
        told = known_text(each.flags.get("node-group-auto-discovery")) if each.kind == "cluster-autoscaler" else None
        tags = [one for part in (told or "").split() for one in part.partition("asg:tag=")[2].split(",") if one]
        if tags and {tag.partition("=")[0] for tag in tags} == {_ENABLED}:
            yield Problem(each.origin, f"cluster autoscaler takes every group tagged {_ENABLED}, of any cluster")


def _kept_nodes(cluster: Cluster) -> Iterator[Problem]:
    names = [pool.name for pool in cluster.gpu_pools if pool.is_group]
    for each in cluster.autoscalers:
        flag = each.flags.get("skip-nodes-with-local-storage", "true")
        if each.kind == "cluster-autoscaler" and names and str(flag).lower() == "true":
            message = (
                f"a pod with an emptyDir, such as /dev/shm, keeps an idle node of pool {', '.join(names)} for ever"
            )
            yield Problem(each.origin, message)


RULES = (
    Rule(
        id="GPU244",
        severity="error",
        title="Launch configuration instead of launch template",
        why="It takes no instance types of 2023 and later, and accounts from October 2024 on cannot make one.",
        source="https://docs.aws.amazon.com/autoscaling/ec2/userguide/launch-configurations.html",
        fix="Use AWS::EC2::LaunchTemplate.",
        causes=("W1.2",),
        check=_launch_configurations,
    ),
    Rule(
        id="GPU245",
        severity="warning",
        title="Scaling policy on the group of GPU nodes",
        why="It knows nothing of pods: it ends nodes on which a job runs, and undoes what the autoscaler does.",
        source="https://docs.aws.amazon.com/eks/latest/best-practices/cas.html",
        fix="Remove the policy; cluster autoscaler or Karpenter makes nodes for pods that are Pending.",
        causes=("W0.16", "W1.12"),
        check=_policies,
    ),
    Rule(
        id="GPU246",
        severity="warning",
        title="Driver installed at boot over the image's own",
        why="Boot takes minutes more and fails with the mirror; two drivers that differ leave the node without GPUs.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html",
        fix="Remove the installation: driver and container toolkit are in the image, CUDA belongs in the container.",
        causes=("W0.13", "W1.3"),
        check=_driver_installed,
    ),
    Rule(
        id="GPU247",
        severity="note",
        title="Image by a literal id",
        why="It does not follow Kubernetes versions and fixes, and exists in one Region.",
        source="https://docs.aws.amazon.com/eks/latest/userguide/retrieve-ami-id.html",
        fix="Set AmiType, or resolve the SSM parameter of the accelerated image.",
        causes=("W1.4",),
        check=_frozen,
    ),
    Rule(
        id="GPU248",
        severity="error",
        title="Cluster autoscaler's Deployment is incomplete",
        why="Without selector or image it is refused; without service account it may read nothing and makes no node.",
        source=f"{_AUTOSCALER}/examples/cluster-autoscaler-autodiscover.yaml",
        fix="Install the chart, or take all of the upstream manifest.",
        causes=("W0.9",),
        check=_incomplete,
    ),
    Rule(
        id="GPU249",
        severity="warning",
        title="Cluster autoscaler takes the groups of other clusters",
        why="It removes their nodes, which it does not know, and makes nodes there for pods that are here.",
        source=f"{_AUTOSCALER}/README.md",
        fix="Discover by k8s.io/cluster-autoscaler/enabled and k8s.io/cluster-autoscaler/<cluster> together.",
        causes=("W0.10",),
        check=_foreign_groups,
    ),
    Rule(
        id="GPU250",
        severity="warning",
        title="Cluster autoscaler keeps nodes with local storage",
        why="skip-nodes-with-local-storage is on unless it is switched off; GPU nodes that nobody uses cost on.",
        source="https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.36.1/cluster-autoscaler/FAQ.md",
        fix="Set --skip-nodes-with-local-storage=false.",
        causes=("W0.11",),
        check=_kept_nodes,
    ),
)

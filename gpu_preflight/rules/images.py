"""Rules for node images and container images that don't fit the instance types or the Kubernetes version."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_facts.charts import DCGM_EXPORTER, DEVICE_PLUGIN, GPU_OPERATOR
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.gpu_models import (
    DRIVER_OF_MAJOR,
    FIRST_FOR_FAMILY,
    LAST_MAJOR_FOR_FAMILY,
    NEWEST_MAJOR,
    Release,
)
from gpu_facts.image_releases import (
    AL2023_FIRST,
    AL2023_FIRST_WITH_NVIDIA,
    FAULTS,
    LTS,
    NEWEST_WITHOUT_FAULT,
    Fault,
    release_date,
)
from gpu_facts.light import regex
from gpu_preflight.case import Case
from gpu_preflight.cluster.images import (
    ami_alias,
    ami_release,
    has_driver,
    image_architecture,
    image_version,
    plain_images,
    pool_driver_branches,
    pool_image,
)
from gpu_preflight.cluster.pools import is_given, is_of_eksctl
from gpu_preflight.cluster.software import operator_installs
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import read_pod_template
from gpu_preflight.node.gpu_pools import nodes_never_join, types_without_gpus
from gpu_preflight.node.nodes import gpu_types, minor, surely_launches
from gpu_preflight.reading.unknown import dig, known_text
from gpu_preflight.rule import Problem, rule

_AMI_TYPES = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"
_ALIAS = f"Set spec.amiSelectorTerms of the EC2NodeClass to [{{alias: al2023@{NEWEST_WITHOUT_FAULT}}}]."
# The last minor version with Amazon Linux 2 is the one before.
# Source: https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html (2026-08)
_WITHOUT_AMAZON_LINUX_2 = (1, 33)
# Source: https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html (2026-08)
_ULTRASERVER_VERSION, _ULTRASERVER_RELEASE = (1, 33), "20251103"
_AL2023_RELEASE = regex(r"(\d+\.\d+)\.\d+-(\d{8})")
# nvidia/cuda:12.4.1-runtime, pytorch:2.4.0-cuda12.4-cudnn9, torch:2.3-cu121
_OF_NVIDIA = regex(r"(?:^|/)(?:nvidia/)?cuda(?:-[a-z0-9_]+)?:(\d{1,2})\.(\d{1,2})(?:\.\d+)?(?:-|$)")
_IN_TAG = regex(r"\bcuda-?(\d{1,2})\.(\d{1,2})")
_SHORT = regex(r"\bcu(\d{2})(\d)\b")
_DEFAULT_RUNTIME = regex(r"default_runtime_name\s*=\s*[\"']([\w.-]+)[\"']")
_NVIDIA_RUNTIME = regex(r"runtimes\.[\"']?nvidia[\"']?[\].]")
_CHARTS = (DEVICE_PLUGIN, DCGM_EXPORTER)
_WITHOUT_CLASS = "but the cluster has no such RuntimeClass, so the API server rejects its pods"
# The field of a node class that selects the image.
_TERMS = "spec.amiSelectorTerms"


@rule("GPU001", "error", source=_AMI_TYPES)
def image_without_nvidia_driver_on_gpu_instances(case: Case) -> Iterator[Problem]:
    """Node image has no NVIDIA driver.

    The node becomes Ready but never advertises nvidia.com/gpu, so its GPU pods stay Pending.

    Fix: Set AmiType to AL2023_x86_64_NVIDIA, AL2023_ARM_64_NVIDIA or BOTTLEROCKET_x86_64_NVIDIA.
    """
    # The operator installs a driver where the image has none.
    operator = operator_installs("driver", case.cluster)
    for pool in case.gpu_pools:
        if has_driver(pool) is Answer.NO and operator is not Answer.YES:
            types, selected = gpu_types(pool), plain_images(pool)
            own = "a custom image" if is_given(pool.launch.image) else "the default image"
            image = known_text(pool.properties.get("AmiType")) or own
            gets = (
                f"its EC2NodeClass selects image {', '.join(selected)}"
                if selected
                else f"nodes of type {', '.join(types)} start from {image}"
            )
            elsewhere = operator is Answer.UNKNOWN or bool(case.cluster.objects_of_kind("ClusterPolicy"))
            unknown = elsewhere or not surely_launches(pool, types)
            fix, of_class = _image_fix(pool, case.cluster), pool.node_class if selected else None
            problem = Problem.from_subject(pool, f"{gets}, which has no NVIDIA driver", fix=fix, unknown=unknown)
            yield problem.in_object(of_class, _TERMS)


def _image_fix(pool: Pool, cluster: Cluster) -> str:
    """Return how a pool gets an AL2023 image of EKS that fits its instance types."""
    if pool.kind == "karpenter":
        return _ALIAS
    if is_of_eksctl(pool):
        return "Set amiFamily: AmazonLinux2023 in the node group and remove ami. eksctl then selects the image."
    architectures = {each.architecture for each in _rows(pool)}
    arm = "arm64" in architectures if architectures else image_architecture(pool) == "arm64"
    has_gpus = architectures or (known_text(pool.properties.get("AmiType")) or "").endswith(("_GPU", "_NVIDIA"))
    variant = "nvidia" if has_gpus else "standard"
    if pool.kind == "managed":
        first = "Set" if pool.launch.image is None else "Remove ImageId from the launch template, and set"
        return f"{first} AmiType to AL2023_{'ARM' if arm else 'x86'}_64_{variant.upper()}."
    version = _version(cluster, pool) or "<version>"
    cpu = "arm64" if arm else "x86_64"
    path = f"/aws/service/eks/optimized-ami/{version}/amazon-linux-2023/{cpu}/{variant}/recommended/image_id"
    return f"Set ImageId of the launch template to the value of SSM parameter {path}."


@rule("GPU470", "error", source="https://github.com/bottlerocket-os/bottlerocket-kernel-kit/pull/321")
def nvidia_image_of_bottlerocket_without_a_gpu(case: Case) -> Iterator[Problem]:
    """Bottlerocket image with NVIDIA driver is used on instances without NVIDIA GPU.

    Loading the driver fails, and the boot stops before kubelet starts. The node never joins the cluster.

    Fix: Use the Bottlerocket image without NVIDIA's driver for these nodes, for example AmiType BOTTLEROCKET_x86_64.
    """
    for pool in case.cluster.pools:
        answer = nodes_never_join(pool)
        if answer is not Answer.NO:
            types = ", ".join(types_without_gpus(pool)) or "no allowed instance type"
            has = "has no NVIDIA GPU" if pool.is_group else "has an NVIDIA GPU"
            text = f"{types} {has}, but the image loads NVIDIA's driver at boot, so nodes never join"
            yield Problem.from_subject(pool, text, fix=_plain_fix(pool), unknown=answer is Answer.UNKNOWN)


def _plain_fix(pool: Pool) -> str:
    """Return how instances without GPUs get a Bottlerocket image without the driver."""
    if pool.kind == "karpenter":
        return "Set spec.amiSelectorTerms of the EC2NodeClass to an alias, such as [{alias: bottlerocket@v1.68.0}]."
    if gpu_types(pool):
        return "Create one node group for the types with NVIDIA GPUs, and another one for the types without."
    named = known_text(pool.properties.get("AmiType")) or ""
    by_id = "Use the image of the SSM parameter for Bottlerocket without -nvidia in its path."
    return f"Set AmiType to {named.replace('_NVIDIA', '')}." if "_NVIDIA" in named else by_id


@rule("GPU002", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html")
def image_for_another_cpu_architecture(case: Case) -> Iterator[Problem]:
    """Node image is built for another CPU architecture than the instance type.

    EKS rejects the node group, or the instance doesn't boot.

    Fix: Create one pool for the x86_64 types and another one for the arm64 types, each with its own image.
    """
    for pool in case.gpu_groups:
        image = image_architecture(pool)
        wrong = [each.name for each in _rows(pool) if image and each.architecture != image]
        if wrong:
            other = "arm64" if image == "x86_64" else "x86_64"
            text = f"the node image is for {image}, but the CPU of {', '.join(wrong)} is {other}"
            fix = f"Use an image for {other}, or instance types with {image} CPUs."
            if "AmiType" in pool.properties and len(wrong) == len(_rows(pool)):
                old, new = ("x86_64", "ARM_64") if other == "arm64" else ("ARM_64", "x86_64")
                ami_type = known_text(pool.properties["AmiType"]) or ""
                # AL2 has no type for GPUs of arm64.
                can_change = old in ami_type and not ami_type.startswith("AL2_")
                fix = f"Set AmiType to {ami_type.replace(old, new)}." if can_change else fix
            yield Problem.from_subject(pool, text, fix=fix, unknown=not surely_launches(pool, wrong))
        elif image is None and not pool.undecided and len({each.architecture for each in _rows(pool)}) > 1:
            types = ", ".join(f"{each.name} ({each.architecture})" for each in _rows(pool))
            yield Problem.from_subject(pool, f"one node image can't run on both CPU architectures of {types}")


def _rows(pool: Pool) -> list[InstanceType]:
    return [catalogue()[name] for name in gpu_types(pool)]


@rule("GPU003", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html")
def amazon_linux_2_image_for_a_kubernetes_version_that_has_none(case: Case) -> Iterator[Problem]:
    """Amazon Linux 2 has no image for this Kubernetes version.

    AWS published the last Amazon Linux 2 image on 2025-11-26, for Kubernetes 1.32. EKS finds no image and creates no
    node.

    Fix: Set AmiType to AL2023_x86_64_NVIDIA for GPU nodes, or to AL2023_x86_64_STANDARD for other nodes.
    """
    cluster = case.cluster
    for pool in cluster.pools:
        version = _version(cluster, pool)
        if _is_published_amazon_linux_2(pool) and (version is None or minor(version) >= _WITHOUT_AMAZON_LINUX_2):
            runs = f"Kubernetes {version}" if version else "Kubernetes 1.33 and later"
            message = f"its nodes need an Amazon Linux 2 image, but AWS published none for {runs}"
            field = "AmiType" if "AmiType" in pool.properties else ""
            fix = _image_fix(pool, cluster)
            problem = Problem.from_subject(pool, message, fix=fix, unknown=version is None, field=field)
            yield problem.in_object(pool.node_class, _TERMS)


def _version(cluster: Cluster, pool: Pool) -> str | None:
    return known_text(pool.properties.get("Version")) or cluster.version


def _is_published_amazon_linux_2(pool: Pool) -> bool:
    if pool.kind == "karpenter":
        return (ami_alias(pool) or "").lower().startswith("al2@")
    named = (known_text(pool.properties.get("AmiType")) or "").startswith("AL2_")
    return named or (pool.operating_system == "al2" and "/optimized-ami/" in str(pool_image(pool)))


@rule("GPU006", "error", source="awslabs/amazon-eks-ami 46d3c70a templates/al2023/runtime/gpu/resolve-nvidia-driver.sh")
def image_whose_nvidia_driver_is_too_old_for_the_gpu(case: Case) -> Iterator[Problem]:
    """Node image's NVIDIA driver doesn't support the GPU.

    The node becomes Ready, but the driver doesn't find the GPU, so no component advertises it.

    Fix: Use AL2023 release v20260917 or later, which contains driver branches 580 and 595.
    """
    for pool in case.gpu_pools:
        if not _is_of_eks(pool):
            continue
        carried = pool_driver_branches(pool, case.cluster.version)
        # If no source states the branches, the image may contain only the older one.
        branches = (LTS,) if carried is None else carried
        loads = f"its node image loads {' or '.join(map(str, branches))}"
        stated = "no source states whether its node image contains it" if carried is None else loads
        undriven = [each for each in _rows(pool) if not each.supports_driver(branches)]
        needed = {each.name: _required_driver(each) for each in undriven}
        # Karpenter may choose another type for a pod.
        some = len(undriven) < len(gpu_types(pool)) if not pool.is_group else not surely_launches(pool, needed)
        for driver in dict.fromkeys(needed.values()):
            names = ", ".join(name for name, its in needed.items() if its == driver)
            text = f"NVIDIA driver {driver} is required for {names}, but {stated}"
            fix = _both_branches_fix(pool, stated=carried is not None)
            yield Problem.from_subject(pool, text, fix=fix, unknown=some or carried is None)


def _both_branches_fix(pool: Pool, *, stated: bool) -> str:
    """Return how Bottlerocket loads the other branch; empty for AL2023, whose release is the rule's fix."""
    if pool.operating_system != "bottlerocket":
        return ""
    if dig(pool.user_data.settings, "kernel", "drivers", "nvidia", "branch") is not None:
        return "Remove branch from settings.kernel.drivers.nvidia in the user data, so Bottlerocket selects it by GPU."
    if stated:
        return "Use Bottlerocket 1.68.0 or later, most variants of which contain driver branches 580 and 595."
    return "Use Bottlerocket 1.66.0 or later for Kubernetes 1.37, or an AL2023 image of release v20260917 or later."


def _required_driver(row: InstanceType) -> str:
    return f"{row.driver_max} or older" if row.driver_max is not None else str(row.driver_min)


def _is_of_eks(pool: Pool) -> bool:
    """Whether a pool boots an EKS image for all NVIDIA types; other EKS images name one driver branch."""
    current = pool.kind != "auto-mode" and pool.operating_system in ("al2023", "bottlerocket")
    return current and has_driver(pool) is Answer.YES and not re.search(r"nvidia-\d{3}", str(pool_image(pool)))


@rule("GPU270", "warning", source="https://github.com/awslabs/amazon-eks-ami/releases/tag/v20261012")
def image_release_with_a_known_fault(case: Case) -> Iterator[Problem]:
    """Node image release has a known fault.

    A later release fixes the fault. Nodes that boot this release have it.

    Fix: Use a later release: remove ReleaseVersion from the node group, or change the alias in the EC2NodeClass.
    """
    gpu_pools = {id(each) for each in case.gpu_pools}
    for pool in case.cluster.pools:
        for each in _faults(pool, case.cluster.version):
            if not each.gpu_only or id(pool) in gpu_pools:
                text = f"node image release {ami_release(pool)} has a fault: {each.what}; {_describe_fix(each)}"
                some = bool(each.kubernetes) and image_version(pool, case.cluster.version) is None
                newest = "Remove ReleaseVersion, so EKS uses the newest release."
                fix = _ALIAS if pool.kind == "karpenter" else newest if "ReleaseVersion" in pool.properties else ""
                yield Problem.from_subject(pool, text, fix=fix, unknown=some).in_object(pool.node_class, _TERMS)


def _describe_fix(fault: Fault) -> str:
    better = "" if fault.mended == NEWEST_WITHOUT_FAULT else f", and {NEWEST_WITHOUT_FAULT} has no known fault"
    return f"release {fault.mended} fixes it{better}"


def _faults(pool: Pool, cluster_version: str | None) -> Iterator[Fault]:
    release, version = ami_release(pool), image_version(pool, cluster_version)
    found = (each for each in FAULTS if pool.operating_system == "al2023")
    return (each for each in found if each.affects(release, version))


@rule("GPU007", "warning", source="awslabs/amazon-eks-ami v20260724 doc/usage/g7-ami.md")
def custom_image_for_a_gpu_that_newer_nvidia_drivers_dropped(case: Case) -> Iterator[Problem]:
    """Custom node image may lack the older NVIDIA driver that the GPU needs.

    With a newer driver branch, or without the GRID modules that g6f and gr6f need, the node has no GPU.

    Fix: Use the image that EKS publishes, or build your image with this driver branch.
    """
    for pool in case.gpu_groups:
        ageing = [each for each in _rows(pool) if each.driver_max is not None]
        if ageing and pool_image(pool) is not None and has_driver(pool) is Answer.UNKNOWN:
            names = ", ".join(each.name for each in ageing)
            last = min(each.driver_max or 0 for each in ageing)
            grid = " with its GRID modules" if any(each.ec2_gpus == 0 for each in ageing) else ""
            message = (
                f"NVIDIA driver {last} or older{grid} is required for {names}, and the driver of the custom image "
                "isn't known"
            )
            yield Problem.from_subject(pool, message, unknown=True)


@rule("GPU008", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html")
def image_release_of_another_kubernetes_version(case: Case) -> Iterator[Problem]:
    """Node image release belongs to another Kubernetes version.

    An AL2023 release belongs to one Kubernetes minor version. EKS rejects it for other versions.

    Fix: Change ReleaseVersion and Version together, or remove ReleaseVersion.
    """
    cluster = case.cluster
    for pool in cluster.pools:
        release, version = _release(pool), pool.properties.get("Version")
        runs = known_text(version) if version is not None else cluster.version if cluster.whole else None
        if release and runs and release[0] != runs:
            named = pool.properties["ReleaseVersion"]
            text = f"node image release {named} is for Kubernetes {release[0]}, but the group has Kubernetes {runs}"
            fix = f"Remove ReleaseVersion, or set it to a release of Kubernetes {runs}."
            yield Problem.from_subject(pool, text, fix=fix)


@rule("GPU503", "error", source="https://github.com/awslabs/amazon-eks-ami/blob/main/CHANGELOG.md")
def image_release_that_was_never_published(case: Case) -> Iterator[Problem]:
    """AWS never published this node image release.

    Karpenter finds no image for the alias, or EKS rejects the node group, so no node is created.

    Fix: Remove ReleaseVersion, or use a release from the changelog of awslabs/amazon-eks-ami.
    """
    for pool in case.cluster.pools:
        date = release_date(ami_release(pool)) if pool.operating_system == "al2023" else None
        with_driver = bool(gpu_types(pool)) and has_driver(pool) is Answer.YES
        first = AL2023_FIRST_WITH_NVIDIA if with_driver else AL2023_FIRST
        if date is not None and date < first:
            variant = "with an NVIDIA driver " if with_driver else ""
            text = (
                f"node image release {ami_release(pool)} doesn't exist: the first AL2023 release {variant}is v{first}"
            )
            fix = _ALIAS if pool.kind == "karpenter" else ""
            yield Problem.from_subject(pool, text, fix=fix).in_object(pool.node_class, _TERMS)


def _release(pool: Pool) -> tuple[str, str] | None:
    """Return the minor version and date of a group's release; Bottlerocket releases have neither."""
    text = known_text(pool.properties.get("ReleaseVersion")) if pool.kind == "managed" else None
    found = _AL2023_RELEASE.fullmatch(text or "")
    return (found.group(1), found.group(2)) if found and pool.operating_system in ("al2023", "al2") else None


@rule("GPU009", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html")
def image_or_kubernetes_version_without_ultraservers(case: Case) -> Iterator[Problem]:
    """Node image or Kubernetes version doesn't support UltraServers.

    Only newer AL2023 images for ARM start GB200 nodes, on Kubernetes 1.33 or newer.

    Fix: Set AmiType to AL2023_ARM_64_NVIDIA with Kubernetes 1.33 or newer, and remove ReleaseVersion.
    """
    for pool in case.gpu_groups:
        for name in [each.name for each in _rows(pool) if each.ultraserver_only]:
            for why in _unfit_for_ultraserver(pool, _version(case.cluster, pool)):
                yield Problem.from_subject(pool, f"{name} {why}")


def _unfit_for_ultraserver(pool: Pool, version: str | None) -> Iterator[str]:
    if pool.operating_system == "bottlerocket":
        yield "doesn't run Bottlerocket, which the pool uses"
    if version is not None and minor(version) < _ULTRASERVER_VERSION:
        yield f"needs Kubernetes 1.33 or newer, but the nodes run {version}"
    release = _release(pool)
    if release and release[1] < _ULTRASERVER_RELEASE:
        release_version = pool.properties["ReleaseVersion"]
        yield f"needs a node image from {_ULTRASERVER_RELEASE} or later, but release {release_version} is older"


@rule("GPU367", "warning", source="https://docs.nvidia.com/deploy/cuda-compatibility/")
def image_with_a_cuda_that_its_nodes_do_not_run(case: Case) -> Iterator[Problem]:
    """Container's CUDA version is incompatible with the node's driver or GPU.

    A CUDA version that is older than the GPU has no code for it. A driver rejects a CUDA version that is newer than the
    driver, unless the image contains code or libraries for this case.

    Fix: Use an image with a CUDA version that both the GPU and the node's driver support.
    """
    for workload in case.gpu_workloads:
        pools = case.candidate_pools(workload)
        for container in workload.containers:
            release = _cuda_release(container.image_text)
            whys = [_why(release, pool, case.cluster) for pool in pools] if release else []
            if whys and all(whys):
                text = f"container {container.name} uses CUDA {release[0]}.{release[1]}" if release else ""
                yield Problem.from_subject(workload, f"{text}, but {whys[0]}", unknown=True)


def _cuda_release(image: str) -> Release | None:
    """Return the CUDA version in the name of an image, if any."""
    tag = image.rpartition("/")[2].partition(":")[2]
    found = _OF_NVIDIA.search(image) or _IN_TAG.search(tag) or _SHORT.search(tag)
    return (int(found[1]), int(found[2])) if found else None


def _why(release: Release | None, pool: Pool, cluster: Cluster) -> str:
    """Return why no instance type of a pool runs a CUDA release; empty if one may."""
    if release is None:
        return ""
    families = sorted({catalogue()[each].family for each in gpu_types(pool)})
    first = [FIRST_FOR_FAMILY.get(each, (0, 0)) for each in families]
    last = [LAST_MAJOR_FOR_FAMILY.get(each, NEWEST_MAJOR) for each in families]
    if first and all(release < each for each in first):
        least = min(first)
        return f"the GPUs of {', '.join(families)} need CUDA {least[0]}.{least[1]} or later"
    if last and all(release[0] > each for each in last) and max(last) < NEWEST_MAJOR:
        return f"CUDA {max(last)} is the last version that supports the GPUs of {', '.join(families)}"
    branches = pool_driver_branches(pool, cluster.version)
    if branches and families:
        needed = DRIVER_OF_MAJOR.get(release[0])
        if needed is None and release[0] > NEWEST_MAJOR:
            return f"driver {max(branches)} of pool {pool.name} supports CUDA up to {NEWEST_MAJOR}"
        if needed is not None and max(branches) < needed:
            return f"this needs NVIDIA driver {needed}, and pool {pool.name} has {max(branches)}"
    return ""


@rule(
    "GPU018", "warning", source="awslabs/amazon-eks-ami v20260724 nodeadm/internal/containerd/runtime_config_nvidia.go"
)
def runtime_of_containerd_changed_on_gpu_nodes(case: Case) -> Iterator[Problem]:
    """NodeConfig changes containerd's runtime on GPU nodes.

    EKS images make nvidia the default runtime. Without it, containers see neither GPUs nor driver libraries.

    Fix: Remove the runtimes from spec.containerd.config of the NodeConfig.
    """
    for pool in case.gpu_pools:
        written = known_text(dig(pool.user_data.node_config, "containerd", "config")) or ""
        default = _DEFAULT_RUNTIME.search(written)
        if default and default.group(1) != "nvidia":
            message = f"the NodeConfig sets containerd's default runtime to {default.group(1)} instead of nvidia"
            yield Problem.from_subject(pool, f"{message}, so containers have no GPUs")
        elif _NVIDIA_RUNTIME.search(written):
            message = (
                "the NodeConfig replaces the node image's containerd runtime nvidia, so containers may have no GPUs"
            )
            yield Problem.from_subject(pool, message)


@rule("GPU019", "error", source="https://kubernetes.io/docs/concepts/containers/runtime-class/")
def daemonset_with_a_runtimeclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """DaemonSet or chart uses a RuntimeClass that doesn't exist.

    The API server rejects its pods, so no node gets the device plugin or the exporter.

    Fix: Remove runtimeClassName (nvidia is the default runtime of EKS images), or create the RuntimeClass.
    """
    cluster = case.cluster
    if not cluster.shows_software or cluster.chart(GPU_OPERATOR):
        return
    known = {each.name for each in cluster.objects_of_kind("RuntimeClass")}
    for chart in cluster.charts:
        name = known_text(chart.values.get("runtimeClassName")) if chart.name in _CHARTS else None
        if name and name not in known:
            message = f"chart {chart.name}: runtimeClassName is {name}, {_WITHOUT_CLASS}"
            yield Problem(chart, message)
    for daemon in cluster.objects_of_kind("DaemonSet"):
        name = read_pod_template(daemon).runtime_class
        if name and name not in known:
            message = f"DaemonSet {daemon.name}: runtimeClassName is {name}, {_WITHOUT_CLASS}"
            yield Problem(daemon, message)

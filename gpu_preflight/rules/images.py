"""Images that do not fit the instance types, or that nobody publishes any more."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpu_facts.charts import DCGM_EXPORTER, DEVICE_PLUGIN, GPU_OPERATOR
from gpu_facts.hardware.catalogue import InstanceType, catalogue
from gpu_facts.hardware.cuda import DRIVER_OF_MAJOR, FIRST_FOR_FAMILY, LAST_MAJOR_FOR_FAMILY, NEWEST_MAJOR, Release
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
from gpu_preflight.cluster.pools import is_given
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import read_pod_template
from gpu_preflight.node.gpu_pools import nodes_never_join, types_without_gpus
from gpu_preflight.node.nodes import gpu_types, minor, surely_launches
from gpu_preflight.reading.unknown import dig, known_text
from gpu_preflight.rule import Problem, rule

_AMI_TYPES = "https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-optimized-ami.html"
_ALIAS = (
    f"Select the image by an alias, such as al2023@{NEWEST_WITHOUT_FAULT}, or name the parameter of the variant nvidia."
)
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


@rule("GPU001", "error", source=_AMI_TYPES)
def image_without_nvidia_driver_on_gpu_instances(case: Case) -> Iterator[Problem]:
    """Image without NVIDIA driver on GPU instances.

    The node becomes Ready, never advertises nvidia.com/gpu, and its GPU pods stay Pending.

    Fix: Set AmiType to AL2023_x86_64_NVIDIA, AL2023_ARM_64_NVIDIA or BOTTLEROCKET_x86_64_NVIDIA.
    """
    operator = case.cluster.chart(GPU_OPERATOR)
    for pool in case.gpu_pools:
        if has_driver(pool) is Answer.NO and operator is None:
            types, selected = gpu_types(pool), plain_images(pool)
            own = "an image of its own" if is_given(pool.launch.image) else "the default image"
            image = known_text(pool.properties.get("AmiType")) or own
            gets = f"its class selects {', '.join(selected)}" if selected else f"{', '.join(types)} gets {image}"
            # The operator installs a driver where the image has none.
            elsewhere = bool(case.cluster.objects_of_kind("ClusterPolicy"))
            unknown = elsewhere or not surely_launches(pool, types)
            yield Problem.from_subject(
                pool, f"{gets}, which has no NVIDIA driver", fix=_ALIAS if selected else "", unknown=unknown
            )


@rule("GPU470", "error", source="https://github.com/bottlerocket-os/bottlerocket-kernel-kit/pull/321")
def nvidia_image_of_bottlerocket_without_a_gpu(case: Case) -> Iterator[Problem]:
    """NVIDIA image of Bottlerocket on instances without NVIDIA GPUs.

    Loading the driver fails, and boot stops before kubelet starts: the node never joins the cluster.

    Fix: Use BOTTLEROCKET_x86_64 or BOTTLEROCKET_ARM_64 for them, or an alias in an EC2NodeClass.
    """
    for pool in case.cluster.pools:
        answer = nodes_never_join(pool)
        if answer is not Answer.NO:
            types = ", ".join(types_without_gpus(pool)) or "no instance type that it allows"
            has = "has no NVIDIA GPU" if pool.is_group else "has an NVIDIA GPU"
            text = f"{types} {has}, and the image loads NVIDIA's driver at boot, so nodes never join"
            yield Problem.from_subject(pool, text, unknown=answer is Answer.UNKNOWN)


@rule("GPU002", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html")
def image_for_another_cpu_architecture(case: Case) -> Iterator[Problem]:
    """Image for another CPU architecture.

    EKS refuses the node group, or the instance does not boot.

    Fix: Choose the image of the instance type's architecture, and make one pool per architecture.
    """
    for pool in case.gpu_groups:
        image = image_architecture(pool)
        wrong = [each.name for each in _rows(pool) if image and each.architecture != image]
        if wrong:
            text = f"the image is {image}, {', '.join(wrong)} is not"
            yield Problem.from_subject(pool, text, unknown=not surely_launches(pool, wrong))
        elif image is None and not pool.undecided and len({each.architecture for each in _rows(pool)}) > 1:
            types = ", ".join(f"{each.name} ({each.architecture})" for each in _rows(pool))
            yield Problem.from_subject(pool, f"one image cannot serve {types}")


def _rows(pool: Pool) -> list[InstanceType]:
    return [catalogue()[name] for name in gpu_types(pool)]


@rule("GPU003", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/eks-ami-deprecation-faqs.html")
def amazon_linux_2_image_for_a_kubernetes_version_that_has_none(case: Case) -> Iterator[Problem]:
    """Amazon Linux 2 image for a Kubernetes version that has none.

    AWS published the last one on 2025-11-26, for Kubernetes 1.32; EKS finds no image and makes no node.

    Fix: Set AmiType to AL2023_x86_64_NVIDIA or BOTTLEROCKET_x86_64_NVIDIA; CDK's Nodegroup defaults to AL2.
    """
    cluster = case.cluster
    for pool in cluster.pools:
        version = _version(cluster, pool)
        if _is_published_amazon_linux_2(pool) and (version is None or minor(version) >= _WITHOUT_AMAZON_LINUX_2):
            runs = f"Kubernetes {version}" if version else "Kubernetes from 1.33 on"
            message = f"AWS published no Amazon Linux 2 image for {runs}"
            field = "AmiType" if "AmiType" in pool.properties else ""
            yield Problem.from_subject(pool, message, unknown=version is None, field=field)


def _version(cluster: Cluster, pool: Pool) -> str | None:
    return known_text(pool.properties.get("Version")) or cluster.version


def _is_published_amazon_linux_2(pool: Pool) -> bool:
    if pool.kind == "karpenter":
        return (ami_alias(pool) or "").lower().startswith("al2@")
    named = (known_text(pool.properties.get("AmiType")) or "").startswith("AL2_")
    return named or (pool.operating_system == "al2" and "/optimized-ami/" in str(pool_image(pool)))


@rule("GPU006", "error", source="awslabs/amazon-eks-ami 46d3c70a templates/al2023/runtime/gpu/resolve-nvidia-driver.sh")
def image_whose_nvidia_driver_is_too_old_for_the_gpu(case: Case) -> Iterator[Problem]:
    """Image whose NVIDIA driver is too old for the GPU.

    The node becomes Ready, the driver does not find the GPU, and nothing advertises it.

    Fix: Take a newer release: AL2023 from v20260917 on and most of Bottlerocket 1.68 carry two driver branches.
    """
    for pool in case.gpu_pools:
        if not _is_of_eks(pool):
            continue
        carried = pool_driver_branches(pool, case.cluster.version)
        # What no source states may be the older branch alone.
        branches = (LTS,) if carried is None else carried
        loads = f"its image loads {' or '.join(map(str, branches))}"
        said = "no source states whether its image carries it" if carried is None else loads
        undriven = [each for each in _rows(pool) if not each.supports_driver(branches)]
        needed = {each.name: _required_driver(each) for each in undriven}
        # Karpenter may choose another type for a pod.
        some = len(undriven) < len(gpu_types(pool)) if not pool.is_group else not surely_launches(pool, needed)
        for driver in dict.fromkeys(needed.values()):
            names = ", ".join(name for name, its in needed.items() if its == driver)
            text = f"{names} needs NVIDIA driver {driver}, {said}"
            yield Problem.from_subject(pool, text, unknown=some or carried is None)


def _required_driver(row: InstanceType) -> str:
    return f"{row.driver_max} or older" if row.driver_max is not None else str(row.driver_min)


def _is_of_eks(pool: Pool) -> bool:
    """Whether a pool boots an image that EKS publishes for every NVIDIA type; others name a branch of their own."""
    current = pool.kind != "auto-mode" and pool.operating_system in ("al2023", "bottlerocket")
    return current and has_driver(pool) is Answer.YES and not re.search(r"nvidia-\d{3}", str(pool_image(pool)))


@rule("GPU270", "warning", source="https://github.com/awslabs/amazon-eks-ami/releases/tag/v20261012")
def image_release_with_a_known_fault(case: Case) -> Iterator[Problem]:
    """Image release with a known fault.

    A later release mended it; nodes that boot this one have it.

    Fix: Move to a later release, or leave the choice of the release to EKS.
    """
    gpu_pools = {id(each) for each in case.gpu_pools}
    for pool in case.cluster.pools:
        for each in _faults(pool, case.cluster.version):
            if not each.gpu_only or id(pool) in gpu_pools:
                text = f"release {ami_release(pool)}: {each.what}; {_describe_fix(each)}"
                some = bool(each.kubernetes) and image_version(pool, case.cluster.version) is None
                yield Problem.from_subject(pool, text, unknown=some)


def _describe_fix(fault: Fault) -> str:
    better = "" if fault.mended == NEWEST_WITHOUT_FAULT else f", of {NEWEST_WITHOUT_FAULT} no fault is known"
    return f"{fault.mended} mended it{better}"


def _faults(pool: Pool, cluster_version: str | None) -> Iterator[Fault]:
    release, version = ami_release(pool), image_version(pool, cluster_version)
    found = (each for each in FAULTS if pool.operating_system == "al2023")
    return (each for each in found if each.affects(release, version))


@rule("GPU007", "warning", source="awslabs/amazon-eks-ami v20260724 doc/usage/g7-ami.md")
def custom_image_for_a_gpu_that_newer_nvidia_drivers_dropped(case: Case) -> Iterator[Problem]:
    """Custom image for a GPU that newer NVIDIA drivers dropped.

    With a newer driver branch, or without the GRID modules that g6f and gr6f need, the node has no GPU.

    Fix: Use the image that EKS publishes, or build yours with that driver branch.
    """
    for pool in case.gpu_groups:
        ageing = [each for each in _rows(pool) if each.driver_max is not None]
        if ageing and pool_image(pool) is not None and has_driver(pool) is Answer.UNKNOWN:
            names = ", ".join(each.name for each in ageing)
            last = min(each.driver_max or 0 for each in ageing)
            grid = " with its GRID modules" if any(each.ec2_gpus == 0 for each in ageing) else ""
            message = f"{names} needs NVIDIA driver {last} or older{grid}; the image does not say"
            yield Problem.from_subject(pool, message, unknown=True)


@rule("GPU008", "error", source="https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html")
def image_release_of_another_kubernetes_version(case: Case) -> Iterator[Problem]:
    """Image release of another Kubernetes version.

    A release of AL2023 belongs to one Kubernetes minor version; EKS refuses it for another.

    Fix: Move ReleaseVersion and Version together, or leave ReleaseVersion out.
    """
    cluster = case.cluster
    for pool in cluster.pools:
        release, version = _release(pool), pool.properties.get("Version")
        runs = known_text(version) if version is not None else cluster.version if cluster.whole else None
        if release and runs and release[0] != runs:
            named = pool.properties["ReleaseVersion"]
            yield Problem.from_subject(pool, f"release {named} is not one for Kubernetes {runs}")


@rule("GPU503", "error", source="https://github.com/awslabs/amazon-eks-ami/blob/main/CHANGELOG.md")
def image_release_that_was_never_published(case: Case) -> Iterator[Problem]:
    """Image release that AWS never published.

    Karpenter finds no image for the alias, or EKS rejects the group: no node is made.

    Fix: Name a release of the changelog of awslabs/amazon-eks-ami, or leave ReleaseVersion out.
    """
    for pool in case.cluster.pools:
        date = release_date(ami_release(pool)) if pool.operating_system == "al2023" else None
        with_driver = bool(gpu_types(pool)) and has_driver(pool) is Answer.YES
        first = AL2023_FIRST_WITH_NVIDIA if with_driver else AL2023_FIRST
        if date is not None and date < first:
            variant = "with NVIDIA's driver " if with_driver else ""
            yield Problem.from_subject(pool, f"release {ami_release(pool)}: the first of AL2023 {variant}is v{first}")


def _release(pool: Pool) -> tuple[str, str] | None:
    """Return minor version and date of a group's release; those of Bottlerocket have neither."""
    text = known_text(pool.properties.get("ReleaseVersion")) if pool.kind == "managed" else None
    found = _AL2023_RELEASE.fullmatch(text or "")
    return (found.group(1), found.group(2)) if found and pool.operating_system in ("al2023", "al2") else None


@rule("GPU009", "error", source="https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html")
def image_or_kubernetes_version_without_ultraservers(case: Case) -> Iterator[Problem]:
    """Image or Kubernetes version without UltraServers.

    Only newer AL2023 images for ARM start GB200 nodes, on Kubernetes 1.33 or newer.

    Fix: Set AmiType to AL2023_ARM_64_NVIDIA with Kubernetes 1.33 or newer, and leave ReleaseVersion to EKS.
    """
    for pool in case.gpu_groups:
        for name in [each.name for each in _rows(pool) if each.ultraserver_only]:
            for why in _unfit_for_ultraserver(pool, _version(case.cluster, pool)):
                yield Problem.from_subject(pool, f"{name} {why}")


def _unfit_for_ultraserver(pool: Pool, version: str | None) -> Iterator[str]:
    if pool.operating_system == "bottlerocket":
        yield "has no Bottlerocket image"
    if version is not None and minor(version) < _ULTRASERVER_VERSION:
        yield f"needs Kubernetes 1.33, the nodes get {version}"
    release = _release(pool)
    if release and release[1] < _ULTRASERVER_RELEASE:
        yield f"needs an image from {_ULTRASERVER_RELEASE} on, release {pool.properties['ReleaseVersion']} is older"


@rule("GPU367", "warning", source="https://docs.nvidia.com/deploy/cuda-compatibility/")
def image_with_a_cuda_that_its_nodes_do_not_run(case: Case) -> Iterator[Problem]:
    """Image with a CUDA that its nodes do not run.

    A CUDA older than the GPU has no code for it, and one newer than the driver is refused by it, unless the image
    brings code or libraries for that.

    Fix: Take an image of a CUDA between the two.
    """
    for workload in case.gpu_workloads:
        pools = case.candidate_pools(workload)
        for container in workload.containers:
            release = _cuda_release(container.image_text)
            whys = [_why(release, pool, case.cluster) for pool in pools] if release else []
            if whys and all(whys):
                text = f"container {container.name} has CUDA {release[0]}.{release[1]}" if release else ""
                yield Problem.from_subject(workload, f"{text}; {whys[0]}", unknown=True)


def _cuda_release(image: str) -> Release | None:
    """Return the CUDA that the name of an image tells, if any."""
    tag = image.rpartition("/")[2].partition(":")[2]
    found = _OF_NVIDIA.search(image) or _IN_TAG.search(tag) or _SHORT.search(tag)
    return (int(found[1]), int(found[2])) if found else None


def _why(release: Release | None, pool: Pool, cluster: Cluster) -> str:
    """Return why no type of a pool runs a release, nothing where one may."""
    if release is None:
        return ""
    families = sorted({catalogue()[each].family for each in gpu_types(pool)})
    first = [FIRST_FOR_FAMILY.get(each, (0, 0)) for each in families]
    last = [LAST_MAJOR_FOR_FAMILY.get(each, NEWEST_MAJOR) for each in families]
    if first and all(release < each for each in first):
        least = min(first)
        return f"the GPUs of {', '.join(families)} are known from CUDA {least[0]}.{least[1]} on"
    if last and all(release[0] > each for each in last) and max(last) < NEWEST_MAJOR:
        return f"CUDA {max(last)} is the last for the GPUs of {', '.join(families)}"
    branches = pool_driver_branches(pool, cluster.version)
    if branches and families:
        needed = DRIVER_OF_MAJOR.get(release[0])
        if needed is None and release[0] > NEWEST_MAJOR:
            return f"driver {max(branches)} of pool {pool.name} runs CUDA {NEWEST_MAJOR}"
        if needed is not None and max(branches) < needed:
            return f"it needs driver {needed}, pool {pool.name} has {max(branches)}"
    return ""


@rule(
    "GPU018", "warning", source="awslabs/amazon-eks-ami v20260724 nodeadm/internal/containerd/runtime_config_nvidia.go"
)
def runtime_of_containerd_changed_on_gpu_nodes(case: Case) -> Iterator[Problem]:
    """Runtime of containerd changed on GPU nodes.

    EKS images make nvidia the default runtime; without it containers see no GPU and no driver library.

    Fix: Leave the runtimes out of spec.containerd.config of the NodeConfig.
    """
    for pool in case.gpu_pools:
        written = known_text(dig(pool.user_data.node_config, "containerd", "config")) or ""
        default = _DEFAULT_RUNTIME.search(written)
        if default and default.group(1) != "nvidia":
            message = f"containerd is told to use {default.group(1)} instead of nvidia"
            yield Problem.from_subject(pool, message)
        elif _NVIDIA_RUNTIME.search(written):
            yield Problem.from_subject(pool, "containerd is told another runtime nvidia than the image's")


@rule("GPU019", "error", source="https://kubernetes.io/docs/concepts/containers/runtime-class/")
def daemonset_with_a_runtimeclass_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """RuntimeClass of a DaemonSet that does not exist.

    The API server refuses its pods, so no node gets the device plugin or the exporter.

    Fix: Leave runtimeClassName out, nvidia is the default runtime of EKS images, or create the RuntimeClass.
    """
    cluster = case.cluster
    if not cluster.shows_software or cluster.chart(GPU_OPERATOR):
        return
    known = {each.name for each in cluster.objects_of_kind("RuntimeClass")}
    for chart in cluster.charts:
        name = known_text(chart.values.get("runtimeClassName")) if chart.name in _CHARTS else None
        if name and name not in known:
            message = f"chart {chart.name}: runtimeClassName {name} is no RuntimeClass of the cluster"
            yield Problem(chart, message)
    for daemon in cluster.objects_of_kind("DaemonSet"):
        name = read_pod_template(daemon).runtime_class
        if name and name not in known:
            message = f"DaemonSet {daemon.name}: runtimeClassName {name} is no RuntimeClass of the cluster"
            yield Problem(daemon, message)

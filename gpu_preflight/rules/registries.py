"""Rules for registries of images and charts that nodes or a deployment can't connect to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from gpu_facts.charts import NVIDIA_CHARTS, NVIDIA_REGISTRY, PUBLIC_REGISTRIES, is_public
from gpu_facts.light import regex
from gpu_facts.versions import pinned_charts
from gpu_preflight.case import Case
from gpu_preflight.cluster.iam import custom_resource_functions
from gpu_preflight.cluster.network import Way, is_isolated, pool_region, way_out
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Pod
from gpu_preflight.node.autoscaler_view import option
from gpu_preflight.reading.objects import Chart
from gpu_preflight.reading.unknown import dig, is_true, items, known_text
from gpu_preflight.rule import Problem, rule

_PRIVATE = "https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html"
_CHINA = (
    "https://aws.amazon.com/cn/blogs/china/convenient-and-safe-use-of-overseas-public-container-images-in-aws-china/"
)
# Source, read 2026-11:
# https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-cross-region-privatelink-support.html
_ECR = regex(r"\d{12}\.dkr\.ecr(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?/")
_ECR_ENDPOINT = regex(r"(?:cn\.)?com\.amazonaws\.([a-z0-9-]+)\.ecr\.dkr")
_DOCKER_HUB = "docker.io"
# Why public registries are far from some regions, by the prefix of the region's name.
# Sources: the one of GPU296; https://github.com/aws/containers-roadmap/issues/2458 (2026-11)
_FAR = {
    "cn-": "registries outside China respond slowly or not at all from there",
    "us-gov-": "these registries are outside GovCloud, where ECR has no pull-through cache",
}
# ECR has no pull-through cache for nvcr.io, and the first pull through a cache needs a route to the internet.
# Sources: https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache.html, vpc-endpoints.html (2026-11)
_PUSH = "Push a copy of {} to ECR in the cluster's region, for example with 'crane copy'"
_HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"
_HOME = "HF_HOME"
# Options that set the model of vLLM, SGLang and text-generation-inference.
_BEFORE_A_MODEL = ("--model", "--model-path", "--model-id", "serve")
_REPOSITORY = regex(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# If one of these is set, the files come from another source, or through a proxy.
_ELSEWHERE = ("HF_ENDPOINT", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "VLLM_USE_MODELSCOPE", "SGLANG_USE_MODELSCOPE")


@rule("GPU076", "error", source=_PRIVATE)
def image_that_isolated_nodes_cannot_pull(case: Case) -> Iterator[Problem]:
    """Isolated nodes can't pull an image.

    The pods stay in ImagePullBackOff. Without the device plugin, no GPU is advertised either.

    Fix: Push a copy of the image to an ECR repository in the cluster's region, for example with 'crane copy', and set
    that image in the pod.
    """
    cluster = case.cluster
    groups = [each for each in case.gpu_groups if is_isolated(each, cluster.resources)]
    isolated = [each for each in groups if not _is_mirrored(each) or _pulls_by_soci(each)]
    if not isolated or len(isolated) != len(case.gpu_pools):
        return
    unknown = any(map(_is_mirrored, isolated))
    names = ", ".join(each.name for each in isolated)
    tail = f"nodes of pool {names} have no route out and can pull only from ECR, through VPC endpoints"
    near = _regions_of_endpoints(cluster)
    for workload in cluster.workloads:
        for image in sorted(_out_of_reach(workload.containers, near)) if workload.asks_for_gpu else ():
            text = f"uses image {image}, but {tail}"
            fix = _copy_fix(image, near, workload.title)
            yield Problem.from_subject(workload, text, fix=fix, unknown=unknown)
    for daemon in cluster.daemon_sets:
        for image in sorted(_out_of_reach(daemon.pod.containers or (), near)):
            text = f"DaemonSet {daemon.name} uses image {image}, but {tail}"
            fix = _copy_fix(image, near, f"DaemonSet {daemon.name}")
            yield Problem(daemon, text, fix, unknown=unknown)
    for chart in cluster.charts:
        if chart.name in NVIDIA_CHARTS and dig(chart.values, *NVIDIA_CHARTS[chart.name]) is None:
            text = f"chart {chart.name} uses images of {NVIDIA_REGISTRY}, but {tail}"
            fix = f"{_PUSH.format('its images')}, and set these repositories in its values."
            yield Problem(chart, text, fix, unknown=unknown)


def _copy_fix(image: str, near: frozenset[str], where: str) -> str:
    """Return where to copy an image, and where to set its new name."""
    if not _ECR.match(image):
        return f"{_PUSH.format('the image')}, and set that image in {where}."
    return f"Replicate the repository to ECR in {' or '.join(sorted(near))}, and set the image there in {where}."


def _regions_of_endpoints(cluster: Cluster) -> frozenset[str]:
    """Return the regions that the VPC's ECR endpoints connect to; empty if they aren't known."""
    found: set[str] = set()
    for each in cluster.resources_of_type("AWS::EC2::VPCEndpoint"):
        service = _ECR_ENDPOINT.fullmatch(known_text(each.properties.get("ServiceName")) or "")
        other = each.properties.get("ServiceRegion")
        if not isinstance(each.properties.get("ServiceName"), str) or not (other is None or isinstance(other, str)):
            return frozenset()
        if service:
            found.add(other or service[1])
    return frozenset(found)


def _out_of_reach(containers: Iterable[Container], near: frozenset[str]) -> set[str]:
    """Return images of public registries, and images of ECR in regions without an endpoint."""
    every = tuple(containers)
    hosts = {each.image_text: _ECR.match(each.image_text) for each in every}
    return _foreign(every) | {image for image, host in hosts.items() if near and host and host[1] not in near}


def _foreign(containers: Iterable[Container]) -> set[str]:
    images = {each.image_text for each in containers}
    return {each for each in images if each and is_public(each)}


def _is_mirrored(pool: Pool) -> bool:
    text = pool.user_data.text or ""
    return pool.user_data.format == "unknown" or any(each in text for each in ("mirrors", "certs.d", "hosts.toml"))


def _pulls_by_soci(pool: Pool) -> bool:
    """Whether soci pulls images in parallel, which isn't known to support mirrors of containerd.

    Sources: https://github.com/awslabs/soci-snapshotter/issues/1561, .../pull/2083 (closed 2026-09)
    """
    by_setting = dig(pool.user_data.settings, "container-runtime", "snapshotter") == "soci"
    return by_setting or pool.user_data.has_feature_gate("FastImagePull")


@rule("GPU296", "note", source=_CHINA)
def registry_outside_china_or_govcloud(case: Case) -> Iterator[Problem]:
    """Registry is outside China or GovCloud.

    Images are pulled late or never (ImagePullBackOff), and a deployment that waits for a chart fails.

    Fix: Copy images and charts to ECR of the partition; with this library: values= and gpu-constructs:chartMirror.
    """
    for pool in case.gpu_pools:
        region = pool_region(pool, case.cluster) or ""
        why = next((each for begins, each in _FAR.items() if region.startswith(begins)), None)
        if why is not None:
            hosts = {*_hosts_of_charts(case.cluster), *(() if _is_mirrored(pool) else _hosts_of_images(case.cluster))}
            if hosts:
                yield Problem.from_subject(
                    pool, f"it is in {region}, but its cluster pulls from {', '.join(sorted(hosts))}; {why}"
                )
            return


def _hosts_of_images(cluster: Cluster) -> Iterator[str]:
    containers = [each for workload in cluster.workloads for each in workload.containers]
    containers += [each for daemon in cluster.daemon_sets for each in daemon.pod.containers or ()]
    for image in _foreign(containers):
        host, slash, _ = image.partition("/")
        yield host if slash and "." in host else _DOCKER_HUB


def _hosts_of_charts(cluster: Cluster) -> Iterator[str]:
    for chart in cluster.charts:
        if (host := _public_host(chart)) is not None:
            yield host


def _public_host(chart: Chart) -> str | None:
    """Return the public registry or index that a chart is fetched from; ``None`` for other locations."""
    public = {*PUBLIC_REGISTRIES, *(urlsplit(each.repository).hostname for each in pinned_charts())}
    host = urlsplit(known_text(chart.properties.get("Repository")) or "").hostname
    return host if host in public else None


@rule("GPU455", "error", source=_PRIVATE)
def chart_that_an_isolated_function_cannot_fetch(case: Case) -> Iterator[Problem]:
    """Function without internet access can't fetch a chart.

    Helm runs in the function that applies manifests. Without a way out it waits, and the deployment fails.

    Fix: Copy the chart to ECR ('gpu-constructs images' lists charts), and set gpu-constructs:chartMirror.
    """
    isolated = is_true(option(case.cluster, "isolatedVPC"))
    for chart in case.cluster.charts:
        host = _public_host(chart)
        ways = _ways_to_fetch(chart, case.cluster) if host is not None else set()
        who = f"chart {chart.name}: the function that fetches it from {host} is in subnets "
        if ways == {"nowhere"}:
            yield Problem(chart, f"{who}without a route out")
        elif isolated and ways == {"unknown"}:
            yield Problem(chart, f"{who}that may be isolated, because Karpenter's isolatedVPC is true", unknown=True)


def _ways_to_fetch(chart: Chart, cluster: Cluster) -> set[Way]:
    """Return how traffic leaves the subnets of the Helm function; empty if the function uses a proxy."""
    resources = cluster.resources
    called = custom_resource_functions(chart.properties.get("ServiceToken"), resources)
    for each in called:
        variables = dig(each.properties, "Environment", "Variables") or {}
        if not isinstance(variables, dict) or any(str(name).upper().endswith("PROXY") for name in variables):
            return set()
    subnets = items(dig(called[-1].properties, "VpcConfig", "SubnetIds")) if called else []
    return {way_out(each, resources) for each in subnets}


@rule("GPU457", "error", source=_HUB)
def model_that_isolated_nodes_cannot_download(case: Case) -> Iterator[Problem]:
    """Isolated nodes can't download the model.

    The server waits for the Hugging Face hub, fails and starts again. No pod ever becomes ready.

    Fix: Copy the model into a bucket in the region and load it from there; with this library: CopiedModel or
    StreamedModel.
    """
    pools, cluster = case.gpu_pools, case.cluster
    if not pools or not all(is_isolated(each, cluster.resources) for each in pools):
        return
    names = ", ".join(each.name for each in pools)
    for workload in cluster.workloads:
        for repo in _downloads(workload.pod) if workload.asks_for_gpu else ():
            yield Problem.from_subject(
                workload, f"downloads {repo} from the Hugging Face hub, but subnets of pool {names} have no route out"
            )


def _downloads(pod: Pod) -> list[str]:
    """Return the repositories that its containers certainly download from the hub."""
    if pod.written.get("hostAliases") or any(each.has_env_from for each in pod.every_container):
        return []
    found = (
        _repository(each) for each in pod.containers or () if _starts_empty(each, pod) and not _is_redirected(each)
    )
    return [each for each in found if each is not None]


def _repository(container: Container) -> str | None:
    words = [part for each in container.words for part in (known_text(each) or "").split("=", 1)]
    named = (after for before, after in pairwise(words) if before in _BEFORE_A_MODEL)
    return next((each for each in named if _REPOSITORY.fullmatch(each)), None)


def _starts_empty(container: Container, pod: Pod) -> bool:
    """Whether the cache of the hub's library is in a volume that no other container fills."""
    home = PurePosixPath(known_text(container.env.get(_HOME)) or "/")
    above = [path for path in container.mounts if path != "/" and home.is_relative_to(path)]
    name = container.mounts[max(above, key=len)] if above else None
    sharers = [each for each in pod.every_container if name in each.mounts.values()]
    fresh = any(each.name == name and each.size_limit is not None and not each.is_claimed for each in pod.volumes)
    return fresh and len(sharers) == 1


def _is_redirected(container: Container) -> bool:
    """Whether a container sets another hub, a proxy, or offline mode."""
    return any(name in _ELSEWHERE or name.upper().endswith("_PROXY") for name in container.env)

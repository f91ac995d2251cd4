"""A model for a pod: from a hub, a bucket, an image or a mounted volume."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from aws_cdk import aws_s3 as s3

from gpu_constructs.identity.workload_identity import WorkloadIdentity
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.storage.s3_mount import S3Mount, resolve_bucket_region
from gpu_constructs.storage.s3_volume import S3Volume
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.init_container import EnvValue, InitContainer, SecretKey
from gpu_constructs.workloads.model_files import (
    PATH,
    Brought,
    Place,
    extend_pod,
    refuse_unless_source,
    resolve_identity,
    resolve_reader_identity,
    scratch,
    uri,
)
from gpu_constructs.workloads.mounts import ImageMount, ScratchMount, VolumeClaimMount, refuse_unless_mount_path
from gpu_constructs.workloads.names import unique_name
from gpu_facts.kubernetes import refuse_unless_dotted_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import GIB
from gpu_facts.refusals import refuse_unless_image, refuse_unless_whole_number, suggest_attribute
from gpu_facts.versions import AWS_CLI, WITH_IMAGE_VOLUMES

# Nobody's user, where the pod names none: what is copied is everybody's to read.
_NOBODY = 65534
# Source: https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/utils/_validators.py (2026-11)
_REPO = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedModel:
    """A model in S3 that an init container copies to the node's disk before the server starts.

    It suits every server, and is copied for each pod anew; what a copy that was broken off left is not copied again.
    The GPUs wait meanwhile. The pod asks for ``size_gib`` and a tenth more as scratch.

    Attributes:
        bucket: The bucket; a key of yours that encrypts it may be used, too, where the CDK knows it.
        size_gib: What the objects take, in GiB.
        prefix: What the names of the objects begin with, up to a ``/``. Default: all of the bucket.
        path: Where the files appear, absolute.
        identity: Who reads, which must be of the pod's namespace and service account. Default: made for the pod.
        region: Region of the bucket. Default: what the bucket knows, which of an imported one may be the stack's.
        image: Image that copies, with ``aws`` of version 2.15 or newer as its entrypoint. Tools that came before Pod
            Identity, such as s5cmd 2.3.0, get no credentials.
        memory_gib: Memory of the container that copies, in GiB: its buffers take 2, above 25 Gbit/s of network 4, and
            above 75 Gbit/s 8.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix, the size, the path, the region or the image cannot be.

    Sources: https://docs.aws.amazon.com/cli/latest/reference/s3/sync.html,
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-minimum-sdk.html,
    https://github.com/peak/s5cmd/issues/807 (2026-11), awslabs/aws-c-s3 source/s3_client.c ``mem_limit``
    """

    bucket: s3.IBucket
    size_gib: int
    prefix: str = ""
    path: str = PATH
    identity: WorkloadIdentity | None = None
    region: str | None = None
    image: str = AWS_CLI.reference
    memory_gib: int = 10

    def __post_init__(self) -> None:
        who = "copied model"
        refuse_unless_source(who, bucket=self.bucket, prefix=self.prefix, identity=self.identity, region=self.region)
        refuse_unless_whole_number(who, "size_gib", self.size_gib, least=1)
        refuse_unless_mount_path(who, self.path)
        refuse_unless_image(who, "image", self.image)
        refuse_unless_whole_number(who, "memory_gib", self.memory_gib, least=1)

    @property
    def location(self) -> str:
        """What the server is told: a path."""
        return self.path

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Somebody else reads, or something else is at the path.
        """
        region = resolve_bucket_region(place.scope, place.who, self.bucket, self.region)
        reader = resolve_reader_identity(place, self.bucket, self.prefix, self.identity)
        disk = scratch(self.path, self.size_gib)
        copy = InitContainer(
            name="copy-model",
            image=self.image,
            args=["s3", "sync", uri(self.bucket, self.prefix), self.path, "--only-show-errors"],
            # The metadata service, which would tell the region, answers nodes only.
            env={"AWS_REGION": region, "HOME": "/tmp"},
            mounts=[disk],
            memory_gib=self.memory_gib,
            run_as_user=place.pod.run_as_user or _NOBODY,
        )
        pod = extend_pod(place.pod, mount=disk, first=copy, service_account=reader.service_account)
        return Brought(pod=pod, needs=[reader])


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class MountedModel:
    """A model in S3 that is mounted, by an `S3Volume` of the workload's name and a hash of what is mounted.

    So a change of the bucket, the prefix or the cache creates another volume for the new pods. The claim of the old one
    is deleted when its last pod has ended.

    Pods take no room on the disk, and may share what a node has in its cache. Loaders that map files into memory read
    in small pieces, which is slow: tell vLLM ``--safetensors-load-strategy eager``.

    Attributes:
        bucket: The bucket; a key of yours that encrypts it may be used, too, where the CDK knows it.
        prefix: What the names of the objects begin with, up to a ``/``. Default: all of the bucket.
        path: Where the files appear, absolute.
        cache_gib: Size of a cache on each node, in GiB, which nobody counts as in use. Default: none.
        identity: Who reads, which must be of the pod's namespace and service account. Default: made for the pod.
        region: Region of the bucket. Default: what the bucket knows, which of an imported one may be the stack's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix, the path, the cache or the region cannot be.

    Source: https://github.com/vllm-project/vllm/pull/24469 (2025-09)
    """

    bucket: s3.IBucket
    prefix: str = ""
    path: str = PATH
    cache_gib: int | None = None
    identity: WorkloadIdentity | None = None
    region: str | None = None

    def __post_init__(self) -> None:
        who = "mounted model"
        refuse_unless_source(who, bucket=self.bucket, prefix=self.prefix, identity=self.identity, region=self.region)
        refuse_unless_mount_path(who, self.path)
        if self.cache_gib is not None:
            refuse_unless_whole_number(who, "cache_gib", self.cache_gib, least=1)

    @property
    def location(self) -> str:
        """What the server is told: a path."""
        return self.path

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Somebody else reads, something else is at the path, or a volume of the name is there.
        """
        reader = resolve_identity(place, self.identity)
        mounted = [self.bucket.bucket_name, self.prefix, self.region, self.cache_gib]
        volume = S3Volume(
            place.scope,
            "Model",
            cluster=place.cluster.cluster,
            name=unique_name(place.scope, place.name, mounted),
            bucket=self.bucket,
            namespace=place.namespace,
            prefix=self.prefix,
            # What is served does not change under its server.
            mount=S3Mount(cache_gib=self.cache_gib, metadata_ttl="indefinite"),
            identity=reader,
            region=self.region,
        )
        seen = VolumeClaimMount(path=self.path, claim=volume.name, read_only=True)
        pod = extend_pod(place.pod, mount=seen, service_account=reader.service_account)
        return Brought(pod=pod, needs=[volume, reader])


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class StreamedModel:
    """A model in S3 that the server reads straight into its GPUs, by Run:ai's streamer, from Safetensors files.

    The server is told where by its arguments: vLLM by ``--model`` and ``--load-format runai_streamer``, SGLang by
    ``--model-path`` alone. Its image must have the streamer (``vllm[runai]``). Here the pod gets the right to read, and
    variables: the region, as both SDKs of the streamer call it, no questions to the metadata service, which answers
    nodes only, and the bound of the buffers.

    Attributes:
        bucket: The bucket; a key of yours that encrypts it may be used, too, where the CDK knows it.
        prefix: What the names of the objects begin with, up to a ``/``. Default: all of the bucket.
        buffer_gib: Memory of the pod that the process of each GPU may hold weights in on their way, in GiB; at least
            the largest tensor. More is faster.
        identity: Who reads, which must be of the pod's namespace and service account. Default: made for the pod.
        region: Region of the bucket. Default: what the bucket knows, which of an imported one may be the stack's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix, the buffer or the region cannot be.

    Sources: https://github.com/run-ai/runai-model-streamer/blob/master/docs/src/usage.md,
    https://docs.vllm.ai/en/stable/models/extensions/runai_model_streamer/,
    https://docs.sglang.io/advanced_features/object_storage.html (2026-11)
    """

    bucket: s3.IBucket
    prefix: str = ""
    buffer_gib: int = 4
    identity: WorkloadIdentity | None = None
    region: str | None = None

    def __post_init__(self) -> None:
        who = "streamed model"
        refuse_unless_source(who, bucket=self.bucket, prefix=self.prefix, identity=self.identity, region=self.region)
        refuse_unless_whole_number(who, "buffer_gib", self.buffer_gib, least=1)

    @property
    def location(self) -> str:
        """What the server is told: a URI."""
        return uri(self.bucket, self.prefix)

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Somebody else reads, or the buffers are more than the pod's memory.
        """
        self._refuse_too_little_memory(place)
        region = resolve_bucket_region(place.scope, place.who, self.bucket, self.region)
        reader = resolve_reader_identity(place, self.bucket, self.prefix, self.identity)
        env = {
            # Of the SDK for C++, and of boto3, which knows the other alone.
            "AWS_REGION": region,
            "AWS_DEFAULT_REGION": region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "RUNAI_STREAMER_MEMORY_LIMIT": str(self.buffer_gib * GIB),
        }
        pod = extend_pod(place.pod, env=env, service_account=reader.service_account)
        return Brought(pod=pod, needs=[reader])

    def _refuse_too_little_memory(self, place: Place) -> None:
        pod, buffers = place.pod, self.buffer_gib * place.pod.gpus
        memory = pod.memory_on(place.who, place.shape)
        if place.shape.memory_gib and memory <= buffers + pod.shm_gib:
            raise ValueError(
                f"{place.who}: pod must have more memory_gib than {buffers} for the buffers of the model and "
                f"{pod.shm_gib} of shm_gib, got {memory}; raise memory_gib, or lower buffer_gib"
            )


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class ImageModel:
    """A model in an OCI image or artifact, mounted as an image volume, on Kubernetes 1.35 or later.

    Kubelet pulls it once for all pods of a node, as it pulls their own image. It lies where images lie: nobody counts
    it as in use, so leave room for it twice while it is unpacked.

    Attributes:
        image: The image, with digest.
        path: Where the files appear, absolute.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path cannot be, or the image has no digest.

    Source: https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/ (2026-11)
    """

    image: str
    path: str = PATH

    def __post_init__(self) -> None:
        self._mount()

    def _mount(self) -> ImageMount:
        return ImageMount(path=self.path, image=self.image)

    @property
    def location(self) -> str:
        """What the server is told: a path."""
        return self.path

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Something else is at the path.
        """
        return Brought(pod=extend_pod(place.pod, mount=self._mount()))


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class HubModel:
    """A model of the hub of Hugging Face, which the server downloads when it starts, each pod anew, or once to a claim.

    The server is told which by its arguments: vLLM by ``--model`` and ``--revision``, SGLang by ``--model-path`` and
    ``--revision``. Here the pod gets the token, and ``HF_HOME`` where there is room. A cluster without a way to the
    internet cannot use it.

    Attributes:
        repo: Name of the repository, such as ``meta-llama/Llama-3.3-70B-Instruct``.
        revision: Its commit, 40 hex digits: branches and tags move, and code may be in them.
        token: Where the token is, for repositories that ask for one. Default: none.
        size_gib: What its files take, in GiB; scratch of that and a tenth more is asked for.
        claim: Instead of ``size_gib``, name of an existing claim in the pod's namespace that keeps them.
        path: Where the files appear, absolute.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The repository, the commit, the size, the claim or the path cannot be.

    Source: https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables (2026-11)
    """

    repo: str
    revision: str
    token: SecretKey | None = None
    size_gib: int | None = None
    claim: str | None = None
    path: str = PATH

    def __post_init__(self) -> None:
        who = "hub model"
        for argument in ("repo", "revision"):
            if not isinstance(getattr(self, argument), str):
                raise TypeError(f"{who}: {argument} must be a string, got {getattr(self, argument)!r}")
        if not _REPO.fullmatch(self.repo) or ".." in self.repo or "--" in self.repo:
            raise ValueError(f"{who}: repo must be such as 'owner/name', got {self.repo!r}")
        if not _COMMIT.fullmatch(self.revision):
            raise ValueError(
                f"{who}: revision must be a commit of 40 hex digits, got {self.revision!r}; the hub shows it under "
                "'Files and versions'"
            )
        if self.token is not None and not isinstance(self.token, SecretKey):
            # Not repeated: it may be the token itself.
            raise TypeError(
                f"{who}: token must be a SecretKey, got a {type(self.token).__name__}; put the token into a Secret of "
                "the cluster and write SecretKey(secret=..., key=...)"
            )
        refuse_unless_mount_path(who, self.path)
        self._refuse_unless_room(who)

    def _refuse_unless_room(self, who: str) -> None:
        if (self.size_gib is None) == (self.claim is None):
            got = "neither" if self.claim is None else "both"
            raise ValueError(f"{who}: size_gib or claim must be given, one of them, got {got}")
        if self.size_gib is not None:
            refuse_unless_whole_number(who, "size_gib", self.size_gib, least=1)
        if self.claim is not None:
            refuse_unless_dotted_name(who, "claim", self.claim, fix=suggest_attribute(self.claim, "S3Volume", "name"))

    @property
    def location(self) -> str:
        """What the server is told: a repository."""
        return self.repo

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: Something else is at the path.
        """
        env: dict[str, EnvValue] = {"HF_HOME": self.path}
        if self.token is not None:
            env["HF_TOKEN"] = self.token
        # Each file is read once: a second copy of its parts would take room for nothing.
        env["HF_XET_CHUNK_CACHE_SIZE_BYTES"] = "0"
        return Brought(pod=extend_pod(place.pod, env=env, mount=self._mount()))

    def _mount(self) -> VolumeClaimMount | ScratchMount:
        if self.claim is not None:
            return VolumeClaimMount(path=self.path, claim=self.claim)
        return scratch(self.path, self.size_gib or 0)


Model = CopiedModel | MountedModel | StreamedModel | ImageModel | HubModel
_KINDS = ", ".join(each.__name__ for each in get_args(Model))


def with_model(place: Place, model: Model | None) -> Brought:
    """Return a pod with its model, if it has one.

    Raises:
        TypeError: It is no model.
        ValueError: The pod cannot have it.
    """
    if model is None:
        return Brought(pod=place.pod)
    if not isinstance(model, Model):
        raise TypeError(f"{place.who}: model must be one of {_KINDS}, got {model!r}")
    return model.bring(place)


def refuse_early_image_volumes(who: object, pod: GpuPod, cluster: ClusterRef, given: str | None) -> None:
    """Refuse images as volumes on a cluster whose API server drops them, and the mounts with them, in silence.

    Args:
        who: Who asks.
        pod: The pod.
        cluster: Its cluster.
        given: Version of a cluster that states none.

    Raises:
        ValueError: The version is too old, or is not known.
    """
    if not any(isinstance(each, ImageMount) for each in pod.every_mount):
        return
    version = cluster.kubernetes_version(given, who=who)
    if tuple(map(int, version.split("."))) < WITH_IMAGE_VOLUMES:
        least = ".".join(map(str, WITH_IMAGE_VOLUMES))
        raise ValueError(
            f"{who}: cluster must have Kubernetes {least} or later for an image as a volume, got {version!r}, which "
            "drops the volume and says nothing; use another model, such as CopiedModel [GPU415]"
        )

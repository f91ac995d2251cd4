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
from gpu_constructs.workloads.placement import unique_name
from gpu_facts.kubernetes import refuse_unless_dotted_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.quantities import GIB
from gpu_facts.refusals import refuse_unless_image, refuse_unless_whole_number, suggest_attribute
from gpu_facts.versions import AWS_CLI, WITH_IMAGE_VOLUMES

# An unprivileged user id, if the pod sets no user. Every user may read the copied files.
_NOBODY = 65534
# Source: https://github.com/huggingface/huggingface_hub/blob/main/src/huggingface_hub/utils/_validators.py (2026-11)
_REPO = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class CopiedModel:
    """A model in S3 that an init container copies to the node's disk before the server starts.

    It works with every server. Each new pod copies the model again. If a copy was interrupted, the next attempt copies
    only the missing files. The GPUs are idle during the copy. The pod requests ``size_gib`` plus a tenth as scratch. A
    prefix without objects is copied successfully, and the server finds no model. The copy runs as user 65534, or as the
    pod's ``run_as_user``.

    Attributes:
        bucket: The bucket. If your own KMS key encrypts it and the CDK has the key, the pod also gets access to the
            key.
        size_gib: Total size of the objects, in GiB.
        prefix: Prefix of the objects' names, up to a ``/``. Default: the whole bucket.
        path: Absolute path of the files.
        identity: Identity that reads. It must be of the pod's namespace and service account. Default: created for the
            pod.
        region: Region of the bucket. Default: the region of the bucket construct, which for an imported bucket may be
            the stack's.
        image: Image that copies. Its entrypoint must be ``aws`` of version 2.15 or newer. Tools that are older than Pod
            Identity, such as s5cmd 2.3.0, get no credentials.
        memory_gib: Memory of the container that copies, in GiB. Its buffers need 2, above 25 Gbit/s of network 4, and
            above 75 Gbit/s 8.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix, the size, the path, the region or the image is invalid.

    Sources: https://docs.aws.amazon.com/cli/latest/reference/s3/sync.html,
    https://docs.aws.amazon.com/eks/latest/userguide/pod-id-minimum-sdk.html,
    https://github.com/peak/s5cmd/issues/807, https://github.com/aws/aws-cli/issues/10676 (2026-11),
    awslabs/aws-c-s3 source/s3_client.c ``mem_limit``
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
        """Location for the server: a path."""
        return self.path

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: The identity is of another namespace or service account, or the path is already used.
        """
        region = resolve_bucket_region(place.scope, place.who, self.bucket, self.region)
        reader = resolve_reader_identity(place, self.bucket, self.prefix, self.identity)
        disk = scratch(self.path, self.size_gib)
        copy = InitContainer(
            name="copy-model",
            image=self.image,
            args=["s3", "sync", uri(self.bucket, self.prefix), self.path, "--only-show-errors"],
            # The metadata service, which returns the region, answers only nodes.
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
    """A model in S3 that is mounted, by an `S3Volume` with the workload's name and a hash of the mount.

    If you change the bucket, the prefix or the cache, the new pods get another volume. The claim of the old one is
    deleted when its last pod has ended.

    Pods need no room on the disk, and may share the cache of a node. Loaders that map files into memory read in small
    pieces, which is slow. So set ``--safetensors-load-strategy eager`` for vLLM.

    Attributes:
        bucket: The bucket. If your own KMS key encrypts it and the CDK has the key, the pod also gets access to the
            key.
        prefix: Prefix of the objects' names, up to a ``/``. Default: the whole bucket.
        path: Absolute path of the files.
        cache_gib: Size of a cache on each node, in GiB. Kubernetes doesn't count it as used disk. Default: none.
        identity: Identity that reads. It must be of the pod's namespace and service account. Default: created for the
            pod.
        region: Region of the bucket. Default: the region of the bucket construct, which for an imported bucket may be
            the stack's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix, the path, the cache or the region is invalid.

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
        """Location for the server: a path."""
        return self.path

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: The identity is of another namespace or service account, the path is already used, or a volume
                of that name exists.
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
            # Model files don't change while a server uses them.
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
    """A model in S3 that the server reads directly into its GPUs with Run:ai's streamer, from Safetensors files.

    Pass the location to the server in its arguments: for vLLM in ``--model``, together with
    ``--load-format runai_streamer``, for SGLang in ``--model-path``. Its image must contain the streamer
    (``vllm[runai]``). The construct grants the pod read access and sets variables: the region, under the names of both
    SDKs of the streamer, the limit of the buffers, and a variable that disables the metadata service, which answers
    only nodes.

    vLLM stores other files of the model in its home folder, and older versions in ``/dev/shm``, which is ``shm_gib``. A
    pod with ``run_as_user`` and without a home folder needs ``VLLM_ASSETS_CACHE`` on a `ScratchMount`. Source:
    https://github.com/vllm-project/vllm/pull/10192

    Attributes:
        bucket: The bucket. If your own KMS key encrypts it and the CDK has the key, the pod also gets access to the
            key.
        prefix: Prefix of the objects' names, up to a ``/``. Default: the whole bucket.
        buffer_gib: Memory of the pod for weights in transit, for the process of each GPU, in GiB. It must be at least
            the size of the largest tensor. More is faster.
        identity: Identity that reads. It must be of the pod's namespace and service account. Default: created for the
            pod.
        region: Region of the bucket. Default: the region of the bucket construct, which for an imported bucket may be
            the stack's.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix, the buffer or the region is invalid.

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
        """Location for the server: a URI."""
        return uri(self.bucket, self.prefix)

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: The identity is of another namespace or service account, or the buffers are larger than the
                pod's memory.
        """
        self._refuse_too_little_memory(place)
        region = resolve_bucket_region(place.scope, place.who, self.bucket, self.region)
        reader = resolve_reader_identity(place, self.bucket, self.prefix, self.identity)
        env = {
            # For the SDK for C++, and for boto3, which reads only the other name.
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

    The kubelet pulls it once for all pods of a node, as it pulls container images. It is on the disk for images, and
    Kubernetes doesn't count it as used. So leave room for it twice, because it is also unpacked there.

    ECR limits the size of a layer, so split weights into several:
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html

    Attributes:
        image: The image, with digest.
        path: Absolute path of the files.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The path is invalid, or the image has no digest.

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
        """Location for the server: a path."""
        return self.path

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: The path is already used.
        """
        return Brought(pod=extend_pod(place.pod, mount=self._mount()))


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class HubModel:
    """A model of the Hugging Face hub. Each pod downloads it at start, or once to a claim that several pods use.

    Pass the model to the server in its arguments: for vLLM in ``--model`` and ``--revision``, for SGLang in
    ``--model-path`` and ``--revision``. The construct gives the pod the token, and sets ``HF_HOME`` to the download
    folder. A cluster without a route to the internet can't use it.

    Attributes:
        repo: Name of the repository, such as ``meta-llama/Llama-3.3-70B-Instruct``.
        revision: Its commit, 40 hex digits. Branches and tags move, and the repository may contain code.
        token: Secret key with the token, for repositories that need one. Anyone who can read the server's variables has
            the token, so prefer a copy in S3 for long-running servers. Default: none.
        size_gib: Total size of its files, in GiB. The pod requests this plus a tenth as scratch.
        claim: Name of an existing claim in the pod's namespace that stores the files, instead of ``size_gib``.
        path: Absolute path of the files.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The repository, the commit, the size, the claim or the path is invalid.

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
                raise TypeError(
                    f"{who}: {argument} must be a string, got {getattr(self, argument)!r}; write it as a string"
                )
        if not _REPO.fullmatch(self.repo) or ".." in self.repo or "--" in self.repo:
            raise ValueError(f"{who}: repo must have the form 'owner/name', got {self.repo!r}; copy it from the hub")
        if not _COMMIT.fullmatch(self.revision):
            raise ValueError(
                f"{who}: revision must be a commit of 40 hex digits, got {self.revision!r}; copy it from 'Files and "
                "versions' in the hub"
            )
        if self.token is not None and not isinstance(self.token, SecretKey):
            # The message doesn't contain the value, which may be the token itself.
            raise TypeError(
                f"{who}: token must be a SecretKey, got a {type(self.token).__name__}; put the token into a Secret of "
                "the cluster and write SecretKey(secret=..., key=...)"
            )
        refuse_unless_mount_path(who, self.path)
        self._refuse_unless_room(who)

    def _refuse_unless_room(self, who: str) -> None:
        if (self.size_gib is None) == (self.claim is None):
            got = "neither" if self.claim is None else "both"
            raise ValueError(f"{who}: exactly one of size_gib and claim must be given, got {got}; set one of them")
        if self.size_gib is not None:
            refuse_unless_whole_number(who, "size_gib", self.size_gib, least=1)
        if self.claim is not None:
            refuse_unless_dotted_name(who, "claim", self.claim, fix=suggest_attribute(self.claim, "S3Volume", "name"))

    @property
    def location(self) -> str:
        """Location for the server: a repository."""
        return self.repo

    def bring(self, place: Place) -> Brought:
        """Return the pod with its model.

        Raises:
            ValueError: The path is already used.
        """
        env: dict[str, EnvValue] = {"HF_HOME": self.path}
        if self.token is not None:
            env["HF_TOKEN"] = self.token
        # Each file is read once. A second copy of its parts would only use disk space.
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
        TypeError: The value isn't a model.
        ValueError: The model doesn't fit the pod.
    """
    if model is None:
        return Brought(pod=place.pod)
    if not isinstance(model, Model):
        raise TypeError(f"{place.who}: model must be one of {_KINDS}, got {model!r}; create one of them")
    return model.bring(place)


def refuse_early_image_volumes(who: object, pod: GpuPod, cluster: ClusterRef, given: str | None) -> None:
    """Reject image volumes on a cluster whose API server silently drops them and their mounts.

    Args:
        who: Name of the construct in messages.
        pod: The pod.
        cluster: Its cluster.
        given: Version of a cluster that doesn't state one.

    Raises:
        ValueError: The version is too old, or is unknown.
    """
    if not any(isinstance(each, ImageMount) for each in pod.every_mount):
        return
    version = cluster.kubernetes_version(given, who=who)
    if tuple(map(int, version.split("."))) < WITH_IMAGE_VOLUMES:
        least = ".".join(map(str, WITH_IMAGE_VOLUMES))
        raise ValueError(
            f"{who}: cluster must have Kubernetes {least} or later for an image volume, got {version!r}, which "
            "silently drops the volume; use another model, such as CopiedModel [GPU415]"
        )

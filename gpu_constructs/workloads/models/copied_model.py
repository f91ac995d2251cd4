"""Weights that are copied to the node's disk before a pod serves them."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_s3 as s3

from gpu_constructs.identity.workload_identity import WorkloadIdentity
from gpu_constructs.storage.s3_names import region_of
from gpu_constructs.workloads.models.bringing import PATH, Brought, Place, pod_with, scratch
from gpu_constructs.workloads.models.bucket import reader_of, refuse_unless_source, uri
from gpu_constructs.workloads.parts.init_container import InitContainer
from gpu_constructs.workloads.parts.mount_path import refuse_unless_mount_path
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_image, refuse_unless_whole_number
from gpu_facts.versions import AWS_CLI

# Nobody's user, where the pod names none: what is copied is everybody's to read.
_NOBODY = 65534


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
        region = region_of(place.scope, place.who, self.bucket, self.region)
        reader = reader_of(place, self.bucket, self.prefix, self.identity)
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
        pod = pod_with(place.pod, mount=disk, first=copy, service_account=reader.service_account)
        return Brought(pod=pod, needs=[reader])

"""Weights that are read from a bucket as files."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_s3 as s3

from gpu_constructs.identity.workload_identity import WorkloadIdentity
from gpu_constructs.storage.s3_mount import S3Mount
from gpu_constructs.storage.s3_volume import S3Volume
from gpu_constructs.workloads.models.bringing import PATH, Brought, Place, pod_with
from gpu_constructs.workloads.models.bucket import identity_of, refuse_unless_source
from gpu_constructs.workloads.parts.claim_mount import VolumeClaimMount
from gpu_constructs.workloads.parts.mount_path import refuse_unless_mount_path
from gpu_constructs.workloads.unique_name import unique_name
from gpu_facts.named_arguments import named_arguments
from gpu_facts.refusals import refuse_unless_whole_number


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
        reader = identity_of(place, self.identity)
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
        pod = pod_with(place.pod, mount=seen, service_account=reader.service_account)
        return Brought(pod=pod, needs=[volume, reader])

"""Delivery of model files to a pod, and the bucket that contains them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs.identity.workload_identity import WorkloadIdentity, service_account_claim
from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.pools.node_shape import NodeShape
from gpu_constructs.storage.s3_mount import refuse_unless_bucket, refuse_unless_prefix
from gpu_constructs.storage.s3_volume import grant_bucket_read
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.init_container import EnvValue, InitContainer
from gpu_constructs.workloads.mounts import Mount, ScratchMount
from gpu_facts.hardware.regions import refuse_unless_region
from gpu_facts.named_arguments import named_arguments

# Mount path of weights, and name of their scratch volume.
PATH = "/models"
_SCRATCH = "model"
# The disk also needs room for partial files and metadata of the downloader.
_ROOM = 1.1


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """The workload that gets a model.

    Attributes:
        scope: The construct of the workload.
        who: Name of the construct in messages.
        cluster: Its cluster.
        name: Its name.
        namespace: Its namespace.
        pod: Its pod, so far.
        shape: Nodes that it is for.
    """

    scope: Construct
    who: object
    cluster: ClusterRef
    name: str
    namespace: str
    pod: GpuPod
    shape: NodeShape


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Brought:
    """A pod with its model.

    Attributes:
        pod: The pod.
        needs: Constructs that must exist before the pod starts.
    """

    pod: GpuPod
    needs: Sequence[Construct] = ()


def extend_pod(
    pod: GpuPod,
    *,
    env: Mapping[str, EnvValue] | None = None,
    mount: Mount | None = None,
    first: InitContainer | None = None,
    service_account: str | None = None,
) -> GpuPod:
    """Return a pod with the parts that a model adds. Variables that the pod sets itself stay."""
    return replace(
        pod,
        env={**(env or {}), **pod.env},
        mounts=(*pod.mounts, *([mount] if mount is not None else [])),
        init_containers=(*([first] if first is not None else []), *pod.init_containers),
        service_account=service_account if service_account is not None else pod.service_account,
    )


def scratch(path: str, size_gib: int) -> ScratchMount:
    """Return a scratch volume for weights of a size, with extra room."""
    return ScratchMount(path=path, size_gib=math.ceil(size_gib * _ROOM), name=_SCRATCH)


def refuse_unless_source(who: str, *, bucket: object, prefix: object, identity: object, region: object) -> None:
    """Reject an invalid place in S3, or an invalid identity.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix or the region is invalid.
    """
    refuse_unless_bucket(who, bucket)
    refuse_unless_prefix(who, prefix)
    if identity is not None and not isinstance(identity, WorkloadIdentity):
        raise TypeError(f"{who}: identity must be a WorkloadIdentity, got {identity!r}; leave it out to create one")
    if region is not None:
        refuse_unless_region(who, "region", region)


def uri(bucket: s3.IBucket, prefix: str) -> str:
    """Return the `s3://` URI of a prefix of a bucket."""
    return f"s3://{bucket.bucket_name}/{prefix}"


def resolve_identity(place: Place, given: WorkloadIdentity | None) -> WorkloadIdentity:
    """Return the pod's AWS identity: the given one, or a new one, with a service account if the pod names none.

    Raises:
        ValueError: The given one is of another namespace or service account, or the pod's service account has one that
            isn't passed.
    """
    stated = place.pod.service_account
    if given is None:
        account = stated if stated is not None else place.name
        holder = place.cluster.holder(service_account_claim(place.namespace, account))
        if holder is not None:
            raise ValueError(
                f"{place.who}: model must have the identity of service account {place.namespace}/{account}, got none; "
                f"write model(identity=...) with {holder.node.path!r}"
            )
        return WorkloadIdentity(
            place.scope,
            "Identity",
            cluster=place.cluster.cluster,
            service_account=account,
            namespace=place.namespace,
            create_service_account=stated is None,
        )
    if given.namespace != place.namespace:
        raise ValueError(
            f"{place.who}: model must have an identity of its pods' namespace {place.namespace!r}, got "
            f"{given.node.path!r} of {given.namespace!r}; create one in that namespace"
        )
    if stated not in (None, given.service_account):
        raise ValueError(
            f"{place.who}: model must have the identity of the pod's service account {stated!r}, got "
            f"{given.node.path!r} of {given.service_account!r}; leave service_account out"
        )
    return given


def resolve_reader_identity(
    place: Place, bucket: s3.IBucket, prefix: str, given: WorkloadIdentity | None
) -> WorkloadIdentity:
    """Return the pod's AWS identity, with read access to a prefix of a bucket.

    Raises:
        ValueError: The given one is of another namespace or service account.
    """
    reader = resolve_identity(place, given)
    grant_bucket_read(reader, bucket, prefix)
    return reader

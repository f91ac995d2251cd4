"""Where weights lie in S3, and who of a pod reads them."""

from __future__ import annotations

from aws_cdk import aws_s3 as s3

from gpu_constructs.identity.workload_identity import WorkloadIdentity, claim_of
from gpu_constructs.storage.s3_names import refuse_unless_bucket, refuse_unless_prefix
from gpu_constructs.storage.s3_permissions import let_pods_read
from gpu_constructs.workloads.models.bringing import Place
from gpu_facts.hardware.regions import refuse_unless_region


def refuse_unless_source(who: str, *, bucket: object, prefix: object, identity: object, region: object) -> None:
    """Refuse what is no place in S3, or nobody who could read it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The prefix or the region is none.
    """
    refuse_unless_bucket(who, bucket)
    refuse_unless_prefix(who, prefix)
    if identity is not None and not isinstance(identity, WorkloadIdentity):
        raise TypeError(f"{who}: identity must be a WorkloadIdentity, got {identity!r}")
    if region is not None:
        refuse_unless_region(who, "region", region)


def uri(bucket: s3.IBucket, prefix: str) -> str:
    """Return what programs call a prefix of a bucket."""
    return f"s3://{bucket.bucket_name}/{prefix}"


def identity_of(place: Place, given: WorkloadIdentity | None) -> WorkloadIdentity:
    """Return who the pod is to AWS: as given, or made here, with a service account where the pod names none.

    Raises:
        ValueError: The one given is of another namespace or service account, or the pod's has one that is not given.
    """
    stated = place.pod.service_account
    if given is None:
        account = stated if stated is not None else place.name
        holder = place.cluster.holder(claim_of(place.namespace, account))
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
            f"{place.who}: model must have an identity of namespace {place.namespace!r}, as its pods are, got "
            f"{given.node.path!r} of {given.namespace!r}"
        )
    if stated not in (None, given.service_account):
        raise ValueError(
            f"{place.who}: model must have the identity of the pod's service account {stated!r}, got "
            f"{given.node.path!r} of {given.service_account!r}; leave service_account out"
        )
    return given


def reader_of(place: Place, bucket: s3.IBucket, prefix: str, given: WorkloadIdentity | None) -> WorkloadIdentity:
    """Return who the pod is to AWS, once it may read a prefix of a bucket.

    Raises:
        ValueError: The one given is of another namespace or service account.
    """
    reader = identity_of(place, given)
    let_pods_read(reader, bucket, prefix)
    return reader

"""Buckets, and what in them, as somebody names them."""

from __future__ import annotations

import re

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_facts.hardware.regions import refuse_unless_region
from gpu_facts.refusals import is_token

# '*' and '?' would mean more than themselves in a policy, and a space ends a mount option.
_PREFIX = re.compile(r"((?![/*?])[!-~])((?![*?])[!-~])*/")

# Where buckets from before 1 March 2018 may have upper case and '_' in their names.
_OLD_NAMES_IN = "us-east-1"


def refuse_unless_bucket(who: object, bucket: object) -> None:
    """Refuse what is no bucket of the CDK.

    Raises:
        TypeError: ``bucket`` is something else, for example a name.
    """
    if not hasattr(bucket, "bucket_arn"):
        raise TypeError(
            f"{who}: bucket must be an s3.IBucket, got {bucket!r}; import one with s3.Bucket.from_bucket_name"
        )


def region_of(scope: Construct, who: object, bucket: s3.IBucket, given: str | None) -> str:
    """Return the region of a bucket: as given, as the bucket knows, which is that of the stack where it does not.

    Raises:
        ValueError: ``given`` is no region, or another than the bucket's, or no bucket there can be called so.
    """
    knows = bucket.env.region
    if given is not None:
        refuse_unless_region(who, "region", given)
        if not is_token(knows) and knows not in (given, cdk.Stack.of(scope).region):
            raise ValueError(f"{who}: region must be that of the bucket, {knows!r}, got {given!r}; leave it out")
    found = given if given is not None else knows
    _refuse_newer_name(who, bucket.bucket_name, found)
    return found


def _refuse_newer_name(who: object, name: str, region: str) -> None:
    """Refuse a bucket of a name that none there can have.

    Raises:
        ValueError: It has upper case or ``_`` in a region whose buckets never had.

    Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html (2026-11)
    """
    if is_token(name) or is_token(region) or region == _OLD_NAMES_IN:
        return
    if re.search(r"[A-Z_]", name):
        raise ValueError(
            f"{who}: bucket must have a name of lower-case letters, digits, '-' and '.', got {name!r}; others are "
            f"only in {_OLD_NAMES_IN}, from before March 2018"
        )


def refuse_unless_prefix(who: object, prefix: object) -> None:
    """Refuse what no folder of a bucket is called by; an empty prefix is all of it.

    Raises:
        TypeError: ``prefix`` is no string.
        ValueError: It does not end in ``/``, or has signs that a policy reads otherwise.
    """
    if not isinstance(prefix, str):
        raise TypeError(f"{who}: prefix must be a string, got {prefix!r}")
    if prefix and not _PREFIX.fullmatch(prefix):
        raise ValueError(
            f"{who}: prefix must end with '/', not begin with it, and have no spaces, '*' or '?', got {prefix!r}"
            f"{_nearest_prefix(prefix)}"
        )


def _nearest_prefix(prefix: str) -> str:
    inner = prefix.strip("/")
    if not inner:
        return "; leave it out for all of the bucket"
    return f"; write '{inner}/'" if _PREFIX.fullmatch(f"{inner}/") else ""

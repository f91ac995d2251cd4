"""Ids of EC2 Capacity Reservations, to which Capacity Blocks belong."""

from __future__ import annotations

from gpu_facts.light_patterns import regex

# An id of EC2 is a prefix and 17 letters and digits, or 8 in ids from before July 2018. No source limits them to
# hexadecimal digits, as which all ids in AWS's documentation are written.
# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/resource-ids.html
_ID = regex(r"cr-([0-9a-f]{17}|[0-9a-f]{8})")


def is_reservation_id(text: str) -> bool:
    """Whether EC2 could have given this id to a Capacity Reservation or Capacity Block."""
    return _ID.fullmatch(text) is not None

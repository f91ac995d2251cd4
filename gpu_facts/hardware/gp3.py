"""Included and max performance of a gp3 volume, and the ratios between the limits.

Source: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html (2026-08)
"""

from __future__ import annotations

BASE_IOPS, MAX_IOPS = 3_000, 80_000
BASE_THROUGHPUT, MAX_THROUGHPUT = 125, 2_000
IOPS_PER_GIB = 500
MIB_PER_SECOND_PER_IOPS = 0.25

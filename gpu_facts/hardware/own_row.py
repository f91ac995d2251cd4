"""What a row of one's own must be, for an instance type that the catalogue does not know."""

from __future__ import annotations

from typing import get_args

from gpu_facts.hardware.catalogue import Architecture, InstanceType, NetworkCard, catalogue
from gpu_facts.kubernetes import LABEL_VALUE
from gpu_facts.light_patterns import regex
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_one_of, refuse_unless_whole_number, words

_NAME = regex(r"[a-z0-9-]+\.[a-z0-9-]+")
_OPTIONS = ("on-demand", "spot", "capacity-block")
_QUOTAS = ("G and VT", "P")
# The least of each number, and whether it may be unknown.
_WHOLE = {
    "gpus": (1, False),
    "ec2_gpus": (0, False),
    "gpu_memory_mib": (1, True),
    "vcpus": (1, True),
    "memory_mib": (1, True),
    "nvme_disks": (0, False),
    "nvme_disk_gb": (0, False),
    "max_efa": (0, True),
    "ipv4_per_interface": (1, True),
    "driver_min": (1, True),
    "driver_max": (1, True),
}


def refuse_unless_row(row: InstanceType) -> None:
    """Refuse a row with which no node could be made; one of the catalogue is right.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is none that a type can have.
    """
    if not isinstance(row.name, str) or not _NAME.fullmatch(row.name):
        raise ValueError(f"instance type: name must be one such as 'g6.xlarge', got {row.name!r}")
    if catalogue().get(row.name) is row:
        return
    who = f"instance type {row.name!r}"
    _refuse_numbers(who, row)
    _refuse_words(who, row)
    for flag in ("ultraserver_only", "mig", "nvswitch"):
        refuse_unless_bool(who, flag, getattr(row, flag))
    if not isinstance(row.network_cards, tuple) or not all(isinstance(each, NetworkCard) for each in row.network_cards):
        raise TypeError(f"{who}: network_cards must be a tuple of NetworkCard, got {row.network_cards!r}")


def _refuse_numbers(who: str, row: InstanceType) -> None:
    for argument, (least, unknown) in _WHOLE.items():
        value = getattr(row, argument)
        if not (unknown and value is None):
            refuse_unless_whole_number(who, argument, value, least=least)
    for argument in ("ebs_mb_per_second", "usd_per_hour"):
        value = getattr(row, argument)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise TypeError(f"{who}: {argument} must be a number, got {value!r}")
        if value is not None and not value > 0:
            raise ValueError(f"{who}: {argument} must be above 0, got {value}")


def _refuse_words(who: str, row: InstanceType) -> None:
    refuse_unless_one_of(who, "architecture", row.architecture, get_args(Architecture))
    refuse_unless_one_of(who, "quota_family", row.quota_family, _QUOTAS)
    for option in words(who, "purchase_options", row.purchase_options):
        refuse_unless_one_of(who, "purchase_options", option, _OPTIONS)
    if not row.purchase_options:
        raise ValueError(f"{who}: purchase_options must name at least one of {', '.join(_OPTIONS)}, got none")
    if not isinstance(row.gpu_model, str) or not row.gpu_model:
        raise ValueError(f"{who}: gpu_model must be a name such as 'L4', got {row.gpu_model!r}")
    label = row.accelerator_label
    # It stands among others in one flag of the kubelet.
    if not isinstance(label, str) or not label or not LABEL_VALUE.fullmatch(label):
        raise ValueError(f"{who}: accelerator_label must be 1 to 63 letters, digits, '-', '_' or '.', got {label!r}")

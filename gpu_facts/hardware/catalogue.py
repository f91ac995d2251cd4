"""Every NVIDIA instance type that EC2 sells, from `catalogue.json`, in which each column has its source and date."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Literal, get_args

from gpu_facts.image_releases import DRIVER_BRANCHES
from gpu_facts.kubernetes import LABEL_VALUE
from gpu_facts.light import dataclass, read_package_data, regex
from gpu_facts.refusals import did_you_mean, refuse_unless_bool, refuse_unless_choice, refuse_unless_whole_number, words

Architecture = Literal["x86_64", "arm64"]
_NAME = regex(r"[a-z0-9-]+\.[a-z0-9-]+")
_OPTIONS = ("on-demand", "spot", "capacity-block")
_QUOTAS = ("G and VT", "P")
# Min value of each number, and whether it may be unknown.
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
# Families g, gr and p have GPUs. GPUs of g4ad aren't from NVIDIA. SageMaker's names have a prefix.
_LIKE_A_GPU_TYPE = regex(r"(?:ml\.)?((gr?|p)(\d+)(?!ad\b)[a-z0-9-]*)\.([a-z0-9-]+)", re.IGNORECASE)
_SIZE = regex(r"([2-9]|[1-9]\d+)?xlarge|metal(-\d+xl)?")
# EC2 numbers the generations of a series. Assumption: between two catalogues it adds at most this many.
_GENERATIONS_AHEAD = 2
_CLOSENESS = 0.85


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkCard:
    """One network card of an instance type.

    Attributes:
        index: Card index, from 0.
        interfaces: Max interfaces of the card, or ``None`` if unknown.
        types: Supported types of an interface: ``interface``, ``efa``, ``efa-only``.
    """

    index: int
    interfaces: int | None
    types: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interface:
    """A network interface of a node.

    Attributes:
        card: Index of its network card.
        device: Device index on the card.
        kind: ``interface`` with IP addresses, or ``efa-only`` without.
    """

    card: int
    device: int
    kind: Literal["interface", "efa-only"]


@dataclass(frozen=True, kw_only=True, slots=True)
class InstanceType:
    """A row of the catalogue. ``None`` means that no source states the figure.

    Attributes:
        name: EC2 name, e.g. ``g6.xlarge``.
        architecture: CPU architecture in EC2's spelling.
        gpu_model: EC2's name of the GPU, e.g. ``L4``.
        gpus: Devices that a node advertises as ``nvidia.com/gpu`` without sharing.
        ec2_gpus: Devices that EC2 counts, or 0 for a fraction of a GPU (g6f, gr6f).
        gpu_memory_mib: Memory of one GPU, in MiB.
        vcpus: Virtual CPUs.
        memory_mib: Memory, in MiB.
        nvme_disks: Local NVMe disks.
        nvme_disk_gb: Size of one of them, in GB (10^9).
        network_cards: Network cards, by index.
        max_efa: Max EFA interfaces of the type.
        ipv4_per_interface: Max IPv4 addresses of an interface.
        ebs_mb_per_second: Max EBS throughput, in MB/s.
        purchase_options: Purchase options: ``on-demand``, ``spot``, ``capacity-block``.
        ultraserver_only: Whether it is sold only inside an UltraServer.
        accelerator_label: Value of the node label ``k8s.amazonaws.com/accelerator``.
        quota_family: EC2 vCPU quota that it counts against, ``G and VT`` or ``P``.
        mig: Whether its GPUs support MIG.
        nvswitch: Whether NVSwitch connects its GPUs, so that fabric manager must run.
        driver_min: Lowest NVIDIA driver branch that supports it, or ``None`` if every current one does.
        driver_max: Last NVIDIA driver branch that supports it, or ``None`` if none is announced.
        usd_per_hour: On-demand list price in us-east-1, US dollars an hour.
        without_price: Reason why it has no price.
    """

    name: str
    architecture: Architecture
    gpu_model: str
    gpus: int
    ec2_gpus: int
    gpu_memory_mib: int | None
    vcpus: int | None
    memory_mib: int | None
    nvme_disks: int
    nvme_disk_gb: int
    network_cards: tuple[NetworkCard, ...]
    max_efa: int | None
    ipv4_per_interface: int | None
    ebs_mb_per_second: float | None
    purchase_options: tuple[str, ...]
    ultraserver_only: bool
    accelerator_label: str
    quota_family: str
    mig: bool
    nvswitch: bool
    driver_min: int | None
    driver_max: int | None
    usd_per_hour: float | None
    without_price: str | None

    @property
    def family(self) -> str:
        """EC2 family, e.g. ``g6``."""
        return self.name.split(".")[0]

    @property
    def efa_interfaces(self) -> tuple[Interface, ...]:
        """The interfaces of a node with all EFA: one with addresses on card 0, ``efa-only`` on cards that allow it.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html (2026-08)
        """
        efa = tuple(
            Interface(card=card.index, device=1 if card.index == 0 else 0, kind="efa-only")
            for card in self.network_cards
            if "efa-only" in card.types
        )
        return (Interface(card=0, device=0, kind="interface"), *efa)

    @property
    def nvme_gb(self) -> int:
        """Local NVMe of all disks together, in GB (10^9)."""
        return self.nvme_disks * self.nvme_disk_gb

    @property
    def gpu_memory_gib(self) -> float | None:
        """Memory of one GPU, in GiB."""
        return _gib(self.gpu_memory_mib)

    @property
    def memory_gib(self) -> float | None:
        """Memory, in GiB."""
        return _gib(self.memory_mib)

    @property
    def driver_branch(self) -> int | None:
        """NVIDIA driver branch that a current EKS image loads for it, or ``None`` if no image has one for it."""
        return next((each for each in DRIVER_BRANCHES if self.supports_driver((each,))), None)

    @property
    def is_driven(self) -> bool:
        """Whether the current EKS images have a driver for it."""
        return self.supports_driver(DRIVER_BRANCHES)

    def supports_driver(self, branches: Iterable[int]) -> bool:
        """Whether an image with these NVIDIA driver branches supports it."""
        return any((self.driver_min or 0) <= each <= (self.driver_max or each) for each in branches)


def _gib(mib: int | None) -> float | None:
    return None if mib is None else mib / 1024


@cache
def _document() -> dict[str, Any]:
    text = read_package_data("gpu_facts.hardware", "catalogue.json").decode()
    return dict(json.loads(text))


@cache
def catalogue() -> Mapping[str, InstanceType]:
    """Return every NVIDIA instance type by name."""
    return MappingProxyType({name: _row(name, row) for name, row in _document()["types"].items()})


def _row(name: str, row: dict[str, Any]) -> InstanceType:
    cards = tuple(NetworkCard(**{**card, "types": tuple(card["types"])}) for card in row["network_cards"])
    options = tuple(row["purchase_options"])
    return InstanceType(**{**row, "name": name, "network_cards": cards, "purchase_options": options})


def columns() -> Mapping[str, Mapping[str, str]]:
    """Return source and date (``source``, ``as_of``) of each column of the catalogue."""
    return MappingProxyType(_document()["columns"])


def retired() -> Mapping[str, Mapping[str, str]]:
    """Return the types that no current EKS image supports, each with ``reason`` and ``successor`` family."""
    return MappingProxyType(_document()["retired"])


def instance_type(name: str) -> InstanceType:
    """Return one instance type by its exact name.

    Raises:
        ValueError: EC2 has no NVIDIA type with this name, or the type is retired.
    """
    if found := catalogue().get(name):
        return found
    if why := retired().get(name):
        raise ValueError(
            f"instance type {name!r} is retired: {why['reason']}; use a size of family {why['successor']!r}"
        )
    hint = (
        did_you_mean(name.lower(), catalogue(), closeness=0.85) or "; EC2 sells no type of that name with NVIDIA GPUs"
    )
    raise ValueError(f"instance type {name!r} is unknown{hint}")


def refuse_unless_row(row: InstanceType) -> None:
    """Reject an invalid row. Rows of the catalogue are valid.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is impossible for an instance type.
    """
    if not isinstance(row.name, str) or not _NAME.fullmatch(row.name):
        raise ValueError(f"instance type: name must be an EC2 name, got {row.name!r}; write one such as 'g6.xlarge'")
    if catalogue().get(row.name) is row:
        return
    who = f"instance type {row.name!r}"
    _refuse_numbers(who, row)
    _refuse_words(who, row)
    for flag in ("ultraserver_only", "mig", "nvswitch"):
        refuse_unless_bool(who, flag, getattr(row, flag))
    if not isinstance(row.network_cards, tuple) or not all(isinstance(each, NetworkCard) for each in row.network_cards):
        raise TypeError(
            f"{who}: network_cards must be a tuple of NetworkCard, got {row.network_cards!r}; write (NetworkCard(...),)"
        )


def _refuse_numbers(who: str, row: InstanceType) -> None:
    for argument, (least, unknown) in _WHOLE.items():
        value = getattr(row, argument)
        if not (unknown and value is None):
            refuse_unless_whole_number(who, argument, value, least=least)
    for argument in ("ebs_mb_per_second", "usd_per_hour"):
        value = getattr(row, argument)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise TypeError(f"{who}: {argument} must be a number, got {value!r}; write it as a number")
        if value is not None and not value > 0:
            raise ValueError(f"{who}: {argument} must be above 0, got {value}; raise it")


def _refuse_words(who: str, row: InstanceType) -> None:
    refuse_unless_choice(who, "architecture", row.architecture, get_args(Architecture))
    refuse_unless_choice(who, "quota_family", row.quota_family, _QUOTAS)
    for option in words(who, "purchase_options", row.purchase_options):
        refuse_unless_choice(who, "purchase_options", option, _OPTIONS)
    if not row.purchase_options:
        raise ValueError(f"{who}: purchase_options must name at least one of {', '.join(_OPTIONS)}, got none; add one")
    if not isinstance(row.gpu_model, str) or not row.gpu_model:
        raise ValueError(f"{who}: gpu_model must be a name, got {row.gpu_model!r}; write one such as 'L4'")
    label = row.accelerator_label
    # The label is one of several in a flag of the kubelet.
    if not isinstance(label, str) or not label or not LABEL_VALUE.fullmatch(label):
        raise ValueError(
            f"{who}: accelerator_label must be 1 to 63 letters, digits, '-', '_' or '.', got {label!r}; change it"
        )


def why_not_sold(name: str) -> str | None:
    """Return why EC2 sells no type with a name, or ``None`` if EC2 sells it or the name isn't like a GPU type."""
    if name in catalogue() or may_be_newer(name):
        return None
    if entry := retired().get(name):
        return f"{name} is retired; use a size of family {entry['successor']}"
    if not _LIKE_A_GPU_TYPE.fullmatch(name):
        return None
    return f"EC2 has no type {name}{did_you_mean(name.lower().removeprefix('ml.'), catalogue(), closeness=_CLOSENESS)}"


def may_be_newer(name: str) -> bool:
    """Whether EC2 may have begun to sell a GPU type after the day of the catalogue."""
    found = _LIKE_A_GPU_TYPE.fullmatch(name)
    if found is None or name in catalogue() or name in retired() or name.startswith("ml."):
        return False
    family, series, generation, size = found.groups()
    families = {each.partition(".")[0] for each in (*catalogue(), *retired())}
    if family in families or not _SIZE.fullmatch(size):
        return False
    known = [int(each[3]) for one in catalogue() if (each := _LIKE_A_GPU_TYPE.fullmatch(one)) and each[2] == series]
    newest = max(known, default=0)
    return newest <= int(generation) <= newest + _GENERATIONS_AHEAD

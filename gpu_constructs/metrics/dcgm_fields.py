"""The DCGM fields that the exporter can report.

Source: NVIDIA/dcgm-exporter 4.5.3-4.8.2 etc/default-counters.csv
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from gpu_facts.refusals import refuse_unless_one_of, words

GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
FB_USED, FB_FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
XID_ERRORS, GPU_TEMP = "DCGM_FI_DEV_XID_ERRORS", "DCGM_FI_DEV_GPU_TEMP"
GR_ENGINE_ACTIVE, SM_ACTIVE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_SM_ACTIVE"

# Kind of metric and what it says, by field.
FIELDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        GPU_UTIL: ("gauge", "Time in which at least one kernel ran (%). Not under MIG"),
        "DCGM_FI_DEV_MEM_COPY_UTIL": ("gauge", "Time in which memory was read or written (%)"),
        "DCGM_FI_DEV_ENC_UTIL": ("gauge", "Use of the encoder (%)"),
        "DCGM_FI_DEV_DEC_UTIL": ("gauge", "Use of the decoder (%)"),
        FB_USED: ("gauge", "Memory in use (MiB)"),
        FB_FREE: ("gauge", "Memory that is free (MiB)"),
        "DCGM_FI_DEV_FB_RESERVED": ("gauge", "Memory that the driver keeps (MiB)"),
        XID_ERRORS: ("gauge", "Code of the last XID error; 0 for none"),
        GPU_TEMP: ("gauge", "Temperature of the GPU (C)"),
        "DCGM_FI_DEV_MEMORY_TEMP": ("gauge", "Temperature of the memory (C)"),
        "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power (W)"),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "Energy since boot (mJ)"),
        "DCGM_FI_DEV_SM_CLOCK": ("gauge", "Clock of the multiprocessors (MHz)"),
        "DCGM_FI_DEV_MEM_CLOCK": ("gauge", "Clock of the memory (MHz)"),
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": ("counter", "Retries on PCIe"),
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": ("counter", "Traffic over NVLink"),
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": ("counter", "Memory rows remapped after uncorrectable errors"),
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": ("counter", "Memory rows remapped after correctable errors"),
        "DCGM_FI_DEV_ROW_REMAP_FAILURE": ("gauge", "Whether remapping a row has failed"),
        GR_ENGINE_ACTIVE: ("gauge", "Part of time in which the graphics or compute engine was active (0 to 1)"),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "Part of cycles in which the tensor cores were active (0 to 1)"),
        "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "Part of cycles in which memory was read or written (0 to 1)"),
        SM_ACTIVE: ("gauge", "Part of time in which a multiprocessor had a warp (0 to 1)"),
        "DCGM_FI_PROF_SM_OCCUPANCY": ("gauge", "Part of the warps that multiprocessors could hold (0 to 1)"),
        "DCGM_FI_PROF_PCIE_TX_BYTES": ("counter", "Bytes sent over PCIe"),
        "DCGM_FI_PROF_PCIE_RX_BYTES": ("counter", "Bytes received over PCIe"),
    }
)
# SM_ACTIVE beside those of upstream's list, because AWS names it as what tells whether a GPU is used well.
# Source: https://docs.aws.amazon.com/eks/latest/best-practices/aiml-observability.html (2026-05)
DEFAULT_FIELDS = tuple(field for field in FIELDS if field != "DCGM_FI_PROF_SM_OCCUPANCY")


def counters_csv(who: object, fields: Sequence[str]) -> str:
    """Return the exporter's list of fields.

    Raises:
        TypeError: ``fields`` is no list.
        ValueError: A field is unknown, or there is none.
    """
    names = words(who, "fields", fields)
    if not names:
        raise ValueError(f"{who}: fields must name at least one field, got none; {GPU_UTIL!r} is the use of a GPU")
    for name in names:
        refuse_unless_one_of(who, "fields", name, FIELDS)
    return "".join(f"{name}, {FIELDS[name][0]}, {FIELDS[name][1]}\n" for name in names)

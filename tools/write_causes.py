"""Write docs/reference/causes.md: the causes that doctor knows, how each is tested, and real output for the commonest.

The output comes from the dumps in tests/preflight/doctor. Planted dumps come from a real API server.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from gpu_preflight.doctor.catalogue import TITLES
from gpu_preflight.doctor.diagnosis import diagnose
from gpu_preflight.report.doctor_view import doctor_view
from gpu_preflight.report.text import render
from tests.preflight.doctor.cases import DoctorCase, cases
from tools.docs.markdown import table

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "causes.md"
HEAD = """# Causes that doctor knows

`gpu-constructs doctor` names one of these causes for each GPU pod that doesn't run. The columns show the dumps in which
a test expects the cause: *planted* ones come from a real API server, scheduler, controller manager or Karpenter,
*written* ones have the texts of upstream sources. No kubelet and no GPU was real. In planted dumps a program wrote the
status that a kubelet would write. A cause without a dump is known by name only, and isn't detected.

An id has a letter for its group: {groups}. `make causes` writes this page. A test compares it.
"""
GROUPS = {
    "A": "admission",
    "Q": "queues",
    "P": "the pod's spec",
    "S": "scheduler and nodes",
    "V": "volumes",
    "C": "Cluster Autoscaler",
    "K": "Karpenter",
    "M": "EKS Auto Mode",
    "E": "launch by EC2",
    "J": "join",
    "G": "GPU software of the node",
    "I": "image",
    "R": "start of containers",
    "H": "health of nodes",
    "H-": "scaling of pods",
    "D": "removal of nodes",
}
# The causes that users report most often, in 2026-11 by the number of public threads, each once.
COMMONEST = ("G1", "E1", "C4", "E2", "G5", "J2", "J8", "P5", "G18", "G9")
COMMON = """## Output for the ten commonest causes

They are ordered by the number of public reports. Each output is real, and its dump is in `tests/preflight/doctor`.
"""


def document() -> str:
    """Return the page."""
    groups = ", ".join(f"{letter} {name}" for letter, name in GROUPS.items())
    planted = Counter(id for each in cases() if each.made == "planted" for id in {*each.first, *each.also})
    written = Counter(id for each in cases() if each.made != "planted" for id in {*each.first, *each.also})
    rows = [(id, title, str(planted[id] or "-"), str(written[id] or "-")) for id, title in TITLES.items()]
    parts = [HEAD.format(groups=groups), table(("Id", "Cause", "Planted", "Written"), rows), COMMON]
    for id in COMMONEST:
        case = example(id)
        parts.append(f"### {id}: {TITLES[id]}\n\n{case.why}\n\n```text\n{output(case)}```\n")
    return "\n".join(parts)


def example(id: str) -> DoctorCase:
    """Return the dump that shows a cause: with a pod, and planted if there is one."""
    found = [each for each in cases() if each.first[:1] == (id,) and each.pod and not each.also]
    return min(found, key=lambda each: (each.made != "planted", each.name))


def output(case: DoctorCase) -> str:
    """Return what doctor prints for a dump."""
    from gpu_preflight.doctor.diagnosis import find_target

    live = case.live()
    assert case.pod is not None
    return render(doctor_view(live, [diagnose(live, find_target(live, case.pod, None))]))


def main() -> None:
    """Write the page."""
    DOCUMENT.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()

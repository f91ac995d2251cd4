"""Write docs/explanation/pending-tools.md: the reports of tools about pods that don't run.

The output of kubectl is recorded in tests/e2e/doctor/described.yaml, and doctor runs on the same dumps. A person read
the sources of the other tools, at the versions in `VERSIONS`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpu_preflight.report.doctor_view import doctor_view
from tests.preflight.doctor.cases import DoctorCase, cases
from tools.docs.markdown import table

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "explanation" / "pending-tools.md"
DESCRIBED = ROOT / "tests" / "e2e" / "doctor" / "described.yaml"
MARKS = ("yes", "part", "no")
# The first two were run.
TOOLS = ("kubectl describe", "doctor", "k8sgpt", "radar", "kubectl-status")
HEAD = """# Tools for a pod that doesn't run

Twenty pods that don't run, and the reports of five tools about them. Each dump comes from a real API server, scheduler,
controller manager or Karpenter in which one fault was planted. Instances and kubelets were simulated.

"""
_RADAR = {
    "detect.go": "c575407",
    "detect_scheduling.go": "2474e08",
    "detect_missing_refs.go": "550cfb4",
    "detect_node.go": "d8b4c52",
    "source_karpenter.go": "62f4531",
    "demand.go": "92d9495",
    "activity.go": "19e0732",
    "capacity.md": "873ab97",
}
# `kubectl` has a version when the page is written.
VERSIONS = (
    (
        "kubectl describe",
        "{kubectl}",
        "run, on a real API server with the pod, its status and its events",
    ),
    ("doctor", "this version", "run, on the dump"),
    (
        "[k8sgpt](https://github.com/k8sgpt-ai/k8sgpt)",
        "0.4.36 and 33 commits, 05247a8 of 2026-08-19",
        "read: the analyzers that are on by default, without AI",
    ),
    (
        "[radar](https://github.com/skyhook-io/radar)",
        "files after pull request 1156 of 2026-07",
        f"read: {', '.join(f'{name} ({commit})' for name, commit in _RADAR.items())}",
    ),
    (
        "[kubectl-status](https://github.com/bergerx/kubectl-status)",
        "0.7.25 and 30 commits, 11b7a20 of 2026-08-19",
        "read: the templates, for the same object",
    ),
)
MEANING = """
**Read** means that a person read the source and didn't run the tool. If a cell is wrong, open an issue.

* **yes**: names the object, field or value at fault.
* **part**: names the constraint that failed, for example a taint, but not which one.
* **no**: neither, or another reason.

"""
AFTER_COUNTS = """
We chose the cases, and doctor was developed with them, so its row isn't a measurement. The other tools also do things
that doctor doesn't: k8sgpt explains with AI, radar is a web interface with a history, and kubectl-status shows any
object.

## When `kubectl describe` is enough

In the first rows an object is missing, admission rejects the pod, or Karpenter names the reason in its own event. If
no pod exists, describe its ReplicaSet or Job.

## When it isn't

Since Kubernetes 1.35 the scheduler doesn't name the taint. `Insufficient nvidia.com/gpu` is the same text for GPUs in
use, a missing device plugin and a pool that can't start nodes. The reason is then in another object: a Node, a
DaemonSet, a NodePool or the event of a NodeClaim. You can describe these too, if you know which one.

## `kubectl describe` and doctor

Both were run. Each case is named after its [cause](../reference/causes.md). The cells have the last warning of each
component, shortened, and the first sentence of doctor, without the name of the pod.

"""
BEFORE_READ = """
## k8sgpt, radar and kubectl-status

"""
SAME = "yes: the same message"
COUNTS = "part: the same message"
EVENTS = "yes: the same events"
OTHER = "no: the scheduler's message"
OTHER_EVENTS = "no: the same events"
GPUS = "part: `N node(s) insufficient nvidia.com/gpu`"
NO_GPUS = "part: Capacity counts 0 allocatable GPUs"
# The reports of describe, k8sgpt, radar and kubectl-status.
READ: Mapping[str, tuple[str, str, str, str]] = {
    "v1-missing-claim": ("yes", SAME, "yes: issue `Missing PVC`", SAME),
    "s9-missing-device-class": ("yes", SAME, SAME, SAME),
    "a1-quota-refuses-a-replica": (
        "yes",
        "no: the number of ready replicas, because one runs",
        "yes: issue `QuotaExceeded`",
        EVENTS,
    ),
    "a9-missing-runtime-class": ("yes", SAME, "yes: issue `ReplicaFailure` with the message", EVENTS),
    "k7-dedicated-taint": ("yes", OTHER, "yes: the pool is incompatible, with its taint", EVENTS),
    "k5-label-of-a-team": (
        "yes",
        "part: the scheduler's message",
        "yes: `no node carries label` and the pools that don't declare it",
        "yes: `No NodePool can satisfy` the label",
    ),
    "k11-limit-reached": ("yes", OTHER, "yes: the pool's limit, use and request", EVENTS),
    "p9-scheduling-gate": (
        "no",
        "part: blocked by scheduling gates",
        "part: the condition of the pod. Its page that names gates needs Karpenter",
        "yes: names the gate",
    ),
    "p2-misspelled-resource": ("part", COUNTS, "part: `N node(s) insufficient nvidia.com/gpus`", COUNTS),
    "p6-wrong-value-of-a-label": (
        "part",
        COUNTS,
        "yes: the required value and the values of the nodes",
        "part: adds the required affinity of the pod",
    ),
    "p8-scheduler-that-nobody-serves": ("no", "no: nothing", "no: `Pending`", "no: `Pending`"),
    "p5-dedicated-taint": ("part", COUNTS, "part: `untolerated taint`, without its key", COUNTS),
    "p3-more-gpus-than-any-node": ("part", COUNTS, GPUS, COUNTS),
    "s1-all-gpus-taken": ("part", COUNTS, GPUS, COUNTS),
    "s4-h5-kubelet-is-silent": (
        "no",
        "yes: the node's condition, as a separate result",
        "yes: issue `NotReady` of the node",
        OTHER_EVENTS,
    ),
    "g1-no-device-plugin": ("no", OTHER, NO_GPUS, OTHER_EVENTS),
    "g3-plugin-lacks-a-toleration": ("no", OTHER, NO_GPUS, OTHER_EVENTS),
    "v2-missing-storage-class": (
        "part",
        "yes: the event of the claim",
        "yes: issue `Missing StorageClass`",
        "yes: the claim and its missing class, with `--deep`",
    ),
    "k3-missing-node-class": ("no", OTHER, "yes: issue `NodeClassNotFound` of the pool", OTHER_EVENTS),
    "k18-e2-vcpu-quota": ("no", OTHER, "yes: Activity has the NodeClaim's event with EC2's error", OTHER_EVENTS),
}
_MAX_SHOWN = 150
_SUBJECT = " doesn't run: "
# The site breaks code anywhere, and other words only between them.
_LONG = re.compile(r"[^\s<>]{25,}[^\s<>:,]")
# The tail says the same about preemption, or lists all requirements.
_TAILS = (" no new claims to deallocate", " still not schedulable", ", requirements=")


def document() -> str:
    """Return the page."""
    described = yaml.safe_load(DESCRIBED.read_text(encoding="utf-8"))
    planted = {each.path.name: each for each in cases()}
    rows = [row(planted[name], output) for name, output in described["cases"].items()]
    marks = [Counter(each[column].partition(":")[0] for each in rows) for column in range(2, 2 + len(TOOLS))]
    counts = [(tool, *(str(found[mark]) for mark in MARKS)) for tool, found in zip(TOOLS, marks, strict=True)]
    versions = [(tool, version.format(kubectl=described["kubectl"]), how) for tool, version, how in VERSIONS]
    parts = (
        HEAD,
        table(("tool", "version", "source of the cells"), versions),
        MEANING,
        table(("tool", *MARKS), counts),
        AFTER_COUNTS,
        table(("case and its fault", *TOOLS[:2]), [(f"{link}: {why}", *ran) for link, why, *ran, _, _, _ in rows]),
        BEFORE_READ,
        table(("case", *TOOLS[2:]), [(each[0].partition("]")[0].removeprefix("["), *each[4:]) for each in rows]),
    )
    return "".join(parts)


def row(case: DoctorCase, described: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a case: its name, its fault, and the report of each tool."""
    link = f"[{case.first[0]}](../../tests/preflight/doctor/planted/{case.path.name}/case.toml)"
    mark, *read = READ[case.path.name]
    ran = (_LONG.sub(r"`\g<0>`", each) for each in (f"{mark}: {shown(case, described)}", answer(case)))
    return link, case.why, *ran, *(f"{each} (read)" for each in read)


def shown(case: DoctorCase, described: Mapping[str, Any]) -> str:
    """Return what ``kubectl describe`` shows of a case.

    Raises:
        ValueError: The recorded output is about another dump.
    """
    of = str(described["command"]).split()[3]
    if case.pod is not None and case.pod.partition("/")[2] != of:
        again = "run 'python -m tests.e2e.doctor.describe'"
        raise ValueError(f"described.yaml must be about {case.pod}, got {of}; {again}")
    return shortened(described["output"])


def shortened(lines: Sequence[str]) -> str:
    """Return the last warning of each component, or else the condition, of an output of ``kubectl describe``."""
    last: dict[str, str] = {}
    for each in lines:
        if each.startswith("Warning "):
            author, _, message = each.split(" ", 2)[2].partition(": ")
            for tail in _TAILS:
                message = message.partition(tail)[0]
            last[author] = message if len(message) <= _MAX_SHOWN else f"{message[:_MAX_SHOWN]}..."
    if last:
        return "<br>".join(f"{author}: {message}" for author, message in last.items())
    conditions = [each for each in lines if each.endswith(" False")]
    return f"{', '.join(conditions or lines[:1])}, no event"


def answer(case: DoctorCase) -> str:
    """Return the first sentence of doctor and its confidence, without the name of the pod."""
    view = doctor_view(*case.diagnoses).diagnoses[0]
    cause = view.causes[0]
    mark = "yes" if cause.id in case.first else "no"
    return f"{mark}: {view.headline.partition(_SUBJECT)[2] or view.headline} ({cause.confidence})"


def main() -> None:
    """Write the page."""
    DOCUMENT.write_text(document(), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Which nodes a DaemonSet runs on, once whatever labels nodes at run time has done so.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_constructs.facts.software import LABELS_SET_AT_RUN_TIME
from gpu_constructs.preflight.model.answer import Answer, all_of, any_of
from gpu_constructs.preflight.model.cluster import DaemonSet, Taint
from gpu_constructs.preflight.model.label_values import Labels
from gpu_constructs.preflight.model.node_selection import selection
from gpu_constructs.preflight.model.taints import untolerated
from gpu_constructs.preflight.reading.unknown import mapping

# It labels the nodes that others then select.
_DISCOVERY = "node-feature-discovery"
Reached = list[tuple[DaemonSet, Answer]]


def reached(daemons: Iterable[DaemonSet], labels: Labels, taints: tuple[Taint, ...]) -> Reached:
    """Return for each DaemonSet whether it runs on a node with such labels and taints."""
    every = list(daemons)
    first = [(each, _reaches(each, labels, taints)) for each in every]
    discovered = any_of(answer for each, answer in first if _DISCOVERY in each.name)
    return [(each, _then(each, answer, discovered, labels, taints)) for each, answer in first]


def _then(daemon: DaemonSet, answer: Answer, discovered: Answer, labels: Labels, taints: tuple[Taint, ...]) -> Answer:
    plain = _without_run_time_labels(daemon)
    if answer is not Answer.NO or plain is daemon:
        return answer
    return all_of((discovered, _reaches(plain, labels, taints)))


def _without_run_time_labels(daemon: DaemonSet) -> DaemonSet:
    """Return a DaemonSet without what it asks of labels that software of the cluster sets itself."""
    wanted = mapping(daemon.pod.get("nodeSelector"))
    kept = {key: value for key, value in wanted.items() if not str(key).startswith(LABELS_SET_AT_RUN_TIME)}
    terms = selection(daemon.pod).terms or ()
    met = any(each.labels and all(one.key.startswith(LABELS_SET_AT_RUN_TIME) for one in each.labels) for each in terms)
    if len(kept) == len(wanted) and not met:
        return daemon
    pod = {**daemon.pod, "nodeSelector": kept}
    return replace(daemon, pod={key: value for key, value in pod.items() if not (met and key == "affinity")})


def _reaches(daemon: DaemonSet, labels: Labels, taints: tuple[Taint, ...]) -> Answer:
    """Say whether a DaemonSet runs on a node with such labels and taints."""
    kept_off = [answer for _, answer in untolerated(daemon.pod, taints, daemon=True)]
    tolerated = Answer.YES if not kept_off else Answer.NO if Answer.NO in kept_off else Answer.UNKNOWN
    taken = selection(daemon.pod).takes(labels)
    answer = all_of((tolerated, taken))
    return Answer.UNKNOWN if answer is Answer.YES and not daemon.exact else answer

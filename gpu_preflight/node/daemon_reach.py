"""Which nodes a DaemonSet runs on, after other software has set its labels at run time.

Source: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled (2026-08)
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpu_facts.labels import SET_AT_RUN_TIME
from gpu_preflight.model.answer import Answer, all_yes, any_yes
from gpu_preflight.model.label_values import Labels, Selection, Term
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.model.taints import Taint, evicting, untolerated

# It sets the node labels that other DaemonSets select.
_DISCOVERY = "node-feature-discovery"
Reached = list[tuple[DaemonSet, Answer]]


def reached(daemons: Iterable[DaemonSet], labels: Labels, taints: tuple[Taint, ...]) -> Reached:
    """Return for each DaemonSet whether it runs on a node with such labels and taints."""
    every = list(daemons)
    first = [(each, _reaches(each, labels, taints)) for each in every]
    discovered = any_yes(answer for each, answer in first if _DISCOVERY in each.name)
    return [(each, _then(each, answer, discovered, labels, taints)) for each, answer in first]


def refusing_taints(daemon: DaemonSet, taints: Iterable[Taint]) -> list[Taint]:
    """Return the taints that certainly exclude a DaemonSet from a node."""
    given, every = daemon.pod.tolerations, tuple(taints)
    found = (*untolerated(given, every, daemon=True), *evicting(given, every))
    return [taint for taint, answer in found if answer is Answer.NO]


def _then(daemon: DaemonSet, answer: Answer, discovered: Answer, labels: Labels, taints: tuple[Taint, ...]) -> Answer:
    plain = _without_run_time_labels(daemon)
    if answer is not Answer.NO or plain is daemon:
        return answer
    return all_yes((discovered, _reaches(plain, labels, taints)))


def _without_run_time_labels(daemon: DaemonSet) -> DaemonSet:
    """Return a DaemonSet without its requirements for labels that software of the cluster sets."""
    wanted = daemon.pod.selection
    kept = tuple(each for each in wanted.selector if not each.key.startswith(SET_AT_RUN_TIME))
    met = any(map(_is_met_at_run_time, wanted.terms or ()))
    if len(kept) == len(wanted.selector) and not met:
        return daemon
    selection = Selection(kept, None if met else wanted.terms)
    return replace(daemon, pod=replace(daemon.pod, selection=selection))


def _is_met_at_run_time(term: Term) -> bool:
    return bool(term.labels) and all(each.key.startswith(SET_AT_RUN_TIME) for each in term.labels)


def _reaches(daemon: DaemonSet, labels: Labels, taints: tuple[Taint, ...]) -> Answer:
    """Return whether a DaemonSet runs on a node with such labels and taints."""
    given = daemon.pod.tolerations
    kept_off = (answer for _, answer in (*untolerated(given, taints, daemon=True), *evicting(given, taints)))
    answer = all_yes((*kept_off, daemon.pod.selection.takes(labels)))
    return Answer.UNKNOWN if answer is Answer.YES and not daemon.exact else answer

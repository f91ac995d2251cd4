"""Values of cluster autoscaler's flags with which it does not start.

Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/config/flags/flags.go
"""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.cluster_autoscaler_flags import (
    EXPANDERS,
    FLAGS,
    FLAGS_VERSION,
    LAST_EXPANDER,
    PRICE_EXPANDER,
)
from gpu_facts.light_patterns import regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.model.discovery import DISCOVERY, EXPLICIT
from gpu_preflight.model.software import Autoscaler
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import is_expression
from gpu_preflight.rules.rule import Problem, rule

_FLAGS = "kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/config/flags/flags.go"
# Of <min>:<max>, of <label value>:<min>:<max> and of <min>:<max>:<name>.
_RANGE = regex(r"(\d+):(\d+)")
_GPU_RANGE = regex(r"[^:]*:(\d+):(\d+)")
_GROUP = regex(r"(\d+):(\d+):.+")
_TAGS = regex(r"asg:tag=.+")
_FORMS = {
    "cores-total": (_RANGE, "<min>:<max>"),
    "memory-total": (_RANGE, "<min>:<max>"),
    "gpu-total": (_GPU_RANGE, "<label value>:<min>:<max>"),
    EXPLICIT: (_GROUP, "<min>:<max>:<name>"),
    DISCOVERY: (_TAGS, "asg:tag=<key>,<key>"),
}
_LISTS = ("gpu-total", EXPLICIT, DISCOVERY)
_BLANK = regex(r"<[^<>]*>")
_NAME = regex(r"[a-z][a-z0-9-]+")
# So near is a slip of the pen, not a flag of another version.
_CLOSENESS = 0.9


@rule("GPU346", "error", source=_FLAGS)
def flag_with_which_cluster_autoscaler_does_not_start(case: Case) -> Iterator[Problem]:
    """Flag with which cluster autoscaler does not start.

    It ends while it reads its flags, starts again, and never makes a node.

    Fix: Give the flag a value of its form; cluster-autoscaler --help lists them.
    """
    for each in case.cluster.autoscalers:
        if each.kind == "cluster-autoscaler":
            for why in _refused(each):
                yield Problem(each, f"cluster autoscaler: {why}")


@rule("GPU347", "error", source=_FLAGS)
def flag_that_cluster_autoscaler_does_not_have(case: Case) -> Iterator[Problem]:
    """Flag that cluster autoscaler does not have.

    It ends with "unknown flag" and never makes a node.

    Fix: Correct the name of the flag.
    """
    for each in case.cluster.autoscalers:
        names = [one for one in each.flags if each.kind == "cluster-autoscaler" and _NAME.fullmatch(one)]
        for name in names:
            hint = did_you_mean(name, FLAGS, closeness=_CLOSENESS) if name not in FLAGS else ""
            if hint:
                read = each.version is not None and minor(each.version) == FLAGS_VERSION
                yield Problem(each, f"cluster autoscaler has no flag --{name}{hint}", unknown=not read)


def _refused(autoscaler: Autoscaler) -> Iterator[str]:
    for name, value in autoscaler.flags.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        # Of a flag that is given twice the last counts, but for those that list.
        words = text.split() or [""]
        for one in words if name in _LISTS else words[-1:]:
            if name in FLAGS and not _is_filled_in(text):
                yield from _of_one(name, one)


def _is_filled_in(text: str) -> bool:
    """Whether somebody writes a part of a value later, as in ``<your cluster>``."""
    return is_expression(text) or bool(_BLANK.search(text))


def _of_one(name: str, text: str) -> Iterator[str]:
    form, called = FLAGS[name]
    if not form.fullmatch(text):
        yield f"--{name} must be {called}, got {text!r}"
    elif name == "expander":
        yield from _expanders(text)
    elif name in _FORMS and not _fits(name, text):
        yield f"--{name} must be {_FORMS[name][1]}, got {text!r}"


def _fits(name: str, text: str) -> bool:
    found = _FORMS[name][0].fullmatch(text)
    return found is not None and (not found.groups() or int(found[1]) <= int(found[2]))


def _expanders(text: str) -> Iterator[str]:
    names = text.split(",")
    for name in names:
        if name == PRICE_EXPANDER:
            yield f"--expander {PRICE_EXPANDER} needs prices, which it does not know of AWS"
        elif name not in EXPANDERS:
            yield f"--expander must be of {', '.join(EXPANDERS)}, got {name!r}{did_you_mean(name, EXPANDERS)}"
    if len(set(names)) < len(names):
        yield f"--expander must name each once, got {text!r}"
    if LAST_EXPANDER in names[:-1]:
        yield f"--expander {LAST_EXPANDER} must be the last, got {text!r}"

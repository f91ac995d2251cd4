"""Workload objects that the API server rejects, and schedules that it parses.

The module also checks jobs of the training operator, which validates them in a webhook or when it reconciles them.

Sources: kubernetes/kubernetes v1.36.3 pkg/apis/apps/validation/validation.go, pkg/apis/batch/validation/validation.go;
kubeflow/training-operator v1.9.0 pkg/webhooks/

Schedules have the notation of CronJobs.

Source: robfig/cron v3.0.1 parser.go ``ParseStandard``
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.kubernetes import TRAINING_CONTAINERS
from gpu_facts.light import regex
from gpu_preflight.cluster.objects import lacks_images, may_be_excerpt
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import (
    Unknown,
    all_known,
    dig,
    is_expression,
    items,
    known_number,
    known_text,
    mapping,
    mappings,
)

_DESCRIPTORS = ("@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly")
_EVERY = regex(r"@every [-+]?(\d+(\.\d*)?(ns|us|µs|ms|s|m|h))+")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
# Min, max and names of each field: minute, hour, day, month, day of the week.
_FIELDS: tuple[tuple[int, int, tuple[str, ...]], ...] = (
    (0, 59, ()),
    (0, 23, ()),
    (1, 31, ()),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_STAYING = ("DaemonSet", "Deployment", "ReplicaSet", "StatefulSet")
_NAME = regex(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
# The controller adds 11 characters to the name of each job.
_LONGEST_CRON_JOB = 52
# Source: kubernetes/kubernetes v1.36.3 pkg/apis/batch/validation/validation.go ``validateTimeZone``
_LOCAL = "local"
_NONE = (0, "0", "0%")
# Numbers that must be at least 0, by the kind whose spec has them.
_COUNTS = {
    **dict.fromkeys(("DaemonSet", "ReplicaSet"), ("minReadySeconds", "replicas", "revisionHistoryLimit")),
    "Deployment": ("minReadySeconds", "progressDeadlineSeconds", "replicas", "revisionHistoryLimit"),
    "StatefulSet": ("minReadySeconds", "replicas", "revisionHistoryLimit"),
    "Job": (
        *("activeDeadlineSeconds", "backoffLimit", "backoffLimitPerIndex", "completions", "maxFailedIndexes"),
        *("parallelism", "ttlSecondsAfterFinished"),
    ),
    "CronJob": ("failedJobsHistoryLimit", "startingDeadlineSeconds", "successfulJobsHistoryLimit"),
}
# The labels by which the API server selects the pods of a job.
_GENERATED = ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name")


def is_schedule(text: str) -> bool:
    """Whether the API server accepts a text as a schedule. It doesn't accept a time zone in the text."""
    if text.startswith("@"):
        return text in _DESCRIPTORS or _EVERY.fullmatch(text) is not None
    fields = text.split()
    return len(fields) == len(_FIELDS) and all(
        _is_range(part, *bounds)
        for field, bounds in zip(fields, _FIELDS, strict=True)
        for part in field.split(",")
        if part
    )


def _is_range(part: str, least: int, most: int, names: tuple[str, ...]) -> bool:
    span, slash, step = part.partition("/")
    first, dash, last = span.partition("-")
    if slash and not (step.isdecimal() and int(step) > 0):
        return False
    if first in ("*", "?"):
        return True
    start = _number(first, least, names)
    end = _number(last, least, names) if dash else start
    return start is not None and end is not None and least <= start <= end <= most


def _number(text: str, least: int, names: tuple[str, ...]) -> int | None:
    if text.lower() in names:
        return least + names.index(text.lower())
    return int(text) if text.isdecimal() else None


def not_valid_owner(owner: Object) -> Iterator[Reason]:
    """Yield why the object that creates pods is rejected, so that it creates none."""
    for text in _faults(owner):
        answer = Answer.UNKNOWN if may_be_excerpt(owner) else Answer.NO
        yield Reason(answer, "refused", f"the API server rejects the {owner.kind}: {text}", rule="GPU406")
    # A machine without a time zone database can't check the name.
    zone = known_text(owner.spec.get("timeZone")) if owner.kind == "CronJob" else None
    if zone and zone.lower() != _LOCAL and not is_expression(zone) and _is_zone("UTC") and not _is_zone(zone):
        text = f"the API server may reject the CronJob: timeZone {zone} isn't a known time zone on this machine"
        yield Reason(Answer.UNKNOWN, "refused", text, rule="GPU406")
    yield from _missing_training_containers(owner)


def _missing_training_containers(owner: Object) -> Iterator[Reason]:
    """Yield the parts of a job without the container that the training operator requires."""
    name = TRAINING_CONTAINERS.get(owner.kind) if owner.group == "kubeflow.org" else None
    for part, pod in _parts(owner) if name else ():
        names = _names(dig(pod, "containers"))
        if names and name not in names:
            text = f"the training operator rejects the {owner.kind}: {part} must have a container named {name}"
            excerpt = owner.origin.resource is None and lacks_images(pod)
            answer = Answer.UNKNOWN if excerpt else Answer.NO
            yield Reason(answer, "refused", f"{text}, got {', '.join(names)}", rule="GPU406")


def _parts(owner: Object) -> Iterator[tuple[str, Any]]:
    """Yield the pods of a training operator's job, by the names of its parts."""
    for key, parts in owner.spec.items():
        for part, spec in mapping(parts).items() if key.endswith("ReplicaSpecs") else ():
            yield part, dig(spec, "template", "spec")


def _names(containers: Any) -> list[str]:
    """Return the names of containers; none if one of them isn't known."""
    written = [known_text(dig(each, "name")) for each in items(containers)]
    return all_known([each if each is not None and _is_known(each) else None for each in written])


def _faults(owner: Object) -> Iterator[str]:
    if owner.group == "apps" and owner.kind in _STAYING:
        yield from _name_errors(owner)
        yield from _count_errors(owner.spec, owner.kind)
        yield from _long_running_errors(owner)
    elif owner.group == "batch" and owner.kind == "Job":
        yield from _name_errors(owner)
        yield from _job_selector_errors(owner.spec)
        yield from _job_errors(owner.spec)
    elif owner.group == "batch" and owner.kind == "CronJob":
        yield from _name_errors(owner)
        yield from _cron_job_errors(owner)
        yield from _job_errors(mapping(dig(owner.spec, "jobTemplate", "spec")))


def _is_known(value: Any) -> bool:
    return not isinstance(value, Unknown) and not is_expression(str(value))


def _name_errors(owner: Object) -> Iterator[str]:
    name = dig(owner.content, "metadata", "name")
    if name is not None and _is_known(name) and not _NAME.fullmatch(str(name)):
        yield f"metadata.name must consist of lower-case letters, digits, '-' and '.', got {name!r}"


def _count_errors(spec: Mapping[str, Any], kind: str) -> Iterator[str]:
    for name in _COUNTS[kind]:
        if (known_number(spec.get(name)) or 0) < 0:
            yield f"{name} must be at least 0, got {spec[name]}"


def _long_running_errors(owner: Object) -> Iterator[str]:
    pod, strategy = mapping(dig(owner.spec, "template", "spec")), mapping(owner.spec.get("strategy"))
    policy, rolling = pod.get("restartPolicy"), strategy.get("rollingUpdate")
    if policy is not None and _is_known(policy) and policy != "Always":
        yield f"restartPolicy of its pods must be Always, got {policy}"
    if pod.get("activeDeadlineSeconds") is not None:
        yield "its pods must have no activeDeadlineSeconds"
    if (known_number(dig(owner.spec, "ordinals", "start")) or 0) < 0:
        yield f"ordinals.start must be at least 0, got {owner.spec['ordinals']['start']}"
    if owner.kind != "Deployment":
        return
    progress, ready = (known_number(owner.spec.get(f"{each}Seconds")) for each in ("progressDeadline", "minReady"))
    if progress is not None and 0 <= progress <= (ready or 0):
        yield f"progressDeadlineSeconds must be more than minReadySeconds, got {progress} and {ready or 0}"
    if strategy.get("type") == "Recreate" and rolling is not None:
        yield "strategy Recreate must have no rollingUpdate"
    if dig(rolling, "maxSurge") in _NONE and dig(rolling, "maxUnavailable") in _NONE:
        yield "maxSurge and maxUnavailable must not both be 0"


def _job_selector_errors(spec: Mapping[str, Any]) -> Iterator[str]:
    manual, labels = spec.get("manualSelector"), mapping(dig(spec, "selector", "matchLabels"))
    other = [key for key in labels if key not in _GENERATED]
    if other and not manual:
        yield f"a selector, here of {other[0]}, must have manualSelector: true; remove it"


def _job_errors(spec: Mapping[str, Any]) -> Iterator[str]:
    indexed = spec.get("completionMode") == "Indexed"
    if indexed and spec.get("completions") is None:
        yield "completionMode Indexed must have completions"
    if spec.get("backoffLimitPerIndex") is not None and _is_known(spec.get("completionMode")) and not indexed:
        yield "backoffLimitPerIndex must have completionMode Indexed"
    if spec.get("successPolicy") is not None and _is_known(spec.get("completionMode")) and not indexed:
        yield "successPolicy must have completionMode Indexed"
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield "maxFailedIndexes must have backoffLimitPerIndex"
    yield from _count_errors(spec, "Job")
    yield from _failure_policy_errors(spec)


def _failure_policy_errors(spec: Mapping[str, Any]) -> Iterator[str]:
    policy = spec.get("podFailurePolicy")
    restarts = dig(spec, "template", "spec", "restartPolicy")
    # Another rule reports that its pods must end.
    if policy is not None and restarts == "OnFailure":
        yield "podFailurePolicy must have restartPolicy Never, got OnFailure"
    for each in mappings(dig(policy, "rules")):
        codes = mapping(each.get("onExitCodes"))
        if codes.get("operator") == "In" and 0 in items(codes.get("values")):
            yield "onExitCodes with operator In must not contain 0"


def _cron_job_errors(owner: Object) -> Iterator[str]:
    name, schedule = owner.name, owner.spec.get("schedule")
    if _is_known(name) and len(name) > _LONGEST_CRON_JOB:
        yield f"metadata.name must have at most {_LONGEST_CRON_JOB} characters, got {len(name)}"
    if isinstance(schedule, str) and _is_known(schedule) and not is_schedule(schedule):
        yield f"schedule must be a cron expression such as '0 6 * * 1-5', got {schedule!r}"
    zone = known_text(owner.spec.get("timeZone"))
    if zone is not None and (not zone or zone.lower() == _LOCAL):
        yield f"timeZone must name a time zone such as 'Etc/UTC', got {zone!r}"
    yield from _count_errors(owner.spec, "CronJob")


def _is_zone(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        return bool(ZoneInfo(name))
    except (OSError, ValueError, KeyError):
        return False

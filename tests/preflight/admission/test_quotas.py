"""Earlier workloads of a namespace use up its quota, and later ones get the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gpu_preflight.admission.quotas import NamespaceQuotas
from gpu_preflight.cluster.clusters import workloads
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.pod import Workload, read_pod
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown
from tests.preflight.readers import manifest

QUOTA = manifest("ResourceQuota", {"hard": {"requests.nvidia.com/gpu": "4", "pods": "6"}}, name="ml")


def pods(name: str, gpus: int, *, kind: str = "Deployment", **spec: Any) -> Workload:
    """A workload of one container."""
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus, "cpu": 1, "memory": "1Gi"}}}
    of_kind = {"apiVersion": "batch/v1" if kind == "Job" else "apps/v1", "kind": kind, "metadata": {"name": name}}
    content = {**of_kind, "spec": {"template": {"spec": {"containers": [container]}}, **spec}}
    [found] = workloads([Object(content, Origin("file", f"{kind} {name}"))])
    return found


def refused(*written: Workload) -> list[str]:
    """The names of those that the quota refuses, beside the others."""
    quotas = NamespaceQuotas([QUOTA], written)
    return [each.name.rpartition("/")[2] for each in written if list(quotas.refusals(each))]


def test_the_last_one_finds_nothing_left() -> None:
    assert refused(pods("a", 2), pods("b", 2), pods("c", 1)) == ["c"]


def test_what_is_refused_takes_nothing() -> None:
    assert refused(pods("a", 8), pods("b", 4)) == ["a"]


def test_as_many_pods_as_fit_take_their_share() -> None:
    # Two of the three are let in, and leave nothing.
    assert refused(pods("a", 2, replicas=3), pods("b", 1)) == ["a", "b"]


def test_every_resource_of_the_quota_counts() -> None:
    assert refused(pods("a", 0, replicas=6), pods("b", 1)) == ["b"]


def test_a_job_ends_and_leaves_its_place() -> None:
    assert refused(pods("a", 4, kind="Job"), pods("b", 4)) == []


def test_a_job_that_waits_takes_nothing() -> None:
    assert refused(pods("a", 4, kind="Job", suspend=True), pods("b", 4)) == []


def test_a_job_is_refused_next_to_pods_that_stay() -> None:
    assert refused(pods("a", 4), pods("b", 1, kind="Job")) == ["b"]


def test_a_workload_of_elsewhere_is_checked_after_all() -> None:
    quotas = NamespaceQuotas([QUOTA], [pods("a", 3)])

    [reason] = quotas.refusals(pods("new", 2))
    assert reason.text == (
        "requests 2 nvidia.com/gpu in total, but the namespace has 1 of 4 nvidia.com/gpu left "
        "after the workloads before it (ResourceQuota ml)"
    )


def test_pods_next_to_an_unknown_number_may_be_refused() -> None:
    quotas = NamespaceQuotas(
        [QUOTA], written := [pods("a", 4, replicas=Unknown("${Later}")), pods("b", 1), pods("c", 5)]
    )

    assert [each.answer for one in written for each in quotas.refusals(one)] == [Answer.UNKNOWN, Answer.NO]


def in_scope(pod: dict[str, Any], **spec: Any) -> list[Answer]:
    """The result of a quota of no GPUs, in some scope, for a pod with one GPU."""
    quota = manifest("ResourceQuota", {"hard": {"requests.nvidia.com/gpu": "0"}, **spec}, name="none")
    job = pods("a", 1, kind="Job")
    job = replace(job, pod=read_pod({**job.pod.written, **pod}))
    return [each.answer for each in NamespaceQuotas([quota], [job]).refusals(job)]


def of_class(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"scopeName": "PriorityClass", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("pod", "spec", "answer"),
    [
        ({}, {"scopes": ["NotTerminating"]}, Answer.NO),
        ({}, {"scopes": ["Terminating"]}, None),
        ({"activeDeadlineSeconds": 60}, {"scopes": ["Terminating"]}, Answer.NO),
        ({"activeDeadlineSeconds": Unknown("${S}")}, {"scopes": ["Terminating"]}, Answer.UNKNOWN),
        ({}, {"scopes": ["BestEffort"]}, None),
        ({}, {"scopes": ["NotBestEffort"]}, Answer.NO),
        ({}, {"scopes": ["CrossNamespacePodAffinity"]}, None),
        ({"affinity": {"podAffinity": {}}}, {"scopes": ["CrossNamespacePodAffinity"]}, Answer.UNKNOWN),
        ({"priorityClassName": "high"}, {"scopeSelector": of_class("In", "high")}, Answer.NO),
        ({"priorityClassName": "high"}, {"scopeSelector": of_class("NotIn", "high")}, None),
        ({"priorityClassName": Unknown("${P}")}, {"scopeSelector": of_class("In", "high")}, Answer.UNKNOWN),
        ({}, {"scopeSelector": of_class("Exists")}, None),
        ({}, {"scopeSelector": of_class("DoesNotExist")}, Answer.NO),
        ({}, {"scopes": ["OfTomorrow"]}, Answer.UNKNOWN),
    ],
)
def test_a_scope_says_which_pods_count(pod: dict[str, Any], spec: dict[str, Any], answer: Answer | None) -> None:
    assert in_scope(pod, **spec) == ([] if answer is None else [answer])

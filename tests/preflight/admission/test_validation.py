"""Pods that the API server rejects and accepts."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings

from gpu_preflight.admission.validation import not_valid
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.pod import read_pod
from tests.preflight.strategies import mistakes
from tests.preflight.strategies.pods import specs
from tests.preflight.strategies.vocabulary import Json

# Other parts of preflight report these: amounts of devices, and words that the schema lists.
ELSEWHERE: tuple[Json, ...] = (
    {"requests": {"nvidia.com/gpu": "1"}},
    {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
    {"limits": {"nvidia.com/gpu": "0.5"}},
    {"limits": {"nvidia.com/gpu": "-1"}},
    {"limits": {"gpu": "1"}},
    {"limits": {"cpu": "one"}},
    {"key": "nvidia.com/gpu", "operator": "exists"},
    {"key": "team", "operator": "Gt", "values": ["five"]},
    {"maxSkew": 1, "topologyKey": "team"},
    {"overhead": {"cpu": "1"}},
)
MISTAKES = [(add, part) for add, parts in mistakes.WAYS for part in parts if part not in ELSEWHERE]


def refusals(spec: Json, *, version: str | None = "1.36", priority: int | None = 0) -> list[Any]:
    return list(not_valid(read_pod(spec), priority, Cluster("demo", version=version)))


def of_container(**resources: Json) -> Json:
    return {"containers": [{"name": "main", "image": "app:1", "resources": resources}]}


@pytest.mark.parametrize(("add", "part"), MISTAKES)
def test_refuses(add: Any, part: Json) -> None:
    spec = of_container()
    add(spec, copy.deepcopy(part))

    assert refusals(spec)
    assert {each.rule for each in refusals(spec)} == {"GPU405"}


@settings(max_examples=100)
@given(specs())
def test_takes_pods_that_are_valid(spec: Json) -> None:
    spec["tolerations"] = [each for each in spec.get("tolerations", ()) if each.get("operator") not in ("Gt", "Lt")]

    assert refusals(spec) == []


@pytest.mark.parametrize(
    "spec",
    [
        of_container(requests={"cpu": "1"}, limits={"cpu": "1"}),
        of_container(limits={"hugepages-2Mi": "64Mi", "cpu": "1"}),
        of_container(requests={"cpu": "1"}) | {"resources": {"requests": {"cpu": "1"}}},
        of_container(limits={"cpu": "1"}) | {"resources": {"limits": {"cpu": "1"}}},
        {"tolerations": [{"operator": "Exists", "value": "${Value}"}]},
        {"nodeSelector": {"team": "${Team}"}},
        {"hostNetwork": True, "containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 80}]}]},
        {"priority": 0},
        {"preemptionPolicy": "PreemptLowerPriority"},
        {"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.0.0.2", "fd00::2"]}},
        {"hostname": "a-1", "subdomain": "${Later}", "activeDeadlineSeconds": 1, "os": {"name": "linux"}},
        {"securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "a.json"}}},
        {"hostUsers": False, "containers": [{"name": "main", "securityContext": {"procMount": "Unmasked"}}]},
        {"containers": [{"name": "main", "restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart"}]}]},
        # `kubectl debug` adds them to a pod that has a node.
        {"nodeName": "n1", "ephemeralContainers": [{"name": "debug"}]},
        {
            "containers": [
                {"name": "a", "ports": [{"containerPort": 80, "hostPort": 80}]},
                {"name": "b", "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "UDP"}]},
            ]
        },
    ],
)
def test_takes_the_nearest_that_is_valid(spec: Json) -> None:
    assert refusals(spec) == []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            of_container(requests={"cpu": "1001m"}) | {"resources": {"requests": {"cpu": "1"}}},
            "its containers request 1001m cpu, the pod requests 1",
        ),
        (
            of_container(limits={"cpu": "1001m"}) | {"resources": {"limits": {"cpu": "1"}}},
            "container main has a limit of 1001m cpu, the pod has a limit of 1",
        ),
        (
            of_container(requests={"vpc.amazonaws.com/efa": "1"}),
            "container main must have a limit of vpc.amazonaws.com/efa that equals its request",
        ),
        (
            of_container(requests={"memory": "1Gi", "hugepages-2Mi": "2Mi"}, limits={"hugepages-2Mi": "4Mi"}),
            "container main must request as much hugepages-2Mi as its limit",
        ),
        ({"dnsPolicy": "None"}, "dnsPolicy None must have a dnsConfig with a nameserver"),
        ({"ephemeralContainers": [{"name": "debug"}]}, "a new pod must have no ephemeralContainers"),
        ({"os": {"name": "macos"}}, "os.name must be linux or windows, got macos"),
        ({"hostname": "Main"}, "hostname must be a DNS label, got Main"),
        (
            {"securityContext": {"seccompProfile": {"type": "Localhost"}}},
            "seccompProfile of type Localhost must have a localhostProfile",
        ),
        ({"hostPID": True, "shareProcessNamespace": True}, "hostPID and shareProcessNamespace must not both be true"),
    ],
)
def test_says_what_is_wrong(spec: Json, message: str) -> None:
    assert f"the API server rejects it: {message}" in [each.text for each in refusals(spec)]


@pytest.mark.parametrize(("version", "answer"), [("1.36", Answer.NO), ("1.37", Answer.UNKNOWN), (None, Answer.UNKNOWN)])
def test_a_newer_cluster_may_compare_numbers(version: str | None, answer: Answer) -> None:
    spec = {"tolerations": [{"key": "example.com/sla", "operator": "Gt", "value": "950"}]}

    assert [each.answer for each in refusals(spec, version=version)] == [answer]


def test_a_priority_that_is_not_known_is_not_compared() -> None:
    assert refusals({"priority": 7}, priority=None) == []
    assert [each.answer for each in refusals({"priority": 7})] == [Answer.UNKNOWN]
    assert [each.answer for each in refusals({"priority": 7, "priorityClassName": "high"})] == [Answer.NO]


@pytest.mark.parametrize(("version", "answer"), [("1.35", Answer.NO), ("1.34", Answer.UNKNOWN), (None, Answer.UNKNOWN)])
def test_an_older_cluster_drops_a_field(version: str | None, answer: Answer) -> None:
    spec = {"containers": [{"name": "main", "restartPolicyRules": [{"action": "Restart"}]}]}

    assert [each.answer for each in refusals(spec, version=version)] == [answer]


def test_a_pod_preempts_as_its_class_does() -> None:
    pod = read_pod({"preemptionPolicy": "Never"})

    assert [each.answer for each in not_valid(pod, 0, Cluster("demo"), preempts=True)] == [Answer.UNKNOWN]
    assert list(not_valid(pod, 0, Cluster("demo"), preempts=False)) == []

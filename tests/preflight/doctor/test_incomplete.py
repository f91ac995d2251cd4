"""A value that is missing, old or of a wrong type gives neither a proven cause nor silence."""

from __future__ import annotations

from copy import deepcopy
from typing import Any, cast

import pytest

from gpu_preflight.doctor.capacity import controller, controller_faults, fitting_groups, groups
from gpu_preflight.doctor.catalogue import ranked
from gpu_preflight.doctor.cause import Cause
from gpu_preflight.doctor.diagnosis import causes, find_target
from gpu_preflight.doctor.live import Live
from gpu_preflight.reading.objects import parse_objects
from gpu_preflight.reading.unknown import HIDDEN, Unknown
from tests.preflight.doctor.cases import cases
from tests.preflight.doctor.clusters import GPU, NEW_NODE, cluster, failed_attachment, ids, node, pod, roots, waiting

_GPU_NODE = node(capacity={GPU: "1"}, allocatable={GPU: "1"}, spec={"unschedulable": True})


class _Case:
    """A copy of a written case to change."""

    def __init__(self, name: str) -> None:
        case = next(each for each in cases() if each.name == f"written/{name}")
        self.dump, self.pod = deepcopy(case.live().dump), case.pod

    def add(self, *objects: dict[str, Any]) -> None:
        self.dump.objects += parse_objects({"apiVersion": "v1", "kind": "List", "items": list(objects)}, "added.yaml")

    def each(self, kind: str) -> list[dict[str, Any]]:
        return [cast("dict[str, Any]", one.content) for one in self.dump.objects if one.kind == kind]

    def unlist(self, kind: str) -> None:
        self.dump.complete -= {kind}
        self.dump.listed -= {kind}

    def found(self) -> dict[str, Cause]:
        live = Live(self.dump)
        found = ranked(causes(live, find_target(live, str(self.pod), None)))
        return {each.id: each for each in reversed((*found.roots, *found.effects))}


_AUTOSCALER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "cluster-autoscaler", "namespace": "kube-system"},
    "spec": {"replicas": 1},
    "status": {"readyReplicas": 1},
}


def test_built_in_pools_are_not_the_proven_cause_if_other_nodes_may_have_gpus() -> None:
    complete, with_node, with_autoscaler, without_list = (_Case("M1-only-built-in-pools") for _ in range(4))
    with_node.add(_GPU_NODE)
    with_autoscaler.add(_AUTOSCALER)
    without_list.unlist("Deployment")

    every = (complete, with_node, with_autoscaler, without_list)
    assert [each.found()["M1"].confidence for each in every] == ["proven", "possible", "likely", "possible"]


def test_a_missing_nodepool_is_likely_if_another_autoscaler_may_know_a_group() -> None:
    case = _Case("K2-no-nodepool")
    assert case.found()["K2"].confidence == "proven"

    case.add(_AUTOSCALER)

    assert case.found()["K2"].confidence == "likely"


def test_a_message_of_karpenter_without_a_time_may_be_old() -> None:
    case = _Case("K8-four-gpus")
    for each in case.each("Event"):
        each["metadata"].pop("creationTimestamp", None)
        for name in ("firstTimestamp", "lastTimestamp", "eventTime"):
            each[name] = None

    assert case.found()["K8"].confidence == "likely"


def test_a_nodepool_reports_that_its_class_is_not_ready_even_if_the_class_has_no_status() -> None:
    case = _Case("K3-subnets-not-found")
    for each in case.each("EC2NodeClass"):
        each["status"] = {}

    assert case.found()["K3"].confidence == "likely"


def test_a_label_that_the_pod_excludes_is_not_a_label_that_auto_mode_lacks() -> None:
    case = _Case("M2-labels-of-karpenter")
    assert "M2" in case.found()
    excluded = {"key": "karpenter.k8s.aws/instance-gpu-name", "operator": "NotIn", "values": ["t4"]}
    terms = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [excluded]}]}
    }
    for each in case.each("Pod"):
        if each["metadata"]["name"] == "train":
            each["spec"] |= {"nodeSelector": {}, "affinity": {"nodeAffinity": terms}}

    assert "M2" not in case.found()


def test_a_nodeclaim_of_unknown_age_is_not_called_new() -> None:
    case = _Case("K20-never-registered")
    for each in case.each("NodeClaim"):
        del each["metadata"]["creationTimestamp"]

    found = case.found()

    assert "K17" not in found
    assert (found["K20"].confidence, "for an unknown time" in found["K20"].message) == ("likely", True)


@pytest.mark.parametrize(("time", "expected"), [("2026-11-20 10:00:00 +0000 UTC", "proven"), ("", "likely")])
def test_a_status_without_a_time_proves_nothing(time: str, expected: str) -> None:
    case = _Case("C7-backoff-after-timeout")
    for each in case.each("ConfigMap"):
        each["data"]["status"] = f"time: {time}\n" + each["data"]["status"].split("\n", 1)[1]

    assert case.found()["C7"].confidence == expected


def test_a_low_priority_is_possible_if_events_are_not_in_the_dump() -> None:
    case = _Case("C15-priority-below-cutoff")
    case.unlist("Event")
    case.dump.objects = [each for each in case.dump.objects if each.kind != "Event"]

    assert (case.found()["C15"].confidence, case.found()["C15"].excluded) == ("possible", ())


def test_unknown_numbers_of_nodes_are_not_called_zero() -> None:
    case = _Case("C10-cluster-unhealthy")
    for each in case.each("ConfigMap"):
        each["data"]["status"] = "time: 2026-11-20 10:00:00 +0000 UTC\nclusterWide: {health: {status: Unhealthy}}\n"

    assert "0 of 0" not in case.found()["C10"].message


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("InsufficientInstanceCapacity", "2026-11-20T09:57:00+00:00", ("E1", "proven")),
        ("InsufficientInstanceCapacity", "2026-11-19T09:57:00+00:00", ("E1", "likely")),
        ("InsufficientInstanceCapacity", None, ("E1", "likely")),
        ("Client.InternalError: Client error on launch", "2026-11-20T09:57:00+00:00", ("E8", "likely")),
        ("Client.InvalidKMSKey.InvalidState", "2026-11-20T09:57:00+00:00", ("E8", "proven")),
    ],
)
def test_an_old_activity_and_an_internal_error_are_likely(text: str, start: Any, expected: tuple[str, str]) -> None:
    case = _Case("E1-activity")
    for _, answer in case.dump.aws["Activities"]:
        for each in answer:
            each |= {"StatusMessage": text, "StartTime": start}

    id, confidence = expected
    assert case.found()[id].confidence == confidence


@pytest.mark.parametrize(("other", "expected"), [("p5.48xlarge", True), ("g5.xlarge", False)])
def test_a_free_reservation_of_another_type_does_not_help(other: str, expected: bool) -> None:
    case = _Case("E9-reservation-full")
    del case.dump.aws["Activities"]
    for _, answer in case.dump.aws["nodegroup"]:
        answer["capacityType"] = "CAPACITY_BLOCK"
    for _, answer in case.dump.aws["CapacityReservations"]:
        answer.append({"InstanceType": other, "State": "active", "AvailableInstanceCount": 1})

    assert ("E9" in case.found()) == expected


def test_a_role_has_no_access_if_aws_auth_certainly_does_not_exist() -> None:
    case = _Case("J2-not-in-aws-auth")
    case.dump.objects = [each for each in case.dump.objects if each.name != "aws-auth"]
    assert "J2" not in case.found()

    case.dump.absent.add("kube-system/aws-auth")

    assert case.found()["J2"].confidence == "likely"


@pytest.mark.parametrize("quote", ["", "'", '"'])
def test_a_role_that_aws_auth_names_has_access_however_it_is_quoted(quote: str) -> None:
    case = _Case("J2-not-in-aws-auth")
    for each in case.each("ConfigMap"):
        if each["metadata"]["name"] == "aws-auth":
            each["data"]["mapRoles"] = f"- rolearn: {quote}arn:aws:iam::111122223333:role/prod-node{quote}\r\n"

    assert "J2" not in case.found()


def test_pods_that_are_not_in_the_dump_report_nothing_about_the_network_plugin() -> None:
    case = _Case("J8-network-plugin-crashes")
    case.dump.objects = [each for each in case.dump.objects if not each.name.startswith("aws-node")]
    case.unlist("Pod")

    assert case.found()["J8"].message.endswith("no pod of the VPC CNI is in the dump")


def test_an_answer_about_a_node_group_in_another_form_is_ignored() -> None:
    case = _Case("H6-repair-off")
    case.dump.aws["nodegroup"] = [("aws.json", "gpu")]

    assert "H1" in case.found()


def test_a_daemonset_without_a_status_is_not_called_unscheduled() -> None:
    case = _Case("H4-dcgm-server-not-on-gpu-nodes")
    for each in case.each("DaemonSet"):
        each.pop("status", None)

    assert "H4" not in case.found()


# Kueue.


def test_a_gate_of_kueue_without_a_queue_is_named() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    case = _Case("Q6-quota-in-use")
    case.add(
        pod("gated", spec={"schedulingGates": [{"name": "kueue.x-k8s.io/topology"}]}, status={"conditions": [gated]})
    )
    case.pod = "default/gated"

    assert [*case.found()] == ["P9"]


def test_an_unknown_message_of_kueue_is_repeated() -> None:
    case = _Case("Q6-quota-in-use")
    for each in case.each("Workload"):
        for condition in each["status"]["conditions"]:
            condition["message"] = "a text of another version"

    assert "a text of another version" in case.found()["A11"].message


@pytest.mark.parametrize(("is_listed", "expected"), [(True, "Q1"), (False, "A11")])
def test_a_suspended_job_without_a_workload_is_explained(is_listed: bool, expected: str) -> None:
    case = _Case("Q6-quota-in-use")
    case.dump.objects = [each for each in case.dump.objects if each.kind != "Workload"]
    if not is_listed:
        case.unlist("Workload")

    assert [(each.id, each.confidence) for each in case.found().values()] == [(expected, "likely")]


# Node groups and controllers.


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]}},
        {"labels": {"node.kubernetes.io/instance-type": "g8.xlarge"}},
        {"capacity": {GPU: "4"}},
    ],
)
def test_a_group_is_known_by_its_node_even_if_the_node_leaves_or_its_type_is_new(change: dict[str, Any]) -> None:
    labels = {**change.get("labels", {}), "eks.amazonaws.com/nodegroup": "new"}
    own = node("ip-10-0-9-9", **{"spec": {"taints": []}, **change, "labels": labels})
    limits = {"resources": {"limits": {GPU: change.get("capacity", {}).get(GPU, "1")}}}
    waits = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
    live = cluster("karpenter", pod(container=limits, status=waits), own)
    target = find_target(live, "train", None)

    assert [each.name for each in fitting_groups(live, target)] == ["new"]
    assert next(each.gpus for each in groups(live) if each.name == "new")


def test_a_controller_without_a_status_is_not_called_broken() -> None:
    deployment = {**_AUTOSCALER, "status": None}
    live = cluster("karpenter", pod(), deployment)
    found = controller(live, "cluster-autoscaler")
    assert found is not None

    assert controller_faults(live, found) is None


def test_a_controller_with_a_ready_pod_works_whatever_its_status_is() -> None:
    case = _Case("K2-no-nodepool")
    for each in case.each("Deployment"):
        each["status"] = {"observedGeneration": 1}
    live = Live(case.dump)
    found = controller(live, "karpenter")
    assert found is not None

    assert controller_faults(live, found) is None


# Pods and volumes.


def test_a_claim_without_a_status_is_not_called_unbound() -> None:
    case = _Case("V2-unbound-immediate-claim")
    for each in case.each("PersistentVolumeClaim"):
        each.pop("status", None)

    assert case.found()["V2"].confidence == "likely"


def test_the_volume_that_kubernetes_creates_for_a_pod_is_one_of_its_volumes() -> None:
    claim, attachment = failed_attachment("train-scratch", "denied")
    volumes = {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]}
    created = pod(node=NEW_NODE, spec=volumes, status=waiting("ContainerCreating"))

    assert "V8" in ids(cluster("karpenter", created, _GPU_NODE, claim, attachment))


@pytest.mark.parametrize(("container", "expected"), [({}, True), ({"resources": {}}, False)])
def test_fargate_stops_only_pods_that_request_gpus(container: dict[str, Any], expected: bool) -> None:
    on_fargate = pod(container=container, spec={"schedulerName": "fargate-scheduler"})

    assert ("A14" in ids(cluster("karpenter", on_fargate))) == expected


@pytest.mark.parametrize("key", ["node.kubernetes.io/network-unavailable", "fsx.csi.aws.com/agent-not-ready"])
def test_a_node_that_is_being_set_up_needs_no_toleration(key: str) -> None:
    message = "0/3 nodes are available: 3 node(s) had untolerated taint(s)."
    waits = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]}
    taints = {"taints": [{"key": key, "effect": "NoSchedule"}]}
    new = node(capacity={GPU: "1"}, allocatable={GPU: "1"}, spec=taints)

    found = roots(cluster("managed", pod(status=waits), new))

    assert [each.subject for each in found if each.id == "S3"] == [f"Node {NEW_NODE}"]
    assert "P5" not in [each.id for each in found]


def test_a_hidden_variable_of_a_device_plugin_is_unknown() -> None:
    """A record has no values of variables. MIG_STRATEGY decides about the resources that new nodes offer."""
    live = cluster("karpenter")
    [plugin] = [each for each in live.objects("DaemonSet") if "plugin" in each.name]
    plugin.content["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "MIG_STRATEGY", "value": HIDDEN}]
    [daemon] = [each for each in live.case.cluster.daemon_sets if each.name == plugin.name]
    assert isinstance(daemon.pod.every_container[0].env["MIG_STRATEGY"], Unknown)

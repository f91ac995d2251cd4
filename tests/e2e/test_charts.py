"""Real charts, rendered and installed by the real helm on a real API server, with the values that we emit.

No controllers run: order, acceptance and waiting of helm are real, that programs run is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_constructs.autoscaling.karpenter import controller_values
from gpu_constructs.devices.device_plugin import efa_plugin_values
from gpu_constructs.devices.dra_driver import dra_driver_values
from gpu_constructs.devices.gpu_operator import gpu_operator_values
from gpu_constructs.exposure.load_balancer_controller import controller_values as controller_values_of_load_balancers
from gpu_constructs.metrics.prometheus_stack import stack_values
from gpu_constructs.nodes.node_termination_handler import handler_values
from gpu_constructs.pod_scaling.gpu_horizontal_autoscaler import keda_values
from gpu_constructs.pod_scaling.rightsizing import controller_values as controller_values_of_vpa
from gpu_constructs.pod_scaling.signals import adapter_values
from gpu_constructs.queueing.kai import kai_values
from gpu_constructs.queueing.kueue import DYNAMO_VALUES, kueue_values
from gpu_facts import versions
from gpu_facts.charts import NAMESPACES
from gpu_facts.software.daemon_sets import daemon_sets_of_chart
from gpu_rehearsal.cluster.client import ApiError, Client, Object
from gpu_rehearsal.processes import wait_until
from tests.e2e.helm import Helm, namespace_of
from tools import charts as packed

MANAGED = {"kube-system", *NAMESPACES.values()}
# The emitted values for each chart that a Go module carries.
OF_KARPENTER = controller_values(cluster_name="gpu", queue_name="gpu", gates={"staticCapacity": True})
OF_KUEUE = kueue_values(ready_minutes=45, fair_sharing=True, unmanaged=MANAGED)
OF_LOAD_BALANCERS = controller_values_of_load_balancers(
    cluster_name="gpu", region="us-east-1", vpc_id="vpc-0123456789abcdef0", isolated=True
)
EMITTED: list[tuple[versions.Chart, Mapping[str, Any]]] = [
    *((release.crds, {}) for release in versions.KARPENTER_RELEASES.values()),
    *((release.controller, OF_KARPENTER) for release in versions.KARPENTER_RELEASES.values()),
    (versions.JOBSET, {}),
    (versions.DRA_DRIVER, dra_driver_values()),
    (versions.KUEUE, OF_KUEUE),
    (
        versions.NODE_TERMINATION_HANDLER,
        handler_values(queue_url="https://sqs.us-east-1.amazonaws.com/1/a", region="us-east-1", drain_seconds=300),
    ),
    # Charts that no Go module has.
    (versions.LOAD_BALANCER_CONTROLLER, OF_LOAD_BALANCERS),
    (versions.EFA_DEVICE_PLUGIN, efa_plugin_values()),
    (versions.GPU_OPERATOR, gpu_operator_values({"exclusive": "{}"})),
    (versions.KUBE_PROMETHEUS_STACK, stack_values(storage_gib=50, storage_class="gp3", retention_days=15)),
    (versions.PROMETHEUS_ADAPTER, adapter_values("http://prometheus.monitoring.svc:9090")),
    (versions.KEDA, keda_values()),
    (versions.VERTICAL_POD_AUTOSCALER, controller_values_of_vpa()),
    (versions.LEADER_WORKER_SET, {}),
    (versions.KUBERAY, {}),
    (versions.KAI_SCHEDULER, kai_values()),
    (versions.DYNAMO, DYNAMO_VALUES),
]


@pytest.mark.parametrize(("pin", "values"), EMITTED, ids=lambda each: getattr(each, "name", ""))
def test_every_object_of_a_chart_is_accepted(pin: versions.Chart, values: Mapping[str, Any], helm: Helm) -> None:
    client, objects = helm.client, helm.render(pin, values)

    definitions = [each for each in objects if each["kind"] == "CustomResourceDefinition"]
    # Webhooks without a server would reject later objects.
    others = [each for each in objects if each not in definitions and "Webhook" not in each["kind"]]
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace_of(pin)}})
    applied = [client.apply(each) for each in (*definitions, *others)]
    assert [each["metadata"]["name"] for each in applied] == [
        each["metadata"]["name"] for each in (*definitions, *others)
    ]
    for each in (*others, *definitions):
        client.delete(client.object_path(each))


# Values that equal the chart's defaults, set because other parts of this library depend on them.
PINS = {
    versions.KARPENTER.name: {"serviceAccount.name"},
    versions.DRA_DRIVER.name: {"resources.gpus.enabled", "nvidiaDriverRoot"},
    versions.NODE_TERMINATION_HANDLER.name: {"managedTag", "serviceAccount.name"},
    versions.PROMETHEUS_ADAPTER.name: {"prometheus.port"},
    # The first has its effect at an upgrade.
    versions.LOAD_BALANCER_CONTROLLER.name: {"keepTLSSecret", "serviceAccount.name"},
    versions.KEDA.name: {"serviceAccount.operator.name"},
    versions.DYNAMO.name: {"global.nats.install"},
}


@pytest.mark.parametrize(
    ("pin", "values"), [each for each in EMITTED if each[1]], ids=lambda each: getattr(each, "name", "")
)
def test_every_value_changes_what_the_chart_renders(pin: versions.Chart, values: Mapping[str, Any], helm: Helm) -> None:
    whole = helm.template(pin, values)
    assert whole.returncode == 0, whole.stderr

    # A chart that refuses to render without a value knows it.
    without = {".".join(path): helm.template(pin, less(values, path)) for path in paths(values)}
    same = lasting(whole.stdout)
    assert {path for path, each in without.items() if lasting(each.stdout) == same} == PINS.get(pin.name, set())


def lasting(rendered: str) -> str:
    """The objects that a chart renders, without certificates that it creates each time."""
    return re.sub(r"(caBundle|ca\.crt|tls\.crt|tls\.key): \S+", "", rendered)


def paths(values: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The paths of all values."""
    if not isinstance(values, Mapping):
        return [path]
    return [found for key, value in values.items() for found in paths(value, (*path, key))]


def less(values: Mapping[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Values without the one at a path."""
    first, *others = path
    if not others:
        return {key: each for key, each in values.items() if key != first}
    return {key: less(each, tuple(others)) if key == first else each for key, each in values.items()}


def test_every_pinned_chart_is_played_where_it_is_given() -> None:
    pinned = {pin.name for pin in packed.pinned()} | {each.name for each in packed.PACKED}

    assert {pin.name for pin, _ in EMITTED} == pinned


# A release without controllers: objects with a webhook are left out, since they would reject the next.
INSTALLED = [each for each in EMITTED if each[0] not in (versions.KUEUE, versions.DYNAMO, versions.KAI_SCHEDULER)]


@pytest.mark.parametrize(("pin", "values"), INSTALLED, ids=lambda each: getattr(each, "name", ""))
def test_a_chart_is_installed_and_installed_again(pin: versions.Chart, values: Mapping[str, Any], helm: Helm) -> None:
    where = ["--namespace", namespace_of(pin)]

    for _ in range(2):
        assert helm.install(pin, "--create-namespace", *where, values=values) == ""
    assert helm.run("uninstall", pin.name, *where).returncode == 0
    # Helm leaves the definitions inside a chart, and refuses those in a chart of their own then.
    if definitions := helm.definitions(pin).strip():
        assert helm.kubectl("delete", given=definitions) == ""


def test_karpenters_definitions_bear_two_owners_and_an_upgrade(empty_helm: Helm) -> None:
    """Helm 4 applies the definitions inside the controller's chart too, over those in their own release.

    Definitions of an earlier install of the controller alone have no owner, and no release takes them over.
    """
    older, newer = versions.KARPENTER_RELEASES.values()
    where = ["--namespace", "kube-system"]

    for release in (older, older, newer):
        assert empty_helm.install(release.crds, *where, values={}) == ""
        assert empty_helm.install(release.controller, *where, values=OF_KARPENTER) == ""

    for pin in (newer.controller, newer.crds):
        assert empty_helm.run("uninstall", pin.name, *where).returncode == 0


def jobs_are_taken(client: Client, namespace: str) -> str:
    """Create a job, and return why the server does not take it."""
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    container = {"name": "a", "image": "example.com/a:1"}
    job: Object = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "hook", "namespace": namespace},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [container]}}},
    }
    client.delete(f"/apis/batch/v1/namespaces/{namespace}/jobs/hook")
    try:
        client.create(job)
    except ApiError as refused:
        return str(refused)
    return ""


@pytest.mark.parametrize("ours", [True, False])
def test_a_kueue_that_does_not_answer_refuses_no_job_of_another_chart(ours: bool, helm: Helm) -> None:
    client, values = helm.client, OF_KUEUE if ours else {}
    webhooks = [each for each in helm.render(versions.KUEUE, values) if "WebhookConfiguration" in each["kind"]]
    for each in webhooks:
        each["metadata"].pop("namespace", None)
        client.apply(each)
    try:
        wait_until(lambda: "mjob.kb.io" in jobs_are_taken(client, "default"), "the webhooks to be called")
        refused = {each for each in MANAGED - {"kube-system", "kueue-system"} if jobs_are_taken(client, each)}
    finally:
        for each in webhooks:
            client.delete(client.object_path(each))
        wait_until(lambda: not jobs_are_taken(client, "default"), "the webhooks to be gone")

    # Without our selector the hooks of every chart are refused.
    assert refused == (set() if ours else MANAGED - {"kube-system", "kueue-system"})


OPERATED = {
    "crds/made.yaml": {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "policies.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Policy", "plural": "policies", "singular": "policy"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                    },
                }
            ],
        },
    },
    "templates/policy.yaml": {"apiVersion": "example.com/v1", "kind": "Policy", "metadata": {"name": "policy"}},
    "Chart.yaml": {"apiVersion": "v2", "name": "operated", "version": "1.0.0"},
}


def test_helm_waits_for_an_object_that_is_not_ready_only_where_it_is_told_to(helm: Helm, tmp_path: Path) -> None:
    """As with the GPU Operator's ClusterPolicy while one node is broken."""
    for name, content in OPERATED.items():
        file = tmp_path / "operated" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(yaml.safe_dump(content))
    upgrade = partial(helm.run, "upgrade", "operated", str(tmp_path / "operated"), "--install", "--timeout", "4s")
    assert upgrade().returncode == 0
    condition = {"type": "Ready", "status": "False", "reason": "OperandNotReady"}
    helm.client.apply_status("/apis/example.com/v1/policies/policy", {"conditions": [condition]})

    waiting, going_on = upgrade("--wait"), upgrade()

    assert (waiting.returncode, going_on.returncode) == (1, 0)
    assert "Policy" in waiting.stderr


AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]
        }
    }
}
TEAM = [{"key": "team", "operator": "Exists"}]


@pytest.mark.parametrize(
    ("pin", "values"),
    [
        *(
            (versions.NODE_TERMINATION_HANDLER, values)
            for values in list[dict[str, Any]](
                [
                    {},
                    {"tolerations": []},
                    {"tolerations": TEAM},
                    {"linuxTolerations": TEAM, "tolerations": [{"operator": "Exists"}]},
                    {"daemonsetTolerations": []},
                    {"affinity": AFFINITY},
                    {"linuxAffinity": AFFINITY},
                    {"affinity": {"podAntiAffinity": {}}},
                    {"nodeSelector": {"pool": "a"}, "daemonsetNodeSelector": {"pool": "b"}},
                    {"linuxNodeSelector": {"pool": "a"}, "nodeSelector": {"pool": "b"}},
                    {"resources": {"requests": {"cpu": "50m"}}},
                    {"enableSqsTerminationDraining": True},
                ]
            )
        ),
        *(
            (versions.DRA_DRIVER, {"gpuResourcesEnabledOverride": True} | values)
            for values in (
                {},
                dict(dra_driver_values()),
                {"resources": {"gpus": {"enabled": False}, "computeDomains": {"enabled": False}}},
                {
                    "resources": {"computeDomains": {"enabled": False}},
                    "kubeletPlugin": {
                        "containers": {
                            part: {"resources": {"requests": {"cpu": "10m"}}} for part in ("gpus", "computeDomains")
                        }
                    },
                },
            )
        ),
    ],
)
def test_the_table_of_daemon_sets_says_what_the_chart_renders(
    pin: versions.Chart, values: dict[str, Any], helm: Helm
) -> None:
    made = [each for each in helm.render(pin, values) if each["kind"] == "DaemonSet"]
    known = daemon_sets_of_chart(pin.name, pin.version, values)

    assert known is not None
    assert all(each.exact for each in known)
    assert [shown(each) for each in made] == [
        (each.name, each.tolerations, each.node_selector, each.node_affinity, each.requests) for each in known
    ]


def shown(daemon_set: Object) -> tuple[Any, ...]:
    """A rendered DaemonSet in the words of the table."""
    pod = daemon_set["spec"]["template"]["spec"]
    node = ((pod.get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    requests: dict[str, str] = {}
    for container in pod["containers"]:
        requests |= (container.get("resources") or {}).get("requests", {})
    return (
        daemon_set["metadata"]["name"],
        tuple(pod.get("tolerations") or ()),
        pod.get("nodeSelector") or {},
        tuple(node.get("nodeSelectorTerms", ())),
        requests,
    )

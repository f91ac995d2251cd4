"""The DaemonSets inside charts and add-ons are known with their defaults, and with values that users set."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpu_facts import versions
from gpu_facts.software.daemon_sets import ADDONS, CHARTS, daemon_sets_of_addon, daemon_sets_of_chart
from gpu_facts.software.model import DaemonSetSpec, KnownDaemonSet, KnownSoftware, ValuePath

GPU_TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
TEAM = {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# No template of its 1.5.0, the pinned version, could be read.
UNREAD = {"dynamo-platform"}


def by_name(found: tuple[DaemonSetSpec, ...] | None) -> dict[str, DaemonSetSpec]:
    assert found is not None
    return {each.name: each for each in found}


def chart(name: str, values: Any = None, version: str | None = None) -> dict[str, DaemonSetSpec]:
    newest = next(row.versions for row in CHARTS if row.name == name)
    return by_name(daemon_sets_of_chart(name, version or newest[0], {} if values is None else values))


def only(name: str, values: Any = None, version: str | None = None) -> DaemonSetSpec:
    [found] = chart(name, values, version).values()
    return found


def every_daemon_set() -> list[tuple[KnownSoftware, KnownDaemonSet]]:
    return [(row, each) for row in (*CHARTS, *ADDONS) for each in row.daemon_sets]


def test_every_row_says_where_and_when_it_was_read() -> None:
    rows: list[KnownSoftware | KnownDaemonSet] = [*CHARTS, *ADDONS, *(each for _, each in every_daemon_set())]
    for row in rows:
        assert row.source.startswith("https://")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", row.as_of)


def test_no_version_is_read_twice() -> None:
    for table in (CHARTS, ADDONS):
        read = [(row.name, version) for row in table for version in row.versions or ("any",)]
        assert len(read) == len(set(read))


def test_every_pinned_chart_was_read_in_its_pinned_version() -> None:
    pins = [each for each in vars(versions).values() if isinstance(each, versions.Chart)]
    for pin in pins:
        found = daemon_sets_of_chart(pin.name, pin.version, {})
        if pin.name in UNREAD:
            assert found is None
            continue
        assert found is not None, pin.name
        assert all(each.exact for each in found), pin.name


def test_what_is_in_no_table_is_unknown() -> None:
    assert daemon_sets_of_chart("datadog", "3.0.0", {}) is None
    assert daemon_sets_of_addon("aws-guardduty-agent", None, {}) is None


@pytest.mark.parametrize("name", ["karpenter", "keda", "kueue", "metrics-server", "cluster-autoscaler"])
def test_a_chart_without_daemon_sets_is_known(name: str) -> None:
    assert daemon_sets_of_chart(name, None, {"tolerations": "all"}) == ()


def test_the_device_plugin_by_default() -> None:
    found = chart("nvidia-device-plugin", version="0.20.0")

    assert set(found) == {"nvidia-device-plugin", "nvidia-device-plugin-mps-control-daemon"}
    plugin = found["nvidia-device-plugin"]
    assert plugin.exact
    assert plugin.advertises == ("nvidia.com/gpu",)
    assert GPU_TOLERATION in plugin.tolerations
    assert [term["matchExpressions"][0]["key"] for term in plugin.node_affinity] == [
        "feature.node.kubernetes.io/pci-10de.present",
        "feature.node.kubernetes.io/cpu-model.vendor_id",
        "nvidia.com/gpu.present",
    ]


def test_a_list_replaces_the_default_and_a_mapping_adds_to_it() -> None:
    values = {"tolerations": [TEAM], "nodeSelector": {"pool": "a"}, "resources": {"requests": {"cpu": "50m"}}}

    found = chart("nvidia-device-plugin", values)

    assert found["nvidia-device-plugin"].tolerations == (TEAM,)
    daemon = found["nvidia-device-plugin-mps-control-daemon"]
    assert daemon.node_selector == {"nvidia.com/mps.capable": "true", "pool": "a"}
    assert daemon.requests == {"cpu": "50m"}
    assert all(each.exact for each in found.values())


@pytest.mark.parametrize(
    ("values", "is_there"),
    [({}, False), ({"gfd": {"enabled": True}}, True), ({"gfd": {"enabled": True}, "nfd": {"enabled": False}}, False)],
)
def test_node_feature_discovery_follows_the_first_condition(values: dict[str, Any], is_there: bool) -> None:
    found = chart("nvidia-device-plugin", values)

    assert ("nvidia-device-plugin-node-feature-discovery-worker" in found) is is_there


@pytest.mark.parametrize(
    ("affinity", "terms"),
    [
        ({}, 3),
        ({"podAntiAffinity": {}}, 3),
        (None, 0),
        ({"nodeAffinity": None}, 0),
        ({"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": []}]}}}, 1),
    ],
)
def test_affinity_is_merged_as_helm_does(affinity: Any, terms: int) -> None:
    plugin = chart("nvidia-device-plugin", {"affinity": affinity})["nvidia-device-plugin"]

    assert (len(plugin.node_affinity), plugin.exact) == (terms, True)


def test_operands_of_the_operator_share_their_tolerations() -> None:
    values = {"driver": {"enabled": False}, "daemonsets": {"tolerations": [TEAM]}, "nfd": {"enabled": False}}

    found = chart("gpu-operator", values)

    assert "nvidia-driver-daemonset" not in found
    assert [each.name for each in found.values() if each.tolerations != (TEAM,)] == []
    assert found["nvidia-device-plugin-daemonset"].advertises == ("nvidia.com/gpu",)
    assert found["nvidia-mig-manager"].node_selector == {"nvidia.com/gpu.deploy.mig-manager": "true"}


def test_operands_keep_their_tolerations_when_the_list_is_empty() -> None:
    found = chart("gpu-operator", {"daemonsets": {"tolerations": []}})

    assert found["nvidia-dcgm-exporter"].tolerations == (GPU_TOLERATION,)


def test_operands_that_were_not_read_are_unknown() -> None:
    assert daemon_sets_of_chart("gpu-operator", "v26.7.0", {"gpuCluster": {"deployCR": True}}) is None
    assert daemon_sets_of_addon("adot", None, {"collector": {"containerLogs": {}}}) is None


def test_tolerations_of_the_efa_plugin_are_added() -> None:
    assert GPU_TOLERATION not in only("aws-efa-k8s-device-plugin").tolerations

    plugin = only("aws-efa-k8s-device-plugin", {"tolerations": [GPU_TOLERATION]})

    assert [each["key"] for each in plugin.tolerations] == ["CriticalAddonsOnly", "nvidia.com/gpu"]
    assert plugin.advertises == ("vpc.amazonaws.com/efa",)
    types, compute = plugin.node_affinity[0]["matchExpressions"]
    assert {"p5.48xlarge", "p6-b200.48xlarge", "g7.8xlarge", "trn2u-ac.24xlarge"} <= set(types["values"])
    assert (len(types["values"]), compute["operator"], compute["values"]) == (303, "NotIn", ["auto"])
    assert not only("aws-efa-k8s-device-plugin", {"supportedInstanceLabels": {"values": ["p5.48xlarge"]}}).exact


def test_the_termination_handler_has_no_daemon_set_in_queue_mode() -> None:
    assert only("aws-node-termination-handler").tolerations == ({"operator": "Exists"},)
    assert chart("aws-node-termination-handler", {"enableSqsTerminationDraining": True}) == {}


NTH = "aws-node-termination-handler"
OTHER = {"key": "other", "operator": "Exists"}


@pytest.mark.parametrize(
    ("values", "tolerations"),
    [
        ({"tolerations": [TEAM]}, (TEAM,)),
        ({"tolerations": [TEAM], "daemonsetTolerations": [OTHER]}, (TEAM,)),
        ({"tolerations": [TEAM], "linuxTolerations": [OTHER]}, (OTHER,)),
        ({"tolerations": []}, ({"operator": "Exists"},)),
        ({"tolerations": [], "daemonsetTolerations": [OTHER]}, (OTHER,)),
        ({"daemonsetTolerations": []}, ()),
    ],
)
def test_tolerations_of_the_termination_handler(values: dict[str, Any], tolerations: tuple[Any, ...]) -> None:
    found = only(NTH, values)

    assert (found.tolerations, found.exact) == (tolerations, True)


@pytest.mark.parametrize(
    ("values", "selector"),
    [
        ({"nodeSelector": {"pool": "a"}, "daemonsetNodeSelector": {"pool": "b"}}, {"pool": "a"}),
        ({"nodeSelector": {"pool": "a"}, "linuxNodeSelector": {"team": "b"}}, {"team": "b"}),
        ({"nodeSelector": {}, "daemonsetNodeSelector": {"pool": "b"}}, {"pool": "b"}),
        ({}, {}),
    ],
)
def test_selector_of_the_termination_handler(values: dict[str, Any], selector: dict[str, str]) -> None:
    found = only(NTH, values)

    assert (found.node_selector, found.exact) == ({"kubernetes.io/os": "linux"} | selector, True)


@pytest.mark.parametrize("key", ["affinity", "linuxAffinity"])
def test_affinity_of_the_termination_handler(key: str) -> None:
    mine = [{"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]
    [default] = only(NTH).node_affinity

    replaced = only(NTH, {key: {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": mine}}}})
    assert (replaced.node_affinity, replaced.exact) == (tuple(mine), True)
    # Another part of an affinity replaces the whole.
    assert only(NTH, {key: {"podAntiAffinity": {"x": []}}}).node_affinity == ()
    assert only(NTH, {key: {}}).node_affinity == (default,)
    assert not only(NTH, {key: "pool"}).exact


@pytest.mark.parametrize(
    ("off", "cpu"), [((), "30m"), (("gpus",), "20m"), (("computeDomains",), "10m"), (("gpus", "computeDomains"), None)]
)
def test_the_dra_driver_runs_only_the_containers_that_are_on(off: tuple[str, ...], cpu: str | None) -> None:
    asked = {"computeDomains": "20m", "gpus": "10m"}
    containers = {part: {"resources": {"requests": {"cpu": amount}}} for part, amount in asked.items()}
    values = {"kubeletPlugin": {"containers": containers}, "resources": {part: {"enabled": False} for part in off}}

    found = chart("dra-driver-nvidia-gpu", values)

    if cpu is None:
        assert found == {}
    else:
        [made] = found.values()
        assert (made.requests, made.exact) == ({"cpu": cpu}, True)
    assert not only("dra-driver-nvidia-gpu", {"resources": {"gpus": {"enabled": "no"}}}).exact


@pytest.mark.parametrize(
    ("name", "part", "values"),
    [("nvidia-device-plugin", "nfd", {"gfd": {"enabled": True}}), ("gpu-operator", "node-feature-discovery", {})],
)
def test_node_feature_discovery_in_another_chart(name: str, part: str, values: dict[str, Any]) -> None:
    worker, updater = (f"{name}-node-feature-discovery-{each}" for each in ("worker", "topology-updater"))

    assert worker in chart(name, values)
    assert updater not in chart(name, values)
    changed = chart(name, values | {part: {"worker": {"enable": False}, "topologyUpdater": {"enable": True}}})
    assert worker not in changed
    assert (changed[updater].tolerations, changed[updater].node_affinity) == ((), ())
    assert (changed[updater].requests, changed[updater].exact) == ({"cpu": "50m", "memory": "40Mi"}, True)


def test_feature_discovery_inside_older_plugins_asks_for_nothing() -> None:
    values = {"gfd": {"enabled": True}, "nfd": {"topologyUpdater": {"enable": True}}}

    found = chart("nvidia-device-plugin", values, version="0.17.4")

    parts = [found[f"nvidia-device-plugin-node-feature-discovery-{each}"] for each in ("worker", "topology-updater")]
    assert [(each.requests, each.exact) for each in parts] == [({}, True), ({}, True)]


@pytest.mark.parametrize(
    ("version", "affine", "mps"),
    [("0.14.0", False, False), ("0.14.5", False, False), ("0.15.0", True, True), ("0.16.1", True, True)],
)
def test_the_device_plugin_selects_nodes_from_0_15_on(version: str, affine: bool, mps: bool) -> None:
    found = chart("nvidia-device-plugin", {}, version=version)

    assert (bool(found["nvidia-device-plugin"].node_affinity), found["nvidia-device-plugin"].exact) == (affine, True)
    assert ("nvidia-device-plugin-mps-control-daemon" in found) is mps


def test_the_device_plugin_0_14_takes_the_nodes_of_feature_discovery() -> None:
    found = chart("nvidia-device-plugin", {"gfd": {"enabled": True}}, version="0.14.5")

    assert not found["nvidia-device-plugin"].exact
    assert found["nvidia-device-plugin-gpu-feature-discovery"].node_affinity


@pytest.mark.parametrize("version", ["v24.6.0", "v24.9.2", "v25.3.4", "v25.10.1", "v26.3.3", "v26.7.0"])
def test_the_gpu_operator_of_the_last_years(version: str) -> None:
    found = chart("gpu-operator", {}, version=version)
    worker = found["gpu-operator-node-feature-discovery-worker"]

    plugin = found["nvidia-device-plugin-daemonset"]
    assert (plugin.node_selector, plugin.exact) == ({"nvidia.com/gpu.deploy.device-plugin": "true"}, True)
    masters = "node-role.kubernetes.io/master" in {each.get("key") for each in worker.tolerations}
    assert masters is (version < "v26")
    assert (worker.requests, worker.exact) == ({"cpu": "5m", "memory": "64Mi"}, True)


def test_sandboxes_of_the_older_gpu_operator() -> None:
    values = {"sandboxWorkloads": {"enabled": True}, "ccManager": {"enabled": True}, "kataManager": {"enabled": True}}

    found = chart("gpu-operator", values, version="v25.3.0")

    assert found["nvidia-cc-manager"].node_selector["nvidia.com/cc.capable"] == "true"
    assert {"nvidia-sandbox-device-plugin-daemonset", "nvidia-kata-manager"} <= set(found)
    assert "nvidia-kata-sandbox-device-plugin-daemonset" not in found


@pytest.mark.parametrize(
    ("version", "like", "exact"),
    [
        ("v25.5.0", "v25.10.1", True),
        ("v26.5.0", "v26.3.3", False),
        ("v26.7.1", "v26.7.0", False),
        ("v23.9.0", "v25.10.1", False),
    ],
)
def test_a_version_beyond_a_row_is_as_the_next_lower(version: str, like: str, exact: bool) -> None:
    found = chart("gpu-operator", {}, version=version)["nvidia-device-plugin-daemonset"]

    assert (f"/{like}/" in found.source, found.exact) == (True, exact)


def test_storage_drivers_tolerate_everything_by_default() -> None:
    ebs = only("aws-ebs-csi-driver", {"node": {"tolerations": [TEAM]}})
    assert (ebs.tolerations, ebs.requests) == (({"operator": "Exists"},), {"cpu": "30m", "memory": "104Mi"})

    ebs = only("aws-ebs-csi-driver", {"node": {"tolerateAllTaints": False, "tolerations": [TEAM]}})
    assert TEAM in ebs.tolerations
    assert {"operator": "Exists"} not in ebs.tolerations


def test_dcgm_of_the_monitoring_agent_tolerates_nothing() -> None:
    found = by_name(daemon_sets_of_addon("eks-node-monitoring-agent", "v1.7.0-eksbuild.1", {}))

    assert found["eks-node-monitoring-agent"].tolerations == ({"operator": "Exists"},)
    dcgm = found["dcgm-server"]
    assert (dcgm.tolerations, dcgm.exact) == ((), True)
    assert "g7.8xlarge" in dcgm.node_affinity[0]["matchExpressions"][0]["values"]
    configured = {"dcgmAgent": {"tolerations": [GPU_TOLERATION]}}
    found = by_name(daemon_sets_of_addon("eks-node-monitoring-agent", "v1.7.0-eksbuild.1", configured))
    assert found["dcgm-server"].tolerations == (GPU_TOLERATION,)


@pytest.mark.parametrize(
    ("version", "knows_g7", "exact"),
    [("v1.6.6-eksbuild.2", False, True), ("v1.5.0", False, False), ("v1.9.0", True, False), (None, True, False)],
)
def test_of_an_unread_version_the_next_lower_is_taken(version: str | None, knows_g7: bool, exact: bool) -> None:
    dcgm = by_name(daemon_sets_of_addon("eks-node-monitoring-agent", version, {}))["dcgm-server"]

    types = dcgm.node_affinity[0]["matchExpressions"][0]["values"]
    assert ("g7.8xlarge" in types, dcgm.exact) == (knows_g7, exact)


def test_the_first_tolerations_that_are_set_count() -> None:
    configuration = {"tolerations": [TEAM], "dcgmExporter": {"tolerations": [GPU_TOLERATION]}}

    found = by_name(daemon_sets_of_addon("amazon-cloudwatch-observability", "v6.4.0-eksbuild.1", configuration))

    assert found["cloudwatch-agent"].tolerations == (TEAM,)
    assert found["dcgm-exporter"].tolerations == (GPU_TOLERATION,)
    assert "node-exporter" not in found


def test_a_limit_without_a_request_is_the_request() -> None:
    found = only("dcgm-exporter", {"resources": {"limits": {"ephemeral-storage": "1Gi"}, "requests": {"cpu": None}}})

    assert found.requests == {"ephemeral-storage": "1Gi", "memory": "128Mi"}


def test_what_replaces_resources_leaves_nothing_of_the_default() -> None:
    values = {"sidecars": {"livenessProbe": {"resources": {"requests": {"cpu": 1}}}}}

    assert only("aws-ebs-csi-driver", values).requests == {"cpu": "1020m", "memory": "72Mi"}


@pytest.mark.parametrize(
    "hostile",
    [None, 3, "x", [], [1], {"a": 1}, [{"key": 1}], [{"kye": "a"}], object(), {"requests": {"cpu": "much"}}, True],
)
def test_no_value_raises(hostile: Any) -> None:
    for row, known in every_daemon_set():
        ask = daemon_sets_of_chart if row in CHARTS else daemon_sets_of_addon
        ask(row.name, hostile, hostile)
        for path in paths(known):
            ask(row.name, None, nested(path, hostile))
            ask(row.name, None, nested(path.split(".")[0], hostile))
    daemon_sets_of_chart(hostile, hostile, hostile)


def paths(known: KnownDaemonSet) -> list[str]:
    some: list[ValuePath] = [known.tolerations.path, known.tolerations.all_path]
    some += [known.nodes.selector_path, known.nodes.affinity_path, known.nodes.labels_path]
    some += [each for container in known.containers for each in (container.path, container.replacing_path)]
    some += [each.path for each in known.switches]
    return [path for several in some for path in each_of(several)]


def each_of(path: ValuePath) -> tuple[str, ...]:
    return (path,) if isinstance(path, str) else path


def nested(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


@pytest.mark.parametrize(
    "values",
    [
        {"tolerations": "everything"},
        {"tolerations": [{"key": object()}]},
        {"nodeSelector": [1]},
        {"nodeSelector": {"a": object()}},
        {"affinity": {"nodeAffinity": 1}},
        {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": ["x"]}}}},
        {"resources": {"requests": {"cpu": "much"}}},
        {"devicePlugin": {"enabled": "yes"}},
        {"fullnameOverride": "plugin"},
        "no mapping",
    ],
)
def test_a_value_of_a_wrong_type_leaves_the_default(values: Any) -> None:
    found, default = (chart("nvidia-device-plugin", each)["nvidia-device-plugin"] for each in (values, None))

    assert not found.exact
    assert found.tolerations == default.tolerations
    assert (found.node_selector, found.node_affinity) == (default.node_selector, default.node_affinity)
    assert found.requests == default.requests


PINNED = {
    "aws-efa-k8s-device-plugin": "aws-efa-k8s-device-plugin.yaml",
    "dcgm-exporter": "dcgm-exporter-4.8.2.yaml",
    "dra-driver-nvidia-gpu": "dra-driver-nvidia-gpu-0.4.yaml",
    "gpu-operator": "gpu-operator-v26.7.0.yaml",
    "kai-scheduler": "kai-scheduler-0.17.yaml",
    "kube-prometheus-stack": "kube-prometheus-stack-88.yaml",
    "nvidia-device-plugin": "nvidia-device-plugin-0.20.0.yaml",
}


@pytest.mark.parametrize("name", PINNED)
def test_the_table_says_what_the_values_files_say(name: str, chart_values: Path) -> None:
    defaults = yaml.safe_load((chart_values / PINNED[name]).read_text())
    row = next(each for each in CHARTS if each.name == name)

    for known in row.daemon_sets:
        for switch in known.switches:
            assert at(defaults, switch.path) in (None, switch.default), switch
        tolerations = at(defaults, known.tolerations.path)
        if tolerations:
            assert list(known.tolerations.default) == tolerations, known.name
        for container in known.containers:
            requests = (at(defaults, container.path) or {}).get("requests")
            assert requests in (None, container.requests), known.name


@pytest.mark.parametrize("name", PINNED)
def test_the_defaults_change_nothing_when_they_are_set(name: str, chart_values: Path) -> None:
    defaults = yaml.safe_load((chart_values / PINNED[name]).read_text())

    for plain, found in zip(chart(name).values(), chart(name, defaults).values(), strict=True):
        for part in ("name", "tolerations", "node_selector", "node_affinity", "requests"):
            assert getattr(plain, part) == getattr(found, part), (plain.name, part)


def at(values: Any, path: ValuePath) -> Any:
    found = values
    for key in next(iter(each_of(path)), "").split("."):
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def test_it_loads_no_aws_library() -> None:
    known = "import sys, gpu_facts.software.daemon_sets"
    code = f"{known}; sys.exit(bool({{'jsii', 'aws_cdk', 'yaml'}} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_efa_plugin_by_labels_of_ones_own() -> None:
    values = {"supportedInstanceLabels": {"keys": ["a", "b"], "values": ["yes"]}}

    specs = daemon_sets_of_chart("aws-efa-k8s-device-plugin", "v0.5.30", values)

    assert specs is not None
    assert specs[0].exact
    first, last = (each["matchExpressions"] for each in specs[0].node_affinity)
    assert first == [{"key": "a", "operator": "In", "values": ["yes"]}]
    assert [each["key"] for each in last] == ["b", "eks.amazonaws.com/compute-type"]

"""DevicePlugin reaches every GPU node it should serve, and no other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_eks_v2 as eks
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import DevicePlugin, ManagedNodeGroup, Mig, Mps, NodeShape, Taint, TimeSlicing
from gpu_constructs.devices.device_plugin import plugin_config
from gpu_constructs.devices.device_plugin_manifests import device_plugin_manifests, sharing_manifests
from gpu_constructs.pools import Sharing
from tests.schemas import validate
from tests.templates import manifests_of, resources_of

SLICED, MPS, MIG = TimeSlicing(4), Mps(8), Mig(geometry={"3g.40gb": 1, "1g.10gb": 4})
IMAGE = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"


def plugin(stack: cdk.Stack, cluster: eks.ICluster, /, **changes: Any) -> DevicePlugin:
    return DevicePlugin(stack, "Plugin", **{"cluster": cluster} | changes)


def test_manifest(snapshot_yaml: SnapshotAssertion) -> None:
    assert device_plugin_manifests(IMAGE) == snapshot_yaml


def selects(node_labels: dict[str, str], sharing: Sharing | None = None) -> bool:
    """Whether the DaemonSet's affinity matches a node, by the operators it uses."""
    manifests = (
        device_plugin_manifests(IMAGE) if sharing is None else sharing_manifests(IMAGE, sharing, plugin_config(sharing))
    )
    daemon_set = next(each for each in manifests if each["kind"] == "DaemonSet")
    affinity = daemon_set["spec"]["template"]["spec"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    matches: dict[str, Callable[[str, Any], bool]] = {
        "In": lambda key, values: node_labels.get(key) in values,
        "NotIn": lambda key, values: node_labels.get(key) not in values,
        "DoesNotExist": lambda key, _: key not in node_labels,
    }
    return all(matches[each["operator"]](each["key"], each.get("values")) for each in term["matchExpressions"])


@pytest.mark.parametrize(
    ("labels", "served"),
    [
        (NodeShape(instance_types=("g6.xlarge",)).node_labels("a"), True),
        (NodeShape(instance_types=("p5.48xlarge",), gpu_taint=False).node_labels("a"), True),
        (NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket").node_labels("a"), False),
        ({"eks.amazonaws.com/compute-type": "auto", "gpu-constructs.io/device-manager": "device-plugin"}, False),
        ({"eks.amazonaws.com/compute-type": "auto"}, False),
        ({"node.kubernetes.io/instance-type": "m6i.large"}, False),
        ({"nvidia.com/gpu.present": "true"}, False),
        ({"gpu-constructs.io/device-manager": "device-plugin"}, True),
    ],
)
def test_runs_on_the_nodes_it_manages(labels: dict[str, str], served: bool) -> None:
    assert selects(labels) is served


@pytest.mark.parametrize("sharing", [None, SLICED, MPS, MIG])
def test_the_plugin_has_the_runtimes_seccomp_profile_and_a_limit_of_memory(sharing: Sharing | None) -> None:
    manifests = (
        device_plugin_manifests(IMAGE) if sharing is None else sharing_manifests(IMAGE, sharing, plugin_config(sharing))
    )

    plugin = next(each for each in manifests if each["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    [container] = plugin["containers"]
    assert container["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["resources"]["limits"] == {"memory": "512Mi"}


def test_every_container_of_the_control_daemon_states_what_it_takes() -> None:
    [daemon] = [
        each
        for each in sharing_manifests(IMAGE, MPS, plugin_config(MPS))
        if each["metadata"]["name"].endswith("-control")
    ]

    spec = daemon["spec"]["template"]["spec"]
    told = [each["resources"] for each in (*spec["initContainers"], *spec["containers"])]
    assert [each["requests"] for each in told] == [{"cpu": "10m", "memory": "64Mi"}] * 2
    # Clients pin memory in the server.
    assert "limits" not in told[1]


def test_tolerates_every_taint() -> None:
    [daemon_set] = device_plugin_manifests(IMAGE)

    # Without key and effect, "Exists" matches every taint, also the ones a pool adds.
    assert daemon_set["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]
    assert Taint(key="team", value="a").effect


def test_a_second_device_manager_in_the_cluster_is_refused(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    plugin(stack, cluster)

    with pytest.raises(ValueError, match=r"Test/Again: cluster must have one device manager, .*'Test/Plugin'"):
        DevicePlugin(stack, "Again", cluster=cluster)


def test_two_clusters_have_one_each(stack: cdk.Stack, cluster: eks.ICluster, created_cluster: eks.Cluster) -> None:
    plugin(stack, cluster)
    DevicePlugin(stack, "Other", cluster=created_cluster)

    assert str(resources_of(stack)).count("k8s-device-plugin") == 2


def test_the_image_is_as_given(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    plugin(stack, cluster, image="registry.example.com/plugin@sha256:" + "a" * 64)

    [container] = next(manifests_of(resources_of(stack)))["spec"]["template"]["spec"]["containers"]
    assert container["image"].startswith("registry.example.com/")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (
            {"image": "nvcr.io/nvidia/k8s-device-plugin"},
            ValueError,
            r"must end in a tag other than 'latest' or a digest",
        ),
        ({"image": "plugin:latest"}, ValueError, r"must end in a tag other than 'latest'"),
        ({"sharing": SLICED}, TypeError, r"sharing must be a list of TimeSlicing"),
        ({"image": 20}, TypeError, r"image must be a string, got 20"),
        (
            {"image": "nvcr.io/nvidia/k8s-device-plugin:v0.19.2"},
            ValueError,
            "take over the EFA devices, got 'nvcr.io/nvidia/k8s-device-plugin:v0.19.2'; use 'nvcr.io.*v0.20.0'",
        ),
        (
            {"cluster": "demo"},
            TypeError,
            r"Test/Plugin: cluster must be a GpuCluster or a cluster of aws_cdk.aws_eks_v2, got str",
        ),
    ],
)
def test_refuses(
    stack: cdk.Stack, cluster: eks.ICluster, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plugin(stack, cluster, **changes)

    assert stack.node.find_child("Plugin").node.children == []


def test_an_image_known_only_at_deployment_passes(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    plugin(stack, cluster, image=cdk.CfnParameter(stack, "Image").value_as_string)

    [container] = next(manifests_of(resources_of(stack)))["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "${Image}"


def test_the_release_that_gave_efa_back_is_accepted(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    plugin(stack, cluster, image="nvcr.io/nvidia/k8s-device-plugin:v0.19.3")

    assert "k8s-device-plugin:v0.19.3" in str(next(manifests_of(resources_of(stack))))


def test_refuses_a_cluster_nothing_can_be_applied_to(stack: cdk.Stack) -> None:
    bare = eks.Cluster.from_cluster_attributes(stack, "Bare", cluster_name="bare")

    with pytest.raises(ValueError, match=r"Test/Plugin: cluster must have a kubectl provider, got 'Test/Bare' without"):
        plugin(stack, bare)


SHARED = [
    (SLICED, NodeShape(instance_types=("g6.xlarge",), sharing=SLICED)),
    (MPS, NodeShape(instance_types=("g6.xlarge",), sharing=MPS)),
    (MIG, NodeShape(instance_types=("p5.48xlarge",), sharing=MIG)),
]


@pytest.mark.parametrize(("sharing", "shape"), SHARED)
def test_manifests_of_sharing(sharing: Sharing, shape: NodeShape, snapshot_yaml: SnapshotAssertion) -> None:
    assert sharing_manifests(IMAGE, sharing, plugin_config(sharing)) == snapshot_yaml


@pytest.mark.parametrize(("sharing", "shape"), SHARED)
def test_each_way_of_sharing_has_exactly_one_plugin(sharing: Sharing, shape: NodeShape) -> None:
    labels = shape.node_labels("a")

    assert [each for each in (None, SLICED, MPS, MIG) if selects(labels, each)] == [sharing]


def test_a_share_is_asked_for_one_at_a_time() -> None:
    slicing = plugin_config(SLICED)["sharing"]["timeSlicing"]

    assert slicing["failRequestsGreaterThanOne"] is True
    assert slicing["renameByDefault"] is True


def names(stack: cdk.Stack) -> list[str]:
    return [each["metadata"]["name"] for each in manifests_of(resources_of(stack)) if each["kind"] == "DaemonSet"]


@pytest.mark.parametrize("plugin_first", [True, False])
def test_pools_of_the_app_are_served_whatever_comes_first(
    stack: cdk.Stack, cluster: eks.ICluster, plugin_first: bool
) -> None:
    if plugin_first:
        plugin(stack, cluster)
    for number, (_, shape) in enumerate([*SHARED, SHARED[0]]):
        ManagedNodeGroup(stack, f"Pool{number}", cluster=cluster, name=f"pool-{number}", shape=shape, max_nodes=1)
    if not plugin_first:
        plugin(stack, cluster)

    assert sorted(names(stack)) == [
        "nvidia-device-plugin",
        "nvidia-device-plugin-mig-4x1g.10gb-1x3g.40gb",
        "nvidia-device-plugin-mps-8",
        "nvidia-device-plugin-mps-8-control",
        "nvidia-device-plugin-time-slicing-4",
    ]


def test_pools_of_other_apps_are_served_when_named(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    plugin(stack, cluster, sharing=[SLICED])

    assert names(stack) == ["nvidia-device-plugin", "nvidia-device-plugin-time-slicing-4"]


def test_nodes_with_a_plugin_of_their_own_are_none_of_its_business(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    shape = NodeShape(instance_types=("g6.xlarge",), operating_system="bottlerocket", sharing=SLICED)
    plugin(stack, cluster)
    ManagedNodeGroup(stack, "Pool", cluster=cluster, name="pool", shape=shape, max_nodes=1)

    assert names(stack) == ["nvidia-device-plugin"]


@pytest.mark.parametrize("minor", ["1.33", "1.34", "1.35", "1.36"])
def test_manifests_of_sharing_are_valid(minor: str) -> None:
    for sharing in (TimeSlicing(4), Mps(4), Mig(geometry={"1g.10gb": 7})):
        for each in sharing_manifests(IMAGE, sharing, plugin_config(sharing)):
            validate(each, minor)

"""Two inputs compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpu_preflight.judging.review import Review, compare_findings, review
from gpu_preflight.reading.inputs import Input, read_input
from gpu_preflight.reading.objects import Origin
from gpu_preflight.report.review_view import review_view
from gpu_preflight.rule import Finding, Problem
from tests.preflight.inputs import BAD, given, template
from tests.preflight.readers import pool
from tests.preflight.report.samples import rule as samples_rule

CHART = "Custom::AWSCDK-EKS-HelmChart"


def compared(folder: Path, old: Any, new: Any) -> Review:
    return review(given(folder / "old", old), given(folder / "new", new))


def test_two_equal_inputs_differ_in_nothing(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template())

    assert (found.pools, found.moves, found.fates, found.new, found.fixed) == ((), (), (), (), ())
    assert found.costs_before == found.costs_after != ()
    assert found.standing


@pytest.mark.parametrize(
    ("changes", "change"),
    [
        ({"AmiType": "AL2023_x86_64_NVIDIA"}, "replaced"),
        ({"InstanceTypes": ["g6.2xlarge"]}, "replaced"),
        ({"Labels": {"a": "b"}}, "changed"),
        ({"ScalingConfig": {"MinSize": 0, "MaxSize": 3}}, "changed"),
    ],
)
def test_a_changed_pool(tmp_path: Path, changes: Any, change: str) -> None:
    found = compared(tmp_path, template(), template({**BAD, **changes}))

    assert [each.change for each in found.pools] == [change]


DATA = {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 200}}]}


@pytest.mark.parametrize(
    ("changes", "data", "change", "order"),
    [
        ({"Version": "1.36", "ReleaseVersion": "1.36.3-20260903"}, None, "changed", ""),
        ({}, DATA, "changed", ""),
        ({"Labels": {"a": "b"}, "Tags": {"a": "b"}}, None, "changed", ""),
        ({"Version": "1.36", "Tags": {"a": "b"}}, None, "refused", "one after another: Version, then Tags"),
        (
            {"ReleaseVersion": "1.36.3-20260903", "ScalingConfig": {"MinSize": 0, "MaxSize": 3}},
            None,
            "refused",
            "one after another: ReleaseVersion, then ScalingConfig",
        ),
        ({"Tags": {"a": "b"}}, DATA, "refused", "one after another: Tags, then LaunchTemplate. If Tags.of(stack)"),
        (
            {"Tags": {"a": "b"}, "Labels": {"a": "b"}},
            DATA,
            "refused",
            "one after another: LaunchTemplate, then Tags and Labels",
        ),
        ({"Version": "1.36"}, DATA, "refused", "one after another: Version, then LaunchTemplate"),
        ({"InstanceTypes": ["g6.2xlarge"], "Version": "1.36", "Tags": {"a": "b"}}, DATA, "replaced", ""),
    ],
)
def test_a_group_takes_its_version_and_launch_template_alone(
    tmp_path: Path, changes: Any, data: Any, change: str, order: str
) -> None:
    def made(properties: Any, launch: Any) -> Any:
        found = template({**properties, "LaunchTemplate": {"Id": {"Ref": "Launch"}}})
        launches = {"Type": "AWS::EC2::LaunchTemplate", "Properties": {"LaunchTemplateData": launch}}
        return {"Resources": {**found["Resources"], "Launch": launches}}

    small = {"BlockDeviceMappings": [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100}}]}
    found = compared(tmp_path, made(BAD, small), made({**BAD, **changes}, data or small))

    [pool] = found.pools
    assert pool.change == change
    assert (order in pool.details[0]) if order else not any("one after another" in each for each in pool.details)
    assert found.fails or not order


def test_a_finding_of_other_figures_stands(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "ScalingConfig": {"MinSize": 0, "MaxSize": 5}}))

    assert {each.rule.id for each in (*found.new, *found.fixed)} == set()
    assert "GPU020" in {each.rule.id for each in found.standing}


def finding_at(path: str, text: str, **changes: Any) -> Finding:
    """A finding about a pool."""
    subject = pool(name="Train", origin=Origin("app.yaml", path, None))
    rule = samples_rule(id=changes.pop("id", "GPU901"))
    return Finding(rule, "demo", Problem.from_subject(subject, text, unknown=changes.pop("unknown", False)), **changes)


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        # Another text is no other finding, and no fixed one.
        ([finding_at("a", "3800 GB of g5")], [finding_at("a", "7600 GB of g6e")], (0, 0, 1)),
        ([finding_at("a", "x")], [finding_at("b", "x")], (1, 1, 0)),
        ([finding_at("a", "x")], [finding_at("a", "x", id="GPU902")], (1, 1, 0)),
        # A second one at a resource is new.
        ([finding_at("a", "x")], [finding_at("a", "y"), finding_at("a", "x")], (1, 0, 1)),
        ([finding_at("a", "x"), finding_at("a", "y")], [finding_at("a", "z")], (0, 1, 1)),
        # A possible finding of before is another kind than a certain one, and so is an acknowledged one.
        ([finding_at("a", "x", unknown=True)], [finding_at("a", "x")], (1, 1, 0)),
        ([finding_at("a", "x", acknowledged="small")], [finding_at("a", "x")], (1, 1, 0)),
        ([finding_at("a", "x", acknowledged="small")], [finding_at("a", "y", acknowledged="tiny")], (0, 0, 1)),
    ],
)
def test_findings_match_by_rule_resource_and_kind(
    before: list[Finding], after: list[Finding], counts: tuple[int, ...]
) -> None:
    assert tuple(map(len, compare_findings(before, after))) == counts


def test_of_two_findings_at_a_resource_the_other_text_is_new() -> None:
    new, fixed, standing = compare_findings([finding_at("a", "x")], [finding_at("a", "y"), finding_at("a", "x")])

    assert ([each.problem.text for each in new], fixed) == (["y"], ())
    assert [each.problem.text for each in standing] == ["x"]


def of_cluster(**properties: Any) -> Any:
    made = template()
    cluster = made["Resources"]["Cluster"]
    return {"Resources": {**made["Resources"], "Cluster": {**cluster, "Properties": properties}}}


STANDARD, EXTENDED = ({"UpgradePolicy": {"SupportType": each}} for each in ("STANDARD", "EXTENDED"))


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"Version": "1.34"}, {"Version": "1.35"}, None),
        ({"Version": "1.34"}, {"Version": 1.35}, None),
        ({"Version": "1.34"}, {"Version": "1.36"}, ("refused", "deploy 1.35 first")),
        ({"Version": "1.35"}, {"Version": "1.34"}, ("rolled back", "within 7 days")),
        ({"Version": "1.36"}, {"Version": "1.34"}, ("refused", "one minor version at most")),
        ({"Version": "1.36"}, {"Version": {"Ref": "Version"}}, None),
        ({"Name": "a"}, {"Name": "b"}, ("replaced", "Name: a -> b")),
        (
            {"KubernetesNetworkConfig": {"IpFamily": "ipv4"}},
            {"KubernetesNetworkConfig": {"IpFamily": "ipv6"}},
            ("replaced", "KubernetesNetworkConfig/IpFamily: ipv4 -> ipv6"),
        ),
        (
            {"AccessConfig": {"AuthenticationMode": "API"}},
            {"AccessConfig": {"AuthenticationMode": "API_AND_CONFIG_MAP"}},
            ("refused", "API -> API_AND_CONFIG_MAP"),
        ),
        (
            {"AccessConfig": {"AuthenticationMode": "CONFIG_MAP"}},
            {"AccessConfig": {"AuthenticationMode": "API"}},
            None,
        ),
        ({"UpgradePolicy": {"SupportType": "STANDARD"}}, {"UpgradePolicy": {"SupportType": "EXTENDED"}}, None),
        ({"Version": "1.36", **EXTENDED}, {"Version": "1.36", **STANDARD}, None),
        (
            {"Version": "1.32", **EXTENDED},
            {"Version": "1.32", **STANDARD},
            ("refused", "left standard support on 2026-"),
        ),
        ({"Version": "1.32"}, {"Version": "1.32", **STANDARD}, ("refused", "upgrade first")),
        ({"Version": "1.32", **EXTENDED}, {"Version": "1.33", **STANDARD}, None),
        (
            {"Name": "a", "DeletionProtection": True},
            {"Name": "b", "DeletionProtection": True},
            ("replaced", "Name: a -> b; EKS does not delete the old one"),
        ),
    ],
)
def test_a_control_plane(tmp_path: Path, before: Any, after: Any, expected: Any) -> None:
    found = compared(tmp_path, of_cluster(**before), of_cluster(**after))

    told = [(each.change, each.detail) for each in found.control_planes]
    assert [change for change, _ in told] == ([expected[0]] if expected else [])
    assert all(expected[1] in detail for _, detail in told)


def with_karpenter(kubernetes: str, karpenter: str) -> dict[str, Any]:
    chart = {"ClusterName": {"Ref": "Cluster"}, "Chart": "karpenter", "Release": "karpenter", "Version": karpenter}
    made = of_cluster(Name="demo", Version=kubernetes)
    return {"Resources": {**made["Resources"], "Karpenter": {"Type": CHART, "Properties": chart}}}


@pytest.mark.parametrize(
    ("before", "after", "early"),
    [
        (("1.36", "1.14.1"), ("1.37", "1.15.1"), True),
        (("1.36", "1.15.1"), ("1.37", "1.15.1"), False),
        (("1.35", "1.14.1"), ("1.36", "1.15.1"), False),
        (("1.36", "1.14.1"), ("1.36", "1.15.1"), False),
    ],
)
def test_karpenter_goes_before_the_control_plane(tmp_path: Path, before: Any, after: Any, early: bool) -> None:
    found = compared(tmp_path, with_karpenter(*before), with_karpenter(*after))

    told = [each.detail for each in found.control_planes if each.change == "too early"]
    assert bool(told) is early
    assert all("Karpenter 1.14.1 runs, and 1.37 needs 1.15: deploy it first" in each for each in told)
    assert "refused" not in {each.change for each in found.control_planes}


def test_a_version_that_eks_refuses_fails_the_review(tmp_path: Path) -> None:
    mended = {"AmiType": "AL2023_x86_64_NVIDIA"}
    old, new = (template({**BAD, **mended}) for _ in range(2))
    old["Resources"]["Cluster"] = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.34"}}

    found = compared(tmp_path, old, new)

    assert [each.change for each in found.control_planes] == ["refused"]
    assert found.fails


def test_a_fixed_pool_fixes_its_finding(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "AmiType": "AL2023_x86_64_NVIDIA"}))

    assert "GPU001" in {each.rule.id for each in found.fixed}
    assert "GPU001" not in {each.rule.id for each in (*found.new, *found.standing)}


def test_the_ceiling_follows_the_maximum(tmp_path: Path) -> None:
    found = compared(tmp_path, template(), template({**BAD, "ScalingConfig": {"MinSize": 0, "MaxSize": 5}}))

    ceiling = review_view(found).ceiling
    assert (ceiling.before.gpus, ceiling.after.gpus) == (2, 5)
    assert ceiling.after.usd_per_hour == pytest.approx(ceiling.before.usd_per_hour * 2.5, abs=0.01)


def daemons(**images: str) -> dict[str, Any]:
    containers = [{"name": name, "image": image} for name, image in images.items()]
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": containers}}
    spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "agent"}, "spec": spec}


def test_images_are_reported_for_each_container(tmp_path: Path) -> None:
    old = daemons(one="host:5000/one:1", two="two")

    found = compared(tmp_path, old, daemons(one="host:5000/one:2", two="two:3"))

    told = [(each.what, each.before, each.after) for each in found.moves]
    assert told == [("image of agent container one", "1", "2"), ("image of agent container two", "latest", "3")]


def of_eksctl(cluster: str = "lab", **group: Any) -> dict[str, Any]:
    meta = {"name": cluster, "region": "eu-west-1", "version": "1.35"}
    groups = [{"name": "gpus", "instanceType": "g5.xlarge", "minSize": 1, "maxSize": 1, **group}]
    config = {"apiVersion": "eksctl.io/v1alpha5", "kind": "ClusterConfig", "metadata": meta}
    return {**config, "managedNodeGroups": groups}


def test_eksctl_changes_no_group_but_its_size(tmp_path: Path) -> None:
    [changed] = compared(tmp_path, of_eksctl(), of_eksctl(instanceType="g6.xlarge", maxSize=2)).pools

    assert changed.change == "changed"
    assert all(("ScalingConfig" in each) is each.endswith("(in place)") for each in changed.details)
    assert any("create a group with another name" in each for each in changed.details)


def test_a_config_of_another_name_is_another_cluster(tmp_path: Path) -> None:
    found = compared(tmp_path, of_eksctl("lab"), of_eksctl("other"))

    [told] = found.control_planes
    assert (told.cluster, told.change) == ("lab", "renamed")
    assert "metadata.name: lab -> other" in told.detail
    assert [each.change for each in found.pools] == ["removed", "added"]
    assert not any("drained" in detail for each in found.pools for detail in each.details)


def test_the_leaves_of_a_template_are_reported(tmp_path: Path) -> None:
    def pool(seconds: str) -> dict[str, Any]:
        template = {"spec": {"expireAfter": seconds, "requirements": [], "nodeClassRef": {"name": "gpus"}}}
        meta = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}}
        return {**meta, "spec": {"template": template}}

    [changed] = compared(tmp_path, pool("24h"), pool("48h")).pools

    assert [each.partition(" (")[0] for each in changed.details] == ["template spec expireAfter: 24h -> 48h"]


@pytest.mark.parametrize(
    ("values", "drains"), [(["g6", "p5"], False), (["p5", "g6"], False), (["p5"], True), ([{"Ref": "Later"}], True)]
)
def test_nodes_that_meet_the_new_requirements_stay(tmp_path: Path, values: Any, drains: bool) -> None:
    def pool(*families: Any) -> dict[str, Any]:
        requirement = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": list(families)}
        template = {"spec": {"requirements": [requirement], "nodeClassRef": {"name": "gpus"}}}
        meta = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}}
        return {**meta, "spec": {"template": template}}

    found = compared(tmp_path, pool("g6"), pool(*values))

    assert [each.drains for each in found.pools] == [drains]
    assert [each.effect for each in found.changes] == ["nodes replaced" if drains else None]
    assert ("all nodes of 1 pool replaced" in review_view(found).headline) is drains


@pytest.mark.parametrize(("zone", "drains"), [("Zone", False), ("OtherZone", True)])
def test_nodes_meet_a_requirement_that_is_not_known_only_if_it_is_unchanged(
    tmp_path: Path, zone: str, drains: bool
) -> None:
    def pool(zone: str, *families: str) -> dict[str, Any]:
        zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [{"Ref": zone}]}
        family = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": list(families)}
        template = {"spec": {"requirements": [zones, family], "nodeClassRef": {"name": "gpus"}}}
        meta = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "gpus"}}
        return {**meta, "spec": {"template": template}}

    found = compared(tmp_path, pool("Zone", "g6"), pool(zone, "g6", "g6e"))

    assert [each.drains for each in found.pools] == [drains]


def _node_pool(alias: str | None, budgets: Any, kubernetes: str = "1.35") -> dict[str, Any]:
    """A cluster with Karpenter, and a NodePool whose class has an alias or an image id."""
    terms = [{"alias": alias}] if alias else [{"id": "ami-0123456789abcdef0"}]
    specs = {
        "EC2NodeClass": ("karpenter.k8s.aws/v1", {"amiSelectorTerms": terms}),
        "NodePool": (
            "karpenter.sh/v1",
            {
                "template": {
                    "spec": {
                        "requirements": [
                            {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["g6.xlarge"]}
                        ],
                        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "gpus"},
                    }
                },
                "disruption": {"budgets": budgets},
            },
        ),
    }
    made = with_karpenter(kubernetes, "1.15.1")
    for kind, (api, spec) in specs.items():
        manifest = [{"apiVersion": api, "kind": kind, "metadata": {"name": "gpus"}, "spec": spec}]
        properties = {"ClusterName": {"Ref": "Cluster"}, "Manifest": json.dumps(manifest)}
        made["Resources"][kind] = {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": properties}
    return made


@pytest.mark.parametrize(
    ("budgets", "consequence"),
    [
        ([], "nodes drift and are replaced as the budgets allow"),
        ([{"nodes": "0", "reasons": {"Ref": "Later"}}], "nodes drift and are replaced as the budgets allow"),
        ([{"nodes": "10%"}], "nodes drift and are replaced as the budgets allow"),
        (
            [{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}],
            "nodes drift and are replaced as the budgets allow",
        ),
        (
            [{"nodes": "100%", "reasons": ["Empty"]}, {"nodes": "0", "reasons": ["Drifted"]}],
            "nodes drift; the budget for drift is 0: a node is replaced when it is empty",
        ),
        ([{"nodes": "0"}], "nodes drift and stay: the budgets for drift and for empty nodes are 0"),
    ],
)
def test_nodes_of_karpenter_drift_to_the_image_of_another_version(
    tmp_path: Path, budgets: Any, consequence: str
) -> None:
    old, new = (_node_pool("al2023@v20260903", budgets, version) for version in ("1.35", "1.36"))

    [changed] = compared(tmp_path, old, new).pools

    assert changed.details == (f"image of Kubernetes: 1.35 -> 1.36 ({consequence})",)


def test_an_image_that_is_named_by_its_id_stays(tmp_path: Path) -> None:
    old, new = (_node_pool(None, [], version) for version in ("1.35", "1.36"))

    assert compared(tmp_path, old, new).pools == ()


def workload(name: str, **spec: Any) -> dict[str, Any]:
    """A Deployment of pods that request a GPU each."""
    container = {"name": "c", "image": "a:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    pod = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": pod, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("has_plugin", "changes", "evicted"),
    [
        (True, {"InstanceTypes": ["g6.2xlarge"]}, [("Deployment default/chat", 2, "runs")]),
        # Without the plugin it isn't known whether the pods run, and so not whether they are on these nodes.
        (False, {"InstanceTypes": ["g6.2xlarge"]}, [("Deployment default/chat", None, "unknown")]),
        (True, {"Labels": {"a": "b"}}, []),
    ],
)
def test_a_drained_pool_names_the_workloads_on_its_nodes(
    tmp_path: Path, has_plugin: bool, changes: Any, evicted: list[Any]
) -> None:
    role = "arn:aws:iam::111122223333:role/nodes"
    group = {**BAD, "AmiType": "AL2023_x86_64_NVIDIA", "NodeRole": role, "Subnets": ["subnet-0123456789abcdef0"]}

    def made(folder: str, properties: Any) -> Input:
        (tmp_path / folder).mkdir()
        manifests = [workload("chat"), workload("idle", replicas=0)]
        (tmp_path / folder / "apps.yaml").write_text("\n---\n".join(map(json.dumps, manifests)))
        assumed = frozenset({"device-plugin", "cluster-autoscaler"} if has_plugin else {"cluster-autoscaler"})
        (tmp_path / folder / "stack.template.json").write_text(json.dumps(template(properties)))
        return read_input([str(tmp_path / folder)], assumed=assumed)

    [change] = review(made("old", group), made("new", {**group, **changes})).pools

    assert [(each.workload, each.pods, each.after) for each in change.evicted] == evicted
    assert change.drains is bool(evicted)

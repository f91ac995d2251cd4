"""What holds of every cluster and every pod: more permission never takes a pod off a node, and no value is guessed."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gpu_constructs.preflight.case import Case
from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.model.answer import Answer
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.model.reason import worst
from gpu_constructs.preflight.node.nodes import nodes_to_be
from gpu_constructs.preflight.reading.inputs import read_input
from gpu_constructs.preflight.scheduling.demand import demand
from gpu_constructs.preflight.scheduling.fitting import fits
from tests.preflight import generated
from tests.preflight.generated import GPU, KEYS, TEAMS, TYPES, Json

# More examples: EXAMPLES=2000 pytest tests/preflight/test_properties.py.
_EXAMPLES = int(os.environ.get("EXAMPLES", "40"))
SEEDS = st.integers(min_value=0, max_value=2**32 - 1)
property_of = settings(max_examples=_EXAMPLES)
Answers = dict[tuple[str, str], Answer]
_LATER = "@later@"


def world(random: Random) -> Json:
    """A template whose cluster has managed groups, NodePools, a device plugin and what makes nodes, or some of it."""
    found = generated.template(random, pools=3)
    found["Resources"]["Cluster"]["Properties"]["Version"] = random.choice(("1.34", "1.36"))
    for each in found["Resources"].values():
        if each["Type"] == "AWS::EKS::Nodegroup":
            properties = each["Properties"]
            least, most = random.choice(((0, 0), (0, 1), (0, 4), (1, 1), (1, 4)))
            properties["ScalingConfig"] = {"MinSize": least, "MaxSize": most}
            if random.random() < 0.5:
                key = f"k8s.io/cluster-autoscaler/node-template/resources/{GPU}"
                properties["Tags"] = {key: random.choice(("1", "4"))}
    objects = [*generated.device_plugin(random), *generated.exporter(random), *_makers(random)]
    objects += [each for number in range(2) for each in _node_pool(random, f"pool-{number}")]
    return {"resources": found["Resources"], "objects": objects}


def _makers(random: Random) -> list[Json]:
    images = {
        "cluster-autoscaler": "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
        "karpenter": "public.ecr.aws/karpenter/controller:1.14.1",
    }
    return [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": name, "namespace": "kube-system"},
            "spec": {"template": {"spec": {"serviceAccountName": name, "containers": [container]}}},
        }
        for name, image in images.items()
        for container in [{"name": name, "image": image}]
        if random.random() < 0.8
    ]


def _node_pool(random: Random, name: str) -> list[Json]:
    requirements: list[Json] = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": random.sample(TYPES, 2)},
        {"key": "team", "operator": random.choice(("Exists", "NotIn")), "values": []},
    ]
    requirements = requirements[: random.choice((1, 2))]
    for each in requirements:
        if each["operator"] == "NotIn":
            each["values"] = ["vision"]
    spec = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name},
        "requirements": requirements,
        "taints": [{"key": GPU, "value": "true", "effect": "NoSchedule"}] if random.random() < 0.5 else [],
    }
    labels = {"example.com/rank": random.choice(TEAMS)}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "limits": {random.choice((GPU, "cpu")): random.choice(("1", "8", "1000"))},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }
    node_class = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": name},
        "spec": {
            "amiSelectorTerms": [{"alias": random.choice(("al2023@latest", "bottlerocket@latest"))}],
            "blockDeviceMappings": [{"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi"}}],
        },
    }
    return [pool, node_class]


def jobs(random: Random, count: int = 6) -> list[Json]:
    """Pods, some of them several of a Deployment."""
    found = []
    for number in range(count):
        pod = generated.pod(random)
        pod["metadata"]["name"] = f"pod-{number}"
        if random.random() < 0.3:
            template = {"metadata": pod["metadata"], "spec": pod["spec"]}
            spec = {"replicas": random.choice((0, 1, 3, 50)), "template": template}
            metadata = {"name": f"pod-{number}"}
            pod = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}
        found.append(pod)
    return found


def written(world: Json, folder: Path) -> Path:
    """Write a template whose manifest has tokens where it says later, as CDK writes it."""
    text = json.dumps(world["objects"]).replace(f'"{_LATER}number"', _LATER)
    parts: list[Any] = [part for each in text.split(_LATER) for part in (each, {"Ref": "Later"})][:-1]
    manifest = {"Manifest": {"Fn::Join": ["", parts]}, "ClusterName": {"Ref": "Cluster"}}
    resources = {
        **world["resources"],
        "Manifest": {"Type": "Custom::AWSCDK-EKS-KubernetesResource", "Properties": manifest},
    }
    file = folder / "stack.template.json"
    file.write_text(json.dumps({"Parameters": {"Later": {"Type": "String"}}, "Resources": resources}))
    return file


def read(world: Json, pods: list[Json]) -> Cluster:
    with tempfile.TemporaryDirectory() as folder:
        file = written({**world, "objects": [*world["objects"], *pods]}, Path(folder))
        return clusters(read_input([str(file)]))[0]


def answers(world: Json, pods: list[Json]) -> Answers:
    """Return the answer of each pool to each pod, and the answer of all of them."""
    cluster = read(world, pods)
    case = Case(cluster)
    found: Answers = {}
    for workload in cluster.workloads:
        if workload.owner.name.startswith("pod-"):
            verdict = case.verdict(workload)
            found[workload.owner.name, ""] = verdict.answer
            for each in verdict.pools:
                identity = each.pool.resource.key if each.pool.resource else each.pool.name
                found[workload.owner.name, identity] = each.answer
    return found


def never(before: Answers, after: Answers, *, was: Answer, becomes: Answer) -> None:
    for key, answer in before.items():
        assert not (answer is was and after.get(key) is becomes), f"{key}: {was.value} becomes {becomes.value}"


def spec_of(job: Json) -> Json:
    spec: Json = job["spec"]
    return spec["template"]["spec"] if job["kind"] == "Deployment" else spec


def changed(pods: list[Json], change: Any) -> list[Json]:
    copied = copy.deepcopy(pods)
    for each in copied:
        change(spec_of(each))
    return copied


@property_of
@given(SEEDS)
def test_a_toleration_never_takes_a_pod_off_a_node(seed: int) -> None:
    random = Random(seed)
    cluster, pods = world(random), jobs(random)
    toleration = generated._toleration(random)

    more = changed(pods, lambda spec: spec.setdefault("tolerations", []).append(toleration))

    never(answers(cluster, pods), answers(cluster, more), was=Answer.YES, becomes=Answer.NO)


@property_of
@given(SEEDS)
def test_a_larger_request_never_puts_a_pod_on_a_node(seed: int) -> None:
    random = Random(seed)
    cluster, pods = world(random), jobs(random)
    name, amount = random.choice((("cpu", "200"), ("memory", "3Ti"), (GPU, "16"), ("ephemeral-storage", "2Ti")))

    def raise_it(spec: Json) -> None:
        limits = spec["containers"][0].setdefault("resources", {}).setdefault("limits", {})
        limits[name] = amount

    never(answers(cluster, pods), answers(cluster, changed(pods, raise_it)), was=Answer.NO, becomes=Answer.YES)


@property_of
@given(SEEDS)
def test_a_selector_never_puts_a_pod_on_a_node(seed: int) -> None:
    random = Random(seed)
    cluster, pods = world(random), jobs(random)
    key, value = random.choice((*KEYS, "unheard-of")), random.choice(("vision", "true", *TYPES))

    more = changed(pods, lambda spec: spec.setdefault("nodeSelector", {}).setdefault(key, value))

    never(answers(cluster, pods), answers(cluster, more), was=Answer.NO, becomes=Answer.YES)


@property_of
@given(SEEDS)
def test_more_nodes_never_take_a_pod_off_a_pool(seed: int) -> None:
    random = Random(seed)
    cluster, pods = world(random), jobs(random)

    larger = copy.deepcopy(cluster)
    for each in larger["resources"].values():
        if each["Type"] == "AWS::EKS::Nodegroup":
            each["Properties"]["ScalingConfig"]["MaxSize"] += random.choice((1, 100))
    for each in larger["objects"]:
        if each["kind"] == "NodePool":
            each["spec"]["limits"] = {name: str(int(amount) * 10) for name, amount in each["spec"]["limits"].items()}

    never(answers(cluster, pods), answers(larger, pods), was=Answer.YES, becomes=Answer.NO)


@property_of
@given(SEEDS)
def test_fewer_replicas_never_leave_one_pending(seed: int) -> None:
    random = Random(seed)
    cluster, pods = world(random), jobs(random)

    fewer = copy.deepcopy(pods)
    for each in fewer:
        if each["kind"] == "Deployment":
            each["spec"]["replicas"] //= 2

    never(answers(cluster, pods), answers(cluster, fewer), was=Answer.YES, becomes=Answer.NO)


@property_of
@given(SEEDS)
def test_what_is_remembered_is_what_is_judged_anew(seed: int) -> None:
    random = Random(seed)
    cluster = read(world(random), jobs(random, 12))
    case = Case(cluster)

    for workload in cluster.workloads:
        for verdict in case.verdict(workload).pools:
            if verdict.pool.is_group and len(verdict.pool.instance_types) == 1:
                [node] = nodes_to_be(verdict.pool, cluster)
                anew = fits(demand(case.admitted(workload).workload, cluster), node, verdict.pool)
                reasons = [*anew.reasons, *(() if verdict.pool.min_nodes else anew.unexpected)]
                if verdict.answer is Answer.NO:
                    reasons = [each for each in reasons if each.answer is Answer.NO]
                assert list(verdict.reasons[: len(reasons)]) == reasons
                assert verdict.answer is worst(verdict.reasons)


@property_of
@given(SEEDS)
def test_each_pod_is_judged_as_if_it_were_the_first(seed: int) -> None:
    random = Random(seed)
    cluster, pods = world(random), jobs(random)
    together = answers(cluster, pods)

    alone = {key: answer for each in pods for key, answer in answers(cluster, [each]).items()}

    assert together == alone


@property_of
@given(SEEDS)
def test_order_does_not_matter(seed: int) -> None:
    random = Random(seed)
    cluster, pods = world(random), jobs(random)

    turned = {
        "resources": _turned(cluster["resources"], random),
        "objects": [_turned(each, random) for each in random.sample(cluster["objects"], len(cluster["objects"]))],
    }
    others = [_turned(each, random) for each in random.sample(pods, len(pods))]
    for each in others:
        spec_of(each)["containers"].reverse()
        spec_of(each).get("tolerations", []).reverse()

    assert answers(turned, others) == answers(cluster, pods)


def _turned(value: Any, random: Random) -> Any:
    """Return the same with the keys of every mapping in another order."""
    if isinstance(value, dict):
        keys = random.sample(list(value), len(value))
        return {key: _turned(value[key], random) for key in keys}
    return [_turned(each, random) for each in value] if isinstance(value, list) else value


@property_of
@given(SEEDS)
def test_a_value_that_is_not_known_is_never_guessed(seed: int) -> None:
    """With any one literal known at deployment only, every answer stays or becomes unknown."""
    random = Random(seed)
    cluster, pods = world(random), jobs(random)
    cluster["objects"] += pods
    before = answers(cluster, [])
    places = list(_literals(cluster["resources"])) + list(_literals(cluster["objects"]))

    for place in random.sample(places, min(3, len(places))):
        after = answers(_without(cluster, place), [])

        for key, answer in before.items():
            assert after.get(key, Answer.UNKNOWN) in (answer, Answer.UNKNOWN), (
                f"{key}: {answer} becomes {after[key]} without {place}"
            )


_STRUCTURE = ("Type", "kind", "apiVersion", "name", "Name", "ClusterName")


def _literals(value: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the place of every literal, apart from names and what tells one kind of thing from another."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in pairs:
        if isinstance(each, (str, int)) and key not in _STRUCTURE and "Ref" not in path and key != "Ref":
            yield ("resources" if isinstance(path[0] if path else key, str) else "objects", *path, key)
        else:
            yield from _literals(each, *path, key)


def _without(cluster: Json, place: tuple[Any, ...]) -> Json:
    copied = copy.deepcopy(cluster)
    holder: Any = copied
    for key in place[:-1]:
        holder = holder[key]
    number = isinstance(holder[place[-1]], int)
    if place[0] == "resources":
        holder[place[-1]] = {"Ref": "Later"}
    else:
        holder[place[-1]] = f"{_LATER}number" if number else _LATER
    return copied

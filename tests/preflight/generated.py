"""Clusters and pods made at random, as templates and manifests, with everything a scheduler looks at."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

from gpu_constructs.preflight.cluster.clusters import clusters
from gpu_constructs.preflight.model.cluster import Cluster
from gpu_constructs.preflight.reading.inputs import read_input

Json = dict[str, Any]
TYPES = (
    "g4dn.xlarge",
    "g5.2xlarge",
    "g6.xlarge",
    "g6.12xlarge",
    "g6e.48xlarge",
    "p4d.24xlarge",
    "p5.48xlarge",
    "g5g.xlarge",
)
TEAMS = ("vision", "speech", "17", "3", "-4")
KEYS = (
    "team",
    "tier",
    "example.com/rank",
    "kubernetes.io/arch",
    "node.kubernetes.io/instance-type",
    "nvidia.com/gpu.present",
)
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
EKS_EFFECTS = {"NoSchedule": "NO_SCHEDULE", "NoExecute": "NO_EXECUTE", "PreferNoSchedule": "PREFER_NO_SCHEDULE"}
GPU = "nvidia.com/gpu"
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")


def template(random: Random, pools: int = 6) -> Json:
    """A CloudFormation template with one cluster and some managed node groups."""
    cluster = {"Type": "AWS::EKS::Cluster", "Properties": {"Name": "demo", "Version": "1.36"}}
    groups = {f"Nodes{number}": _node_group(random) for number in range(pools)}
    return {"Resources": {"Cluster": cluster, **groups}}


def _node_group(random: Random) -> Json:
    kind = random.choice(TYPES)
    arch = "ARM_64" if kind.startswith("g5g") else "x86_64"
    system = random.choice(("AL2023", "AL2023", "BOTTLEROCKET"))
    ami = f"AL2023_{arch}_NVIDIA" if system == "AL2023" else f"BOTTLEROCKET_{arch}_NVIDIA"
    return {
        "Type": "AWS::EKS::Nodegroup",
        "Properties": {
            "ClusterName": {"Ref": "Cluster"},
            "AmiType": ami,
            "InstanceTypes": [kind],
            "ScalingConfig": {"MinSize": 1, "MaxSize": 4},
            "Labels": _labels(random),
            "Taints": _taints(random),
            "Subnets": ["subnet-0123456789abcdef0"],
        },
    }


def _labels(random: Random) -> Json:
    found = {key: random.choice(TEAMS).lstrip("-") for key in ("team", "example.com/rank") if random.random() < 0.6}
    return found | ({"nvidia.com/gpu.present": "true"} if random.random() < 0.5 else {})


def _taints(random: Random) -> list[Json]:
    found = []
    for key in ("nvidia.com/gpu", "team"):
        if random.random() < 0.5:
            value = random.choice(("true", "vision", "present"))
            found.append({"Key": key, "Value": value, "Effect": EKS_EFFECTS[random.choice(EFFECTS)]})
    return found


def device_plugin(random: Random) -> list[Json]:
    """A device plugin, with or without sharing, that reaches some of the pools."""
    container: Json = {
        "name": "plugin",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}},
    }
    pod: Json = {"tolerations": [{"operator": "Exists"}], "containers": [container]}
    if random.random() < 0.3:
        pod["tolerations"] = [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]
    if random.random() < 0.3:
        pod["affinity"] = _affinity([[{"key": "nvidia.com/gpu.present", "operator": "In", "values": ["true"]}]])
    found = []
    if random.random() < 0.3:
        sharing = {"timeSlicing": {"renameByDefault": True, "resources": [{"name": GPU, "replicas": 4}]}}
        data = {"config.yaml": json.dumps({"version": "v1", "sharing": sharing})}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": _named("config"), "data": data})
        container |= {
            "env": [{"name": "CONFIG_FILE", "value": "/config/config.yaml"}],
            "volumeMounts": [{"name": "config", "mountPath": "/config"}],
        }
        pod["volumes"] = [{"name": "config", "configMap": {"name": "config"}}]
    return [*found, _daemon_set("plugin", pod)]


def exporter(random: Random) -> list[Json]:
    """A DaemonSet that takes a host port and some memory, or none at all."""
    if random.random() < 0.4:
        return []
    container = {
        "name": "exporter",
        "image": "exporter:1",
        "ports": [{"containerPort": 9400, "hostPort": 9400}],
        "resources": {"requests": {"cpu": "250m", "memory": "512Mi"}},
    }
    tolerations = random.choice(([], [{"operator": "Exists"}]))
    return [_daemon_set("exporter", {"containers": [container], "tolerations": tolerations})]


def _named(name: str) -> Json:
    return {"name": name, "namespace": "kube-system"}


def _daemon_set(name: str, pod: Json) -> Json:
    labels = {"app": name}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}}
    return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": _named(name), "spec": spec}


def cluster(random: Random, folder: Path) -> Cluster:
    """Return a cluster as preflight reads it from files."""
    (folder / "stack.template.json").write_text(json.dumps(template(random)))
    objects = [*device_plugin(random), *exporter(random)]
    (folder / "software.json").write_text(json.dumps(objects))
    [found] = clusters(read_input([str(folder / "stack.template.json"), str(folder / "software.json")]))
    return found


def pod(random: Random) -> Json:
    """A pod that asks for a few of the things that pods ask for."""
    spec: Json = {"containers": [_container(random, f"main-{number}") for number in range(random.choice((1, 1, 2)))]}
    if random.random() < 0.25:
        spec["initContainers"] = [_init_container(random)]
    if random.random() < 0.85:
        spec["tolerations"] = [_toleration(random) for _ in range(random.choice((1, 2)))]
    if random.random() < 0.2:
        spec["nodeSelector"] = {random.choice(KEYS): random.choice(("vision", "true", "amd64", *TYPES))}
    if random.random() < 0.3:
        spec["affinity"] = _affinity([_expressions(random) for _ in range(random.choice((1, 1, 2)))])
    if random.random() < 0.1:
        spec["topologySpreadConstraints"] = [_spread(random)]
    if random.random() < 0.1:
        spec["resources"] = {"requests": {"cpu": random.choice(("100m", "3", "40")), "memory": "1Gi"}}
        spec["containers"] = [{**each, "resources": _only_devices(each)} for each in spec["containers"]]
        spec.pop("initContainers", None)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod", "labels": {"app": "pod"}}, "spec": spec}


def _only_devices(container: Json) -> Json:
    limits = {name: amount for name, amount in container["resources"].get("limits", {}).items() if "/" in name}
    return {"limits": limits}


def _container(random: Random, name: str) -> Json:
    limits: Json = {}
    if random.random() < 0.55:
        resource = random.choice((GPU, GPU, GPU, "nvidia.com/gpu.shared", "vpc.amazonaws.com/efa"))
        limits[resource] = str(random.choice((1, 1, 2, 4, 8)))
    if random.random() < 0.5:
        limits["cpu"] = random.choice(("100m", "0.5", "1", "3", "3900m", "4", "16", "96"))
    if random.random() < 0.5:
        limits["memory"] = random.choice(("1e9", "512Mi", "2G", "8Gi", "13Gi", "14500Mi", "60Gi", "1.5Ti"))
    if random.random() < 0.2:
        limits["ephemeral-storage"] = random.choice(("1Gi", "10Gi", "15Gi", "200Gi"))
    container: Json = {"name": name, "image": "app:1", "resources": {"limits": limits}}
    if random.random() < 0.15:
        container["ports"] = [{"containerPort": 9400, "hostPort": random.choice((9400, 8080))}]
        if name != "main-0":
            del container["ports"]
    return container


def _init_container(random: Random) -> Json:
    limits = {"cpu": random.choice(("1", "5", "50")), "memory": random.choice(("1Gi", "30Gi"))}
    container: Json = {"name": "first", "image": "app:1", "resources": {"limits": limits}}
    return container | ({"restartPolicy": "Always"} if random.random() < 0.5 else {})


def _toleration(random: Random) -> Json:
    key = random.choice((GPU, "team", None))
    if key is None:
        return {"operator": "Exists"}
    toleration: Json = {"key": key}
    if random.random() < 0.5:
        toleration["operator"] = "Exists"
    else:
        toleration["value"] = random.choice(("true", "vision", "present"))
    return toleration | ({"effect": random.choice(EFFECTS)} if random.random() < 0.5 else {})


def _affinity(terms: list[list[Json]]) -> Json:
    selector = {"nodeSelectorTerms": [{"matchExpressions": each} if each else {} for each in terms]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selector}}


def _expressions(random: Random) -> list[Json]:
    return [_expression(random) for _ in range(random.choice((0, 1, 1, 1, 2)))]


def _expression(random: Random) -> Json:
    operator = random.choice(OPERATORS)
    expression: Json = {"key": random.choice(KEYS), "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = random.sample(("vision", "speech", "true", "amd64", "17", *TYPES), random.choice((1, 2)))
    elif operator in ("Gt", "Lt"):
        expression["values"] = [random.choice(("5", "17", "0"))]
    return expression


def _spread(random: Random) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": random.choice(("team", "kubernetes.io/hostname")),
        "whenUnsatisfiable": random.choice(("DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": "pod"}},
    }

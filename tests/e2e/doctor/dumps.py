"""Dumps of an API server, as ``kubectl get RESOURCE -A -o json`` writes them, and the texts that name a cause."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpu_rehearsal.cluster.client import Client, Object

# Paths of the dumped resources, by the name of their file.
RESOURCES: Mapping[str, str] = {
    **{
        each: f"/api/v1/{each}"
        for each in (
            "nodes",
            "pods",
            "events",
            "resourcequotas",
            "limitranges",
            "persistentvolumes",
            "persistentvolumeclaims",
        )
    },
    **{
        f"{each}.apps": f"/apis/apps/v1/{each}" for each in ("replicasets", "deployments", "statefulsets", "daemonsets")
    },
    "jobs.batch": "/apis/batch/v1/jobs",
    "storageclasses.storage.k8s.io": "/apis/storage.k8s.io/v1/storageclasses",
    "priorityclasses.scheduling.k8s.io": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "runtimeclasses.node.k8s.io": "/apis/node.k8s.io/v1/runtimeclasses",
    **{
        f"{each}.resource.k8s.io": f"/apis/resource.k8s.io/v1/{each}"
        for each in ("resourceclaims", "resourceslices", "deviceclasses")
    },
    "poddisruptionbudgets.policy": "/apis/policy/v1/poddisruptionbudgets",
    "horizontalpodautoscalers.autoscaling": "/apis/autoscaling/v2/horizontalpodautoscalers",
    "leases.coordination.k8s.io": "/apis/coordination.k8s.io/v1/leases",
}
KARPENTER: Mapping[str, str] = {
    "nodepools.karpenter.sh": "/apis/karpenter.sh/v1/nodepools",
    "nodeclaims.karpenter.sh": "/apis/karpenter.sh/v1/nodeclaims",
    "ec2nodeclasses.karpenter.k8s.aws": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
}
# Namespaces of the cluster's own pods, of the healthy server, and of events about objects without a namespace.
SHARED_NAMESPACES = ("kube-system", "serving", "default")
_WORKLOADS = ("deployments.apps", "daemonsets.apps", "statefulsets.apps", "jobs.batch", "pods")
# Leases of components that a cluster of EKS has too.
_LEASES = ("kube-scheduler", "kube-controller-manager", "karpenter-leader-election")
_HOST = "ip-172-16-24-10.ec2.internal"
# As kubectl writes lists, except for the white space.
_HEAD, _TAIL = '{"apiVersion":"v1","kind":"List","items":[\n', '\n],"metadata":{"resourceVersion":""}}\n'
_FORBIDDEN = re.compile(r"127\.0\.0\.1|localhost|/tmp/|/root/")


def read_dump(client: Client, resources: Mapping[str, str], *, since: str) -> dict[str, list[Object]]:
    """Return all objects of some resources, as far as they belong to a cause.

    Args:
        client: Client of the API server.
        resources: Paths of collections, by name.
        since: Time in the format of Kubernetes. Older events are about earlier causes.
    """
    found = {}
    for name, path in resources.items():
        answer = client.get(path)
        kind, version = str(answer["kind"]).removesuffix("List"), answer["apiVersion"]
        found[name] = [
            {"apiVersion": version, "kind": kind} | _plain(each)
            for each in answer["items"]
            if _belongs(name, each, since)
        ]
    return found


def _belongs(resource: str, manifest: Object, since: str) -> bool:
    metadata = manifest["metadata"]
    if resource == "leases.coordination.k8s.io":
        return metadata["name"] in _LEASES
    return resource != "events" or str(metadata["creationTimestamp"]) >= since


def without_earlier_causes(dump: Mapping[str, list[Object]], namespace: str) -> dict[str, list[Object]]:
    """Return a dump without the nodes' events and the namespaces of earlier causes, which end late."""
    nodes = [each["metadata"]["name"] for each in dump["nodes"]]
    return {
        name: [
            each
            for each in objects
            if _namespace(each) in ("", namespace, *SHARED_NAMESPACES)
            and (each.get("involvedObject", {}).get("kind") != "Node" or each["involvedObject"]["name"] in nodes)
        ]
        for name, objects in dump.items()
    }


def _plain(manifest: Object) -> Object:
    """Return an object without managed fields, and with another host than this machine."""
    plain = manifest | {"metadata": {key: each for key, each in manifest["metadata"].items() if key != "managedFields"}}
    here = socket.gethostname()
    if plain.get("source", {}).get("host") == here:
        plain["source"] = plain["source"] | {"host": _HOST}
    if str(plain.get("reportingInstance", "")).endswith(here):
        plain["reportingInstance"] = plain["reportingInstance"].removesuffix(here) + _HOST
    if holder := plain.get("spec", {}).get("holderIdentity"):
        plain["spec"] = plain["spec"] | {"holderIdentity": holder.replace(f"{here}_", f"{_HOST}_")}
    return plain


def write_dump(folder: Path, dump: Mapping[str, Iterable[Object]]) -> None:
    """Write a file for each resource that has objects, with one object on each line.

    Raises:
        ValueError: An object names this machine or a path on it.
    """
    for name, objects in dump.items():
        lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in objects)
        if found := _FORBIDDEN.search(lines):
            raise ValueError(f"{folder.name}: {name} must not name this machine, got {found[0]!r}")
        if lines:
            (folder / f"{name}.json").write_text(_HEAD + lines + _TAIL)


def load_dump(folder: Path) -> dict[str, list[Object]]:
    """Read what `write_dump` wrote."""
    return {each.stem: json.loads(each.read_text())["items"] for each in sorted(folder.glob("*.json"))}


_VARIABLE = re.compile(
    r"ip-\d+-\d+-\d+-\d+\.ec2\.internal|i-0[0-9a-f]{16}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    r"|(?<=-)[a-z0-9]{8,10}-[a-z0-9]{5}\b|(?<=[a-z]-)[a-z0-9]{5}\b|\d+(?=/)|\d{4}-\d\d-\d\dT[\d:.]+Z"
)


def observed_texts(objects: Iterable[Object]) -> Iterator[str]:
    """Yield the texts of events and conditions, after the author and kind of an event, or the type of a condition."""
    for each in objects:
        if "involvedObject" in each:
            author = each.get("reportingComponent") or each.get("source", {}).get("component", "")
            yield f"{author}: {each['involvedObject']['kind']}: {each.get('reason', '')}: {each.get('message', '')}"
        else:
            for condition in each.get("status", {}).get("conditions") or ():
                reason, message = (condition.get(key, "") for key in ("reason", "message"))
                yield f"{condition['type']}={condition['status']}: {reason}: {message}"


def cause_texts(dump: Mapping[str, Iterable[Object]], namespace: str) -> set[str]:
    """Return the texts about objects of a namespace, without names of nodes and pods, ids and times."""
    objects = (each for found in dump.values() for each in found if _namespace(each) == namespace)
    return {_VARIABLE.sub("_", each.replace(namespace, "_")) for each in observed_texts(objects)}


def cause_namespace(dump: Mapping[str, Iterable[Object]]) -> str:
    """Return the namespace of the workloads that aren't of the cluster or of the healthy server."""
    found = {_namespace(each) for name in _WORKLOADS for each in dump.get(name, ())}
    [namespace] = found - {*SHARED_NAMESPACES}
    return namespace


def _namespace(manifest: Object) -> str:
    about = manifest.get("involvedObject") or manifest["metadata"]
    return str(about.get("namespace", ""))

"""What ``kubectl describe`` shows of planted cases.

``python -m tests.e2e.doctor.describe`` loads the pod of each case in `CASES`, with its status and events, into a real
API server, runs ``kubectl describe``, and writes `described.yaml`. docs/explanation/pending-tools.md compares that with
other tools.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from gpu_facts.light import regex
from gpu_rehearsal.cluster.client import Client, Object
from gpu_rehearsal.cluster.control_plane import control_plane, render_kubeconfig
from tests.e2e.doctor.dumps import SHARED_NAMESPACES, load_dump
from tests.e2e.doctor.plant import PLANTED
from tools import build_e2e_tools, charts

DESCRIBED = Path(__file__).with_name("described.yaml")
# Those that describe answers come first.
CASES = (
    "v1-missing-claim",
    "s9-missing-device-class",
    "a1-quota-refuses-a-replica",
    "a9-missing-runtime-class",
    "k7-dedicated-taint",
    "k5-label-of-a-team",
    "k11-limit-reached",
    "p9-scheduling-gate",
    "p2-misspelled-resource",
    "p6-wrong-value-of-a-label",
    "p8-scheduler-that-nobody-serves",
    "p5-dedicated-taint",
    "p3-more-gpus-than-any-node",
    "s1-all-gpus-taken",
    "s4-h5-kubelet-is-silent",
    "g1-no-device-plugin",
    "g3-plugin-lacks-a-toleration",
    "v2-missing-storage-class",
    "k3-missing-node-class",
    "k18-e2-vcpu-quota",
)
_FIELDS = regex(r"(Status|Reason|Message|Node-Selectors|Replicas|Events):")
# Type, reason and author of an event. Its age is between them.
_EVENT = regex(r"  (Normal|Warning)  +(\S+)  +\S+(?: \(x\d+ over \S+\))?  +(\S+)  +(.*)")
_CONDITION = regex(r"  ([A-Z]\w+)  +(True|False|Unknown)\b *(.*)")


@contextmanager
def describing(folder: Path) -> Iterator[tuple[Client, Path]]:
    """Run an API server without controllers and scheduler, and yield its client and a kubeconfig.

    Args:
        folder: Folder with etcd and the binaries of Kubernetes.
    """
    with control_plane(folder, controllers=()) as plane, TemporaryDirectory() as name:
        # It would try to bind the pod, and change its status.
        plane.scheduler.stop()
        kubeconfig = Path(name) / "kubeconfig"
        kubeconfig.write_text(json.dumps(render_kubeconfig(plane.client)))
        yield plane.client, kubeconfig


def describe(client: Client, kubeconfig: Path, case: str) -> dict[str, object]:
    """Load the subject of a case, and return the command and the lines that matter for its state."""
    dump = load_dump(PLANTED / case)
    subject = _subject(dump)
    kind, name, namespace = subject["kind"].lower(), subject["metadata"]["name"], subject["metadata"]["namespace"]
    client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for each in dump.get("priorityclasses.scheduling.k8s.io", ()):
        client.apply(_unowned(each))
    try:
        created = client.create(_unowned(subject))
        client.apply_status(client.object_path(subject), subject["status"])
        for each in dump["events"]:
            about = each["involvedObject"]
            if about.get("uid") == subject["metadata"]["uid"]:
                client.create(_unowned(each) | {"involvedObject": about | {"uid": created["metadata"]["uid"]}})
        words = ("describe", kind, name, "--namespace", namespace)
        text = _output(*words, "--kubeconfig", str(kubeconfig))
    finally:
        client.delete(f"/api/v1/namespaces/{namespace}/events")
        client.delete(client.object_path(subject))
    return {"command": " ".join(("kubectl", *words)), "output": list(_lines(text))}


def _output(*words: str) -> str:
    """Return the output of kubectl."""
    return subprocess.run([str(charts.kubectl()), *words], capture_output=True, text=True, check=True).stdout


def _subject(dump: Mapping[str, list[Object]]) -> Object:
    """Return the pod that doesn't run, or the ReplicaSet that gets none."""
    for name in ("pods", "replicasets.apps"):
        for each in dump[name]:
            if each["metadata"]["namespace"] not in SHARED_NAMESPACES and not _runs(each):
                return each
    raise LookupError("the dump must have a pod or a ReplicaSet that doesn't run")


def _runs(manifest: Object) -> bool:
    if manifest["kind"] == "Pod":
        return bool(manifest["status"]["phase"] == "Running")
    return bool(manifest["status"].get("readyReplicas", 0) >= manifest["spec"]["replicas"])


def _unowned(manifest: Object) -> Object:
    """Return an object without the fields that the server sets."""
    server = ("uid", "resourceVersion", "creationTimestamp", "generation", "selfLink")
    return manifest | {"metadata": {key: each for key, each in manifest["metadata"].items() if key not in server}}


def _lines(text: str) -> Iterator[str]:
    """Yield the lines about state, constraints, conditions and events, without ages and alignment."""
    for line in text.splitlines():
        if event := _EVENT.match(line):
            type, reason, author, message = event.groups()
            yield f"{type} {reason} {author}: {message}"
        elif condition := _CONDITION.match(line):
            yield " ".join(condition.groups()).strip()
        elif _FIELDS.match(line):
            yield " ".join(line.split())


def main() -> None:
    """Write what ``kubectl describe`` shows of every case."""
    tools = build_e2e_tools.folder_of_tools()
    if tools is None:
        sys.exit(f"describe: {build_e2e_tools.MISSING}")
    version = json.loads(_output("version", "--client", "--output", "json"))["clientVersion"]["gitVersion"]
    with describing(tools) as (client, kubeconfig):
        found = {"kubectl": version, "cases": {each: describe(client, kubeconfig, each) for each in CASES}}
    DESCRIBED.write_text(yaml.safe_dump(found, sort_keys=False, width=1000, allow_unicode=True))


if __name__ == "__main__":
    main()

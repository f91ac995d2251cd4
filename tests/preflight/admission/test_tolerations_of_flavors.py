"""A job gets the tolerations of the flavors that its own queue may start it on."""

from __future__ import annotations

from typing import Any

import pytest

from gpu_facts.labels import KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_preflight.admission.controllers import flavored
from gpu_preflight.cluster.clusters import workloads
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown


def of_kueue(kind: str, name: str, spec: dict[str, Any]) -> Object:
    metadata = {"name": name, "namespace": "ml"}
    content = {"apiVersion": f"{KUEUE_DOMAIN}/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}
    return Object(content, Origin("file", f"{kind} {name}"))


def queue(flavors: Any) -> Object:
    group = {"coveredResources": ["nvidia.com/gpu"], "flavors": flavors}
    return of_kueue("ClusterQueue", "team", {"resourceGroups": [group]})


FLAVORS = [of_kueue("ResourceFlavor", name, {"tolerations": [{"key": name}]}) for name in ("own", "other")]
LOCAL = of_kueue("LocalQueue", "ml", {"clusterQueue": "team"})


def added(*objects: Object) -> list[Any]:
    """The keys that Kueue lets a job tolerate."""
    metadata = {"name": "train", "namespace": "ml", "labels": {KUEUE_QUEUE: "ml"}}
    content = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": {"spec": {}}}}
    [job] = workloads([Object(content, Origin("file", "Job"))])
    return [each.key for each in flavored(job.pod, job, Cluster("demo", objects=(*FLAVORS, *objects))).tolerations]


def test_only_the_flavors_of_its_queue_count() -> None:
    assert added(LOCAL, queue([{"name": "own"}])) == ["own"]


@pytest.mark.parametrize(
    "objects",
    [
        (),
        (LOCAL,),
        (LOCAL, queue(Unknown("${Flavors}"))),
        (LOCAL, queue([{"name": Unknown("${Flavor}")}])),
    ],
)
def test_all_count_where_its_queue_is_not_known(objects: tuple[Object, ...]) -> None:
    assert added(*objects) == ["own", "other"]

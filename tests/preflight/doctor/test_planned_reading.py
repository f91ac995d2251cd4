"""A comparison with a plan reads from the cluster what it needs, and no secret values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpu_preflight.doctor.collector import Collector
from gpu_preflight.doctor.commands import script
from gpu_preflight.doctor.connection import Refused
from gpu_preflight.doctor.dump import Dump, read_dump
from gpu_preflight.doctor.live import Live
from gpu_preflight.doctor.plan import Comparison, compare
from gpu_preflight.reading.inputs import read_input
from tests.preflight.doctor.planned_clusters import (
    CONFIG,
    FOLDER,
    PLUGIN,
    QUOTA,
    SERVE,
    Objects,
    World,
    lower_the_quota,
    only_difference,
    pod_spec,
)


class Api:
    """A cluster that answers GET requests."""

    time = None

    def __init__(self, world: World) -> None:
        self.world = world
        self.paths: list[str] = []

    def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        """Return the answer of a path."""
        self.paths.append(path)
        if path == "/apis":
            groups = sorted({each.partition(".")[2] for each in self.world.lists} - {""})
            return {"groups": [{"name": each, "preferredVersion": {"version": "v1"}} for each in groups]}
        name = path.rpartition("/")[2]
        if "/configmaps/" in path:
            found = [each for each in self.world.lists["configmaps"] if each["metadata"]["name"] == name]
            if not found:
                raise Refused("not found", status=404)
            return found[0]
        items = next((each for key, each in self.world.lists.items() if key.partition(".")[0] == name), [])
        return {"apiVersion": items[0]["apiVersion"] if items else "v1", "items": items}


def _collected(world: World) -> tuple[Comparison, Dump, Api]:
    plan, api = read_input([str(FOLDER / "plans" / "karpenter.yaml")]), Api(world)
    dump = Collector(api, "default", plan.objects).collect()
    return compare(Live(dump), plan, []), dump, api


def test_a_planned_config_map_is_read_from_the_cluster_and_missed() -> None:
    world = World("karpenter")
    assert [each.message for each in _collected(world)[0].differences] == []
    world.remove(CONFIG)

    found, _, _ = _collected(world)

    assert [each.message for each in found.differences] == [f"{CONFIG} isn't in the cluster"]


def test_a_comparison_reads_every_namespace_and_keeps_the_managers_of_fields() -> None:
    world = World("karpenter")
    lower_the_quota(world)
    fields: Objects = {"f:spec": {"f:hard": {"f:requests.nvidia.com/gpu": {}}}}
    entry = {"manager": "kubectl-edit", "time": "2026-11-20T09:58:00Z", "fieldsV1": fields}
    world[QUOTA]["metadata"]["managedFields"] = [entry]

    found, dump, api = _collected(world)

    assert [each.changed_by for each in found.differences] == ["kubectl-edit"]
    assert "/api/v1/resourcequotas" in api.paths
    assert dump.namespace == ""


def test_hidden_values_of_environment_variables_are_no_differences(tmp_path: Path) -> None:
    plan = yaml.safe_load_all((FOLDER / "plans" / "karpenter.yaml").read_text())
    planned = [each for each in plan if each["kind"] == "Deployment"]
    pod_spec(planned[0])["containers"][0]["env"] = [{"name": "TOKEN", "value": "secret"}]
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump_all(planned))
    world = World("karpenter")
    pod_spec(world[SERVE])["containers"][0]["env"] = [{"name": "TOKEN", "value": "other"}]
    given = read_input([str(tmp_path / "plan.yaml")])

    found = compare(Live(Collector(Api(world), None, given.objects).collect()), given, [])

    assert found.differences == ()
    assert [each.why for each in found.not_compared] == ["values of environment variables are hidden in the dump"]


def test_a_record_of_one_pod_does_not_show_that_objects_of_other_namespaces_are_missing(tmp_path: Path) -> None:
    world = World("karpenter")
    for title in (QUOTA, PLUGIN):
        world.remove(title)
    collector = Collector(Api(world), "default")
    collector.collect("train")
    collector.record(str(tmp_path / "record.zip"), {})
    plan = read_input([str(FOLDER / "plans" / "karpenter.yaml")])

    found = compare(Live(read_dump([str(tmp_path / "record.zip")])), plan, [])

    assert [each.object for each in found.differences] == [QUOTA]
    assert (PLUGIN, "the dump is limited to namespace default") in [
        (each.what, each.why) for each in found.not_compared
    ]


def test_an_error_file_of_kubectl_shows_that_a_config_map_is_missing(tmp_path: Path) -> None:
    world = World("karpenter")
    del world.lists["configmaps"]
    error = 'Error from server (NotFound): configmaps "nvidia-device-plugin-config" not found'
    (tmp_path / "configmap-nvidia-device-plugin-config.err").write_text(error)

    assert only_difference(world, tmp_path).message == f"{CONFIG} isn't in the cluster"


def test_the_script_asks_for_the_managers_of_fields_except_of_pods_and_events() -> None:
    lines = script().splitlines()

    assert "get nodes nodes -A --show-managed-fields" in lines
    assert "get pods pods -A" in lines
    assert "get configmap-aws-auth configmap aws-auth -n kube-system" in lines

"""Which pods need a node, and which pools and node groups could take them."""

from __future__ import annotations

from typing import Any

from gpu_preflight.doctor.capacity import fitting_groups, needs_node, node_pools
from gpu_preflight.doctor.diagnosis import causes
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.reading.objects import Object
from tests.preflight.doctor.cases import FOLDER, DoctorCase


def _case(name: str, base: str) -> tuple[Live, Target]:
    live = DoctorCase(FOLDER / "written" / name, (), "", base=base).live()
    return live, live.target(next(each for each in live.dump.objects if each.title == "Pod default/train"))


def _with_status(live: Live, pod: Object, **condition: Any) -> Target:
    pod.content["status"]["conditions"] = [{"type": "PodScheduled", **condition}]
    return live.target(pod)


def test_a_gated_pod_needs_no_node_so_its_broken_nodepool_is_no_cause() -> None:
    live, target = _case("K3-subnets-not-found", "karpenter")
    assert "K3" in {each.id for each in causes(live, target)}
    assert target.pod is not None
    gated = _with_status(live, target.pod, status="False", reason="SchedulingGated")
    assert not needs_node(live, gated)
    assert not {each.id[0] for each in causes(live, gated)} & set("CKEJ")


def test_a_pod_that_the_scheduler_has_not_seen_needs_no_node() -> None:
    live, target = _case("C6-event-expired", "managed")
    assert target.pod is not None
    target.pod.content["status"]["conditions"] = []
    assert not needs_node(live, live.target(target.pod))


def test_only_the_pools_that_could_take_the_pod_are_its_pools() -> None:
    live, target = _case("K3-of-another-pool", "karpenter")
    assert [each.name for each in node_pools(live, target)] == ["gpu"]
    live, target = _case("C7-of-another-group", "managed")
    assert [each.name for each in fitting_groups(live, target)] == ["gpu"]

"""explain, and the real Karpenter and scheduler, of the same pods on NodePools of every shape.

``AGREE_PAIRS=5000 pytest tests/e2e/rehearsal/test_agree.py`` asks more, ``AGREE_SEED=2`` others.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import os
import random
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_constructs.facts.labels import NODE_POOL
from gpu_constructs.preflight.scheduling import fitting
from gpu_constructs.rehearsal.assemblies import Assembly
from gpu_constructs.rehearsal.report import Report
from gpu_constructs.rehearsal.scenes.agree import MOST_UNKNOWN, SLOTS, Pair, Said, Told, agree, lines, verdicts
from gpu_constructs.rehearsal.scenes.create import create
from gpu_constructs.rehearsal.scenes.waiting import wait_for
from gpu_constructs.rehearsal.stage import Props, Stage, stage
from tests.e2e.rehearsal import drawn_pods, many_pools
from tools import build_e2e_tools
from tools import charts as packed
from tools.plays import assemblies_of

PAIRS = int(os.environ.get("AGREE_PAIRS", "1000"))
SEED = int(os.environ.get("AGREE_SEED", "1"))
DEFINITIONS = "GPU_CONSTRUCTS_CRDS"
IN_VAIN_SECONDS = 240.0
# Its registry is not reached here. Nothing of it counts in this scene: no instance becomes a node.
_EMPTY_CHART = ("aws-efa-k8s-device-plugin", "v0.5.30")


@pytest.fixture(scope="module")
def assemblies(tmp_path_factory: pytest.TempPathFactory) -> list[Assembly]:
    """The stack with NodePools of every shape."""
    return assemblies_of(Path(many_pools.__file__), tmp_path_factory.mktemp("many-pools"), {})


@pytest.fixture(scope="module")
def created(assemblies: list[Assembly], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A stage on which it is complete."""
    programs, charts = build_e2e_tools.control_planes(), packed.folder_of_charts()
    if not programs or charts is None or DEFINITIONS not in os.environ:
        pytest.skip(f"{build_e2e_tools.MISSING}; {packed.MISSING}; {DEFINITIONS} must name a folder")
    props = Props(
        control_planes=programs,
        karpenter=build_e2e_tools.karpenter(),
        charts=_with_empty_chart(charts, tmp_path_factory.mktemp("charts")),
        definitions=Path(os.environ[DEFINITIONS]),
    )
    report = Report("ManyPools")
    with stage(assemblies[0], props) as made:
        assert create(made, assemblies, report), report.text()
        yield made


@pytest.fixture(scope="module")
def told(created: Stage, assemblies: list[Assembly]) -> list[Told]:
    """What both say of all pairs."""
    return agree(created, assemblies, pairs(), Report("ManyPools"))


def pairs() -> list[Pair]:
    """Return pods that nearly fit, one pool after the other; one in a hundred for nodes that are there already.

    Those are asked of one at a time, since they take each other's place.
    """
    drawn, made = random.Random(SEED), itertools.cycle(each for each in many_pools.SHAPES if each != many_pools.STATIC)
    pools = [many_pools.STATIC if number % SLOTS == 0 else next(made) for number in range(PAIRS)]
    return [Pair(pod=drawn_pods.pod(drawn, pool), pool=pool) for pool in pools]


def test_explain_says_what_happens(told: list[Told]) -> None:
    counts = Counter(each.agreement for each in told)
    print(dict(counts), "\n".join(each.text for each in lines(told)))

    assert counts["false yes"] + counts["false no"] + counts["undecided"] == 0
    assert counts["unknown"] <= MOST_UNKNOWN * len(told)
    # Not by saying no to everything, nor nothing.
    assert 0.25 <= sum(each.decision.runs is True for each in told) / len(told) <= 0.75


def test_every_pool_takes_pods_and_refuses_some(told: list[Told]) -> None:
    done = {(each.pool, each.decision.runs) for each in told}

    assert done >= {(name, runs) for name in many_pools.SHAPES for runs in (True, False)}


def test_a_preflight_that_sees_no_taints_is_found_out(
    told: list[Told], assemblies: list[Assembly], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "untolerated", lambda *_: [])
    asked = told[:100]

    said: list[Said] = verdicts(assemblies, [each.pod for each in asked], [each.pool for each in asked])

    again = [dataclasses.replace(each, said=one) for each, one in zip(asked, said, strict=True)]
    assert any(each.agreement == "false yes" for each in again)


def test_a_pod_for_two_shares_gets_a_node_in_vain(created: Stage, told: list[Told]) -> None:
    client = created.client
    container = {"name": "main", "image": "app:1", "resources": {"limits": {drawn_pods.SHARED: "2"}}}
    client.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "two-shares", "namespace": "default"},
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": {NODE_POOL: "sliced"},
                "tolerations": [{"key": drawn_pods.GPU, "operator": "Exists"}],
                "containers": [container],
            },
        }
    )

    def refused() -> str | None:
        pod = client.get("/api/v1/namespaces/default/pods/two-shares")
        return str(pod["status"]["reason"]) if pod["status"].get("phase") == "Failed" else None

    assert wait_for(refused, IN_VAIN_SECONDS) == "UnexpectedAdmissionError"
    assert len(client.list("/api/v1/nodes", labelSelector=f"{NODE_POOL}=sliced")) == 1


def _with_empty_chart(charts: Path, folder: Path) -> Path:
    """Return a folder of those charts and of one that installs nothing."""
    for each in charts.glob("*.tgz"):
        (folder / each.name).symlink_to(each)
    name, version = _EMPTY_CHART
    said = f"apiVersion: v2\nname: {name}\nversion: {version}\n".encode()
    member = tarfile.TarInfo(f"{name}/Chart.yaml")
    member.size = len(said)
    with tarfile.open(folder / f"{name}-{version}.tgz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(said))
    return folder

"""explain, and the real Karpenter and scheduler, of the same pods on NodePools of every shape.

``AGREE_PAIRS=5000 pytest tests/e2e/rehearsal/test_agree.py`` asks more, ``AGREE_SEED=2`` others.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
from collections import Counter

import pytest

from gpu_facts.labels import NODE_POOL
from gpu_preflight.scheduling import fitting
from gpu_rehearsal.assemblies import Assembly
from gpu_rehearsal.report import Report
from gpu_rehearsal.scenarios.pools import wait_until_found
from gpu_rehearsal.stage import Stage
from tests.e2e.rehearsal import drawn_pods, many_pools
from tests.e2e.rehearsal.agree import MOST_UNKNOWN, SLOTS, Pair, Said, Told, agree, lines, verdicts

PAIRS = int(os.environ.get("AGREE_PAIRS", "1000"))
SEED = int(os.environ.get("AGREE_SEED", "1"))
IN_VAIN_SECONDS = 240.0


@pytest.fixture(scope="module")
def told(many_pools_stage: Stage, stacks_of_many_pools: list[Assembly]) -> list[Told]:
    """Both results for all pairs."""
    return agree(many_pools_stage, stacks_of_many_pools, pairs(), Report("ManyPools"))


def pairs() -> list[Pair]:
    """Return pods that nearly fit, one pool after the other; one in a hundred for nodes that are there already.

    Those are tried one at a time, since they take each other's place.
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
    told: list[Told], stacks_of_many_pools: list[Assembly], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting, "untolerated", lambda *_: [])
    asked = told[:1000]

    said: list[Said] = verdicts(stacks_of_many_pools, [each.pod for each in asked], [each.pool for each in asked])

    again = [dataclasses.replace(each, said=one) for each, one in zip(asked, said, strict=True)]
    assert any(each.agreement == "false yes" for each in again)


def test_a_pod_for_two_shares_gets_a_node_in_vain(many_pools_stage: Stage, told: list[Told]) -> None:
    client = many_pools_stage.client
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

    assert wait_until_found(refused, IN_VAIN_SECONDS) == "UnexpectedAdmissionError"
    assert len(client.list("/api/v1/nodes", labelSelector=f"{NODE_POOL}=sliced")) == 1

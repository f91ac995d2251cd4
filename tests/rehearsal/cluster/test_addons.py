"""Workloads of add-ons, as their configuration changes them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gpu_rehearsal.cluster.addons import WORKLOADS
from gpu_rehearsal.cluster.client import Object

ALL = [{"operator": "Exists"}]


def pods(addon: str, configuration: dict[str, Any] | None = None) -> dict[str, Object]:
    """Specifications of the pods of an add-on, by the names of its workloads."""
    made = [each for work in WORKLOADS[addon] for each in work.manifests(addon, configuration or {})]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in made if "spec" in each}


@pytest.mark.parametrize("addon", WORKLOADS)
def test_each_pod_has_an_account_of_its_add_on(addon: str) -> None:
    made = [each for work in WORKLOADS[addon] for each in work.manifests(addon, {})]
    accounts = {each["metadata"]["name"] for each in made if each["kind"] == "ServiceAccount"}

    assert {each["serviceAccountName"] for each in pods(addon).values()} == accounts
    assert json.dumps(made)


def test_the_agents_run_on_nodes_with_any_taint() -> None:
    assert pods("vpc-cni")["aws-node"]["tolerations"] == ALL
    assert pods("eks-pod-identity-agent")["eks-pod-identity-agent"]["hostNetwork"]


def test_the_host_engine_has_the_configured_tolerations() -> None:
    configured = pods("eks-node-monitoring-agent", {"dcgmAgent": {"tolerations": ALL}})

    assert "tolerations" not in pods("eks-node-monitoring-agent")["dcgm-server"]
    assert configured["dcgm-server"]["tolerations"] == ALL


def test_the_host_engine_runs_on_gpu_types() -> None:
    affinity = json.dumps(pods("eks-node-monitoring-agent")["dcgm-server"]["affinity"])

    assert '"p6-b300.48xlarge"' in affinity
    assert '"m6i.large"' not in affinity

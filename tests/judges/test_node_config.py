"""Every NodeConfig against the definition of nodeadm's own, made strict: nodeadm ignores what it does not know."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from gpu_constructs import Mig, NodeShape, Taint, TimeSlicing
from gpu_constructs.installing.yaml_text import to_yaml
from gpu_constructs.nodes import user_data as rendering
from gpu_constructs.pools import Host, Kubelet, NodeConfig
from tests.emitted import Template
from tests.hosts import SURROUNDED
from tests.judges.booting import NODE_CONFIG, node_configs
from tests.schemas import strict_schema
from tests.user_data import membership, parts_of

# Nodeadm's feature gates are a map to its schema, which takes any name.
# Source: awslabs/amazon-eks-ami 81fec2e (2026-07-23) nodeadm/api/v1alpha1/nodeconfig_types.go
GATES = {"InstanceIdNodeName", "FastImagePull"}
LEAST = 40


@pytest.fixture(scope="session")
def validator(upstream_schemas: Path) -> jsonschema.Draft7Validator:
    """The schema of a NodeConfig."""
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig"}
    return jsonschema.Draft7Validator(strict_schema(upstream_schemas, config, file="node.eks.aws_nodeconfigs.yaml"))


def faults(validator: jsonschema.Draft7Validator, config: dict[str, Any]) -> list[str]:
    """Return what speaks against a NodeConfig."""
    unknown = set(config["spec"].get("featureGates", {})) - GATES
    return [each.message for each in validator.iter_errors(config)] + [f"feature gate {each}" for each in unknown]


def test_every_one_is_what_nodeadm_knows(emitted: dict[str, Template], validator: jsonschema.Draft7Validator) -> None:
    configs = node_configs(emitted)

    assert len(configs) >= LEAST
    assert {name: found for name, config in configs if (found := faults(validator, config))} == {}


def misspelt(config: dict[str, Any]) -> None:
    config["spec"]["kubelet"]["flagz"] = config["spec"]["kubelet"].pop("flags")


def unknown_strategy(config: dict[str, Any]) -> None:
    config["spec"]["instance"] = {"localStorage": {"strategy": "RAID9"}}


def unknown_gate(config: dict[str, Any]) -> None:
    config["spec"]["featureGates"] = {"FastImagPull": True}


def text_for_a_truth(config: dict[str, Any]) -> None:
    config["spec"]["featureGates"] = {"FastImagePull": "true"}


@pytest.mark.parametrize("spoil", [misspelt, unknown_strategy, unknown_gate, text_for_a_truth])
def test_the_judge_refuses_what_nodeadm_would_ignore(
    emitted: dict[str, Template], validator: jsonschema.Draft7Validator, spoil: Callable[[dict[str, Any]], None]
) -> None:
    joining = next(config for _, config in node_configs(emitted) if "flags" in config["spec"].get("kubelet", {}))
    config = copy.deepcopy(joining)
    assert faults(validator, config) == []

    spoil(config)

    assert faults(validator, config)


SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "sharing": {"sharing": TimeSlicing(replicas=4)},
    "mig": {"instance_types": ("p5.48xlarge",), "sharing": Mig(geometry={"1g.10gb": 7})},
    "soci": {"soci": True, "kubelet": Kubelet(kube_reserved={"cpu": "1", "memory": "1Gi"})},
    "host": {
        "host": Host(
            user_data=(NodeConfig(spec={"kubelet": {"config": {"shutdownGracePeriod": "60s"}, "flags": ["--v=2"]}}),)
        )
    },
    "surroundings": {"host": SURROUNDED},
    "labels": {
        "labels": {"team": "y", "cell": "08", "rack": "1e3"},
        "taints": (Taint(key="team", value="y", effect="NoSchedule"),),
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_it_is_parsed_back_as_it_was_written(
    name: str, validator: jsonschema.Draft7Validator, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Any] = []

    def write(document: Any, width: float) -> str:
        written.append(document)
        return to_yaml(document, width=width)

    monkeypatch.setattr(rendering, "to_yaml", write)
    rendering._mime.cache_clear()
    given: dict[str, Any] = {"instance_types": ("g6.12xlarge",), "kubelet": Kubelet(max_pods=58)} | SHAPES[name]
    shape = NodeShape(**given)

    texts = [rendering.user_data(shape), rendering.joining_user_data(shape, "y", membership("08"))]

    rendering._mime.cache_clear()
    read = [yaml.safe_load(part) for text in texts for kind, part in parts_of(text) if kind == NODE_CONFIG]
    assert len(read) == len(texts)
    assert read == written
    for config in read:
        # Its values are kubelet's own; the definition takes each for an object.
        config["spec"].get("kubelet", {}).pop("config", None)
        assert faults(validator, config) == []

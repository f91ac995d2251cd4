"""Every instance type in every kind of pool, on every system, bought in every way: emitted right or refused."""

from __future__ import annotations

import collections
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import aws_cdk as cdk
import jsonschema
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from syrupy.assertion import SnapshotAssertion

from gpu_constructs import (
    AutoModeNodePool,
    CapacityBlock,
    KarpenterNodePool,
    ManagedNodeGroup,
    NodeShape,
    OnDemand,
    Reservation,
    Spot,
    UpTo,
)
from gpu_constructs.facts.hardware.catalogue import catalogue
from gpu_constructs.nodes import Bootstrap, SelfManagedNodeGroup
from tests.clusters import CERTIFICATE, ENDPOINT, imported_cluster, imported_vpc
from tests.conftest import ROOT
from tests.linting import CDKS_OWN, cfn_lint
from tests.once import Once
from tests.schemas import strict_schema
from tests.templates import manifests_of

STARTS = datetime(2026, 12, 1, 11, 30, tzinfo=timezone.utc)
ZONE = "us-east-1a"
CAPACITIES = {
    "on-demand": OnDemand(),
    "spot": Spot(),
    "reservation": Reservation(availability_zone=ZONE, id="cr-0123456789abcdef0"),
    "capacity block": CapacityBlock(
        id="cr-0123456789abcdef0", availability_zone=ZONE, starts=STARTS, ends=STARTS + timedelta(days=1), instances=2
    ),
}
SYSTEMS = ("al2023", "bottlerocket")
KINDS = ("managed", "self-managed", "karpenter", "auto mode")
# The fact each refusal names, by words of its message; a refusal of any other kind is a defect.
FACTS = {
    "one with NVIDIA driver 595": "the pinned release does not carry its driver",
    "that NVIDIA driver 580 drives": "no document says that Auto Mode drives it",
    "EC2 sells": "EC2 does not sell it so",
    "whose GPUs EC2 counts": "Auto Mode cannot count a fraction of a GPU",
    "knows no UltraServers": "Karpenter knows no UltraServers",
    "no Bottlerocket image boots it": "no Bottlerocket image boots it",
    "which Auto Mode's image is": "Auto Mode runs its own Bottlerocket",
}


@dataclass
class Tried:
    """All combinations of one kind of pool: a stack for each system and way of buying.

    Attributes:
        emitted: How many were emitted, by kind, system and way of buying.
        refused: How many were refused, by fact.
        unexplained: Refusals that name no fact.
        templates: The template of each stack that has resources, by its name.
    """

    emitted: dict[str, int] = field(default_factory=collections.Counter)
    refused: dict[str, int] = field(default_factory=collections.Counter)
    unexplained: list[str] = field(default_factory=list)
    templates: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, kind: str, folder: Path) -> Tried:
        """Try all combinations of a kind."""
        tried = cls()
        # No limit on resources: a stack here holds more groups than anybody would deploy at once.
        context = {"@aws-cdk/core:stackResourceLimit": 0}
        app = cdk.App(context=context, outdir=str(folder), analytics_reporting=False)
        for system, bought in itertools.product(SYSTEMS, CAPACITIES):
            stack = cdk.Stack(app, f"{kind}-{system}-{bought}".replace(" ", "-"))
            cluster, role = joinable_cluster(stack), iam.Role.from_role_name(stack, "Nodes", "nodes")
            for number, name in enumerate(catalogue()):
                tried.attempt(stack, f"P{number}P", kind, system, bought, name, cluster, role)
        app.synth()
        written = {path.name: path.read_text() for path in sorted(folder.glob("*.template.json"))}
        tried.templates = {name: text for name, text in written.items() if "Resources" in json.loads(text)}
        return tried

    def attempt(
        self, stack: cdk.Stack, id: str, kind: str, system: Any, bought: str, name: str, cluster: Any, role: Any
    ) -> None:
        """Make one pool, or note why not."""
        try:
            shape = NodeShape(instance_types=(name,), operating_system=system)
            make(stack, id, kind, shape, CAPACITIES[bought], cluster, role)
        except ValueError as error:
            facts = [fact for words, fact in FACTS.items() if words in str(error)]
            self.refused[facts[0] if facts else "unexplained"] += 1
            self.unexplained += [] if facts else [f"{kind} {system} {bought} {name}: {error}"]
        else:
            self.emitted[f"{kind}, {system}, {bought}"] += 1


def joinable_cluster(stack: cdk.Stack) -> eks.ICluster:
    """Import a cluster with all that any pool asks for."""
    return imported_cluster(
        stack,
        imported_vpc(stack, (ZONE,)),
        cluster_endpoint=ENDPOINT,
        cluster_certificate_authority_data=CERTIFICATE,
    )


def make(stack: cdk.Stack, id: str, kind: str, shape: NodeShape, capacity: Any, cluster: Any, role: Any) -> None:
    """Make one pool of a kind."""
    name = f"pool-{id.lower()}"
    if kind == "managed":
        ManagedNodeGroup(stack, id, cluster=cluster, name=name, shape=shape, capacity=capacity, max_nodes=2)
    elif kind == "self-managed":
        says = Bootstrap(kubernetes_version="1.36", service_cidr="172.20.0.0/16")
        SelfManagedNodeGroup(
            stack,
            id,
            cluster=cluster,
            name=name,
            shape=shape,
            capacity=capacity,
            max_nodes=2,
            bootstrap=says,
            termination_handler="installed",
        )
    elif kind == "karpenter":
        KarpenterNodePool(
            stack, id, cluster=cluster, name=name, shape=shape, capacity=capacity, size=UpTo(gpus=16), node_role=role
        )
    else:
        AutoModeNodePool(
            stack, id, cluster=cluster, name=name, shape=shape, capacity=capacity, size=UpTo(gpus=16), node_role=role
        )


@pytest.fixture(scope="module")
def tried(once: Once, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Tried]:
    """What became of all combinations of a kind, which are tried once in a run."""

    def of(kind: str) -> Tried:
        name = kind.replace(" ", "-")
        return Tried(**once.json(f"matrix-{name}", lambda: vars(Tried.of(kind, tmp_path_factory.mktemp(name)))))

    return of


@pytest.fixture
def matrix(tried: Callable[[str], Tried]) -> list[Tried]:
    """What became of all combinations."""
    return [tried(kind) for kind in KINDS]


# The longest first.
@pytest.mark.parametrize("kind", ["self-managed", "managed", "karpenter", "auto mode"])
def test_cfn_lint_finds_nothing(tried: Callable[[str], Tried], kind: str, tmp_path: Path) -> None:
    for name, text in tried(kind).templates.items():
        (tmp_path / name).write_text(text)

    # E3010 counts resources, of which a stack here has more than CloudFormation takes. E3628 knows the types that
    # have a price in us-east-1, and so neither p5e nor p6e-gb200; ours are held against botocore.
    assert cfn_lint(tmp_path.iterdir(), ignore=(*CDKS_OWN, "E3010", "E3628")) == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_refusal_names_a_fact(tried: Callable[[str], Tried], kind: str) -> None:
    assert tried(kind).unexplained == []


def test_what_is_emitted_and_refused(matrix: list[Tried], snapshot_yaml: SnapshotAssertion) -> None:
    emitted = {place: count for each in matrix for place, count in each.emitted.items()}
    refused = sum((collections.Counter(each.refused) for each in matrix), collections.Counter())
    tried = sum(emitted.values()) + refused.total()

    assert tried == len(catalogue()) * len(KINDS) * len(SYSTEMS) * len(CAPACITIES)
    assert {
        "tried": tried,
        "emitted": sum(emitted.values()),
        "refused": refused.total(),
        "emitted by kind, system and capacity": emitted,
        "refused because": dict(sorted(refused.items())),
    } == snapshot_yaml


@pytest.mark.parametrize(("kind", "least"), [("karpenter", 700), ("auto mode", 150)])
def test_custom_resources_are_valid_for_their_definitions(
    tried: Callable[[str], Tried], kind: str, least: int, crds: Path
) -> None:
    schemas: dict[str, Any] = {}
    checked = 0
    for template in tried(kind).templates.values():
        for each in manifests_of(json.loads(template)["Resources"]):
            # EKS publishes no definition of Auto Mode's NodeClass.
            if each["apiVersion"].startswith("eks.amazonaws.com/"):
                continue
            if each["kind"] not in schemas:
                schemas[each["kind"]] = jsonschema.Draft7Validator(strict_schema(crds, each))
            schemas[each["kind"]].validate(each | {"metadata": {}})
            checked += 1
    assert checked > least


def test_the_evidence_says_the_numbers(matrix: list[Tried]) -> None:
    emitted = sum(sum(each.emitted.values()) for each in matrix)
    refused = sum(sum(each.refused.values()) for each in matrix)
    evidence = (ROOT / "docs" / "evidence.md").read_text()

    said = f"of {emitted + refused:,} combinations {emitted:,} are emitted; each of the {refused:,} others is refused"
    assert said in evidence

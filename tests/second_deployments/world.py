"""Apps that differ in one option of one construct, and the effects of a second deployment of the difference."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from gpu_constructs import GpuDeployment, GpuPod, ManagedNodeGroup, NodeShape
from gpu_preflight.judging.changes import EFFECTS, ORDER, ResourceChange, resource_changes
from gpu_preflight.reading.inputs import Input, Stack, read_stacks
from tests.clusters import CERTIFICATE, ENDPOINT
from tests.conftest import FLAGS

ACCOUNT, REGION = "111122223333", "us-east-1"
L4 = NodeShape(instance_types=("g6.xlarge",))
POD = GpuPod(image="registry.example.com/app:1")
# Another cluster than the one of the first version.
OTHER = object()


class World:
    """A stack with an imported cluster, and everything that constructs take, made when it is asked for.

    Args:
        cluster_name: Name of the imported cluster.
    """

    def __init__(self, folder: str, cluster_name: str) -> None:
        # As the cdk CLI does it.
        context = {**FLAGS, "aws:cdk:enable-path-metadata": True}
        app = cdk.App(context=context, analytics_reporting=False, outdir=folder)
        self.app = app
        self.stack = cdk.Stack(app, "Test", env=cdk.Environment(account=ACCOUNT, region=REGION))
        self._cluster_name = cluster_name
        self._made: dict[str, Any] = {}

    def once(self, id: str, make: Callable[[str], Any]) -> Any:
        """Make something under an id, or return what was made under it."""
        if id not in self._made:
            self._made[id] = make(id)
        return self._made[id]

    @cached_property
    def vpc(self) -> ec2.IVpc:
        """An imported VPC."""
        return self.network("Vpc", "0")

    def network(self, id: str, digit: str) -> ec2.IVpc:
        """Import a VPC with two private subnets."""
        found: ec2.IVpc = self.once(
            id,
            lambda id: ec2.Vpc.from_vpc_attributes(
                self.stack,
                id,
                vpc_id=f"vpc-{digit}123456789abcdef0",
                availability_zones=[f"{REGION}a", f"{REGION}b"],
                vpc_cidr_block="10.0.0.0/16",
                private_subnet_ids=[f"subnet-{digit}123456789abcdef{each}" for each in "01"],
                private_subnet_route_table_ids=[f"rtb-{digit}123456789abcdef{each}" for each in "01"],
            ),
        )
        return found

    @cached_property
    def cluster(self) -> eks.ICluster:
        """The imported cluster."""
        provider = eks.KubectlProvider.from_kubectl_provider_attributes(
            self.stack,
            "Kubectl",
            service_token=f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:kubectl",
            role=self.role("kubectl"),
        )
        return eks.Cluster.from_cluster_attributes(
            self.stack,
            "Cluster",
            cluster_name=self._cluster_name,
            vpc=self.vpc,
            kubectl_provider=provider,
            cluster_security_group_id="sg-0123456789abcdef0",
            cluster_endpoint=ENDPOINT,
            cluster_certificate_authority_data=CERTIFICATE,
        )

    def role(self, name: str) -> iam.IRole:
        """Import a role."""
        arn = f"arn:aws:iam::{ACCOUNT}:role/{name}"
        found: iam.IRole = self.once(f"Role{name}", lambda id: iam.Role.from_role_arn(self.stack, id, arn))
        return found

    def key(self, digit: str) -> kms.IKey:
        """Import a key."""
        arn = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/{digit * 8}-1111-1111-1111-111111111111"
        found: kms.IKey = self.once(f"Key{digit}", lambda id: kms.Key.from_key_arn(self.stack, id, arn))
        return found

    def bucket(self, name: str) -> s3.IBucket:
        """Import a bucket."""
        found: s3.IBucket = self.once(f"Bucket{name}", lambda id: s3.Bucket.from_bucket_name(self.stack, id, name))
        return found

    def subnet(self, letter: str) -> ec2.ISubnet:
        """Import a subnet in a zone."""
        found: ec2.ISubnet = self.once(
            f"In{letter}",
            lambda id: ec2.Subnet.from_subnet_attributes(
                self.stack, id, subnet_id=f"subnet-0123456789abcde{letter}0", availability_zone=f"{REGION}{letter}"
            ),
        )
        return found

    def pool(self, name: str = "l4", *types: str, **says: Any) -> Any:
        """Make a managed node group."""
        shape = NodeShape(instance_types=types or ("g6.xlarge",), efa=bool(says.pop("efa", False)))
        return self.once(
            name.title(),
            lambda id: ManagedNodeGroup(
                self.stack, id, cluster=self.cluster, name=name, shape=shape, **{"max_nodes": 8} | says
            ),
        )

    def served(self, name: str = "chat") -> Any:
        """Make a deployment."""
        return self.once(
            name.title(),
            lambda id: GpuDeployment(
                self.stack, id, cluster=self.cluster, pool=self.pool(), name=name, pod=POD, port=8000
            ),
        )

    def of(self, kind: Callable[..., Any], id: str | None = None, **says: Any) -> Any:
        """Make a construct that takes the cluster."""
        name = id or str(getattr(kind, "__name__", "It"))
        return self.once(name, lambda id: kind(self.stack, id, cluster=self.cluster, **says))


Says = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A public class or function, and another value for each of its options.

    Attributes:
        subject: The class or function.
        base: Options of the first version.
        options: The other value of each option; a function of the world makes it.
        carry: Creates the app around it; a construct takes the cluster itself.
        partners: Options that change with one, because the option alone is no valid change.
        before: Other options of the first version, where the one of the base has no other value.
    """

    subject: Any
    options: Says
    base: Callable[[World], Says] = lambda world: {}
    carry: Callable[[World, Any], object] | None = None
    partners: Mapping[str, Says] = field(default_factory=dict)
    before: Mapping[str, Says] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the class or function."""
        return str(self.subject.__name__)

    @property
    def parameters(self) -> list[str]:
        """Every option that the class or function has."""
        made = self.subject.__init__ if inspect.isclass(self.subject) else self.subject
        found = inspect.signature(inspect.unwrap(made)).parameters.values()
        named = (each for each in found if each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD))
        # A value such as a reservation has its own id.
        own = "id" if hasattr(self.subject, "__dataclass_fields__") else ""
        return [each.name for each in named if each.name == own or each.name not in ("self", "scope", "id")]

    def deployed(self, option: str) -> Input:
        """Return the first version, before an option changes."""
        # Functions of the world have no value to compare: names of options do.
        return _first(self, option if option in self.before else "")

    def changed(self, option: str) -> Input:
        """Return the second version.

        Raises:
            ValueError: The library rejects the change.
        """
        says = {**self.before.get(option, {}), **self.partners.get(option, {}), option: self.options[option]}
        return _version(self, says)


@cache
def _cached(name: str, option: str, case: _Case) -> Input:
    return _version(case.case, case.case.before.get(option, {}))


@dataclass(frozen=True)
class _Case:
    """A case in a cache: equal by its name."""

    name: str
    case: Case = field(compare=False)


def _first(case: Case, option: str) -> Input:
    return _cached(case.name, option, _Case(case.name, case))


def _version(case: Case, says: Says) -> Input:
    with tempfile.TemporaryDirectory() as folder:
        world = World(folder, "other" if says.get("cluster") is OTHER else "demo")
        given = {**case.base(world), **{key: each for key, each in says.items() if each is not OTHER}}
        made = {key: each(world) if inspect.isfunction(each) else each for key, each in given.items()}
        if case.carry is not None:
            case.carry(world, made if not inspect.isclass(case.subject) else case.subject(**made))
        elif inspect.isclass(case.subject) and issubclass(case.subject, Construct):
            taken = {"cluster": world.cluster} if "cluster" in case.parameters else {}
            case.subject(world.stack, "It", **taken, **made)
        else:
            case.subject(world.stack, "It", **made)
        world.app.synth()
        file = Path(folder) / "Test.template.json"
        return read_stacks([Stack(str(file), "Test", ACCOUNT, REGION)])


def outcome(case: Case, option: str) -> tuple[str, tuple[ResourceChange, ...], str]:
    """Return the class of a change, what it is made of, and the message of one that is rejected."""
    before = case.deployed(option)
    try:
        after = case.changed(option)
    except (ValueError, RuntimeError) as error:
        return "rejected", (), str(error).splitlines()[0]
    found = resource_changes(before, after)
    worst: str = min((each.change for each in found), key=ORDER.index, default="none")
    if worst in ("removed", "in place", "added"):
        effects = {each.effect for each in found}
        worst = next((effect for effect in EFFECTS if effect in effects), "in place")
    return worst, found, ""

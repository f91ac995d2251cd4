"""Record the logical ids of the reference stacks at a release, and report resources that a change would remove.

Users who upgrade keep their cluster only if its logical ids and the properties that CloudFormation can't change in
place stay the same.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aws_cdk as cdk
import yaml
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

from gpu_constructs import CapacityBlock, __version__
from stacks.auto_mode_cluster_stack import AutoModeClusterStack
from stacks.gpu_cluster_stack import GpuClusterStack
from stacks.inference_cluster_stack import InferenceClusterStack
from stacks.options import GpuClusterOptions
from stacks.training_cluster_stack import TrainingClusterStack

ROOT = Path(__file__).parents[1]
RELEASED = ROOT / "tests" / "stacks" / "released.yaml"
ZONES = ("us-east-1a", "us-east-1b")
BLOCK = CapacityBlock(
    id="cr-0123456789abcdef0",
    availability_zone="us-east-1b",
    starts=datetime(2027, 1, 11, 11, 30, tzinfo=timezone.utc),
    ends=datetime(2027, 1, 18, 11, 30, tzinfo=timezone.utc),
    instances=4,
)
# Their ids contain a hash, and their replacement loses nothing.
PASSING = ("AWS::Lambda::Version",)
# Resources of nodes, data or access: a replacement is an outage.
HELD = (
    "AWS::AutoScaling::AutoScalingGroup",
    "AWS::EC2::Subnet",
    "AWS::EC2::VPC",
    "AWS::EC2::Volume",
    "AWS::EKS::AccessEntry",
    "AWS::EKS::Cluster",
    "AWS::EKS::Nodegroup",
    "AWS::IAM::Role",
    "AWS::KMS::Key",
)

Resources = Mapping[str, Mapping[str, Any]]
Inventory = dict[str, dict[str, dict[str, Any]]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A loss for users who upgrade.

    Attributes:
        stack: The reference stack.
        id: Logical id of the resource.
        text: The change of the resource.
    """

    stack: str
    id: str
    text: str


def main() -> None:
    """Write the inventory of this version."""
    head = (
        f"# Resources of the reference stacks of {__version__}: 'make released' writes this file, once per release.\n"
    )
    RELEASED.write_text(head + yaml.safe_dump(inventory(), width=120, default_flow_style=None, sort_keys=False))


def inventory() -> Inventory:
    """Return the resources of each reference stack: type, and properties whose change is a replacement."""
    with TemporaryDirectory() as folder:
        _synthesize(Path(folder))
        found = {
            path.name.removesuffix(".template.json"): json.loads(path.read_text())["Resources"]
            for path in sorted(Path(folder).glob("*/*.template.json"))
        }
    return {stack: template_inventory(resources) for stack, resources in found.items()}


def template_inventory(resources: Resources) -> dict[str, dict[str, Any]]:
    """Return the recorded properties of a template's resources."""
    return {id: _resource_inventory(each) for id, each in sorted(resources.items()) if each["Type"] not in PASSING}


def losses(released: Inventory, now: Inventory) -> Iterator[Loss]:
    """Yield the differences to the release."""
    for stack, resources in released.items():
        for id, was in resources.items():
            if text := _loss(was, now.get(stack, {}).get(id)):
                yield Loss(stack=stack, id=id, text=text)


def is_announced(loss: Loss, changelog: str) -> bool:
    """Whether "Breaking" of the changelog's unreleased changes names the id, or the stack."""
    unreleased = re.search(r"^## Unreleased\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    breaking = re.search(
        r"^### Breaking\n(.*?)(?=^### |\Z)", unreleased[1] if unreleased else "", re.MULTILINE | re.DOTALL
    )
    words = set(re.findall(r"[\w-]+", breaking[1])) if breaking else set()
    return bool(words & {loss.id, loss.stack})


def _synthesize(folder: Path) -> None:
    env = cdk.Environment(account="111122223333", region="us-east-1")
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    for mode in ("cluster-autoscaler", "karpenter"):
        app = cdk.App(outdir=str(folder / mode), context=context, analytics_reporting=False)
        options = GpuClusterOptions(autoscaler=mode)
        GpuClusterStack(app, f"GpuClusterStack-{mode}", stack_name="GpuClusterStack", options=options)
        app.synth()
    app = cdk.App(outdir=str(folder / "reference"), context=context, analytics_reporting=False)
    TrainingClusterStack(app, "Training", availability_zones=ZONES, capacity=BLOCK, max_nodes=4, env=env)
    InferenceClusterStack(app, "Inference", env=env)
    AutoModeClusterStack(app, "AutoMode", env=env)
    app.synth()


def _resource_inventory(resource: Mapping[str, Any]) -> dict[str, Any]:
    kind, properties = resource["Type"], resource.get("Properties", {})
    fixed = {path: value for path in _create_only(kind) if (value := _find_value(properties, path)) is not None}
    return {"type": kind} | ({"fixed": fixed} if fixed else {})


def _create_only(kind: str) -> list[str]:
    """Return the paths of properties whose change replaces a resource, from CloudFormation's schema of the type."""
    if kind not in HELD:
        return []
    schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema("us-east-1", kind).schema
    return [path.removeprefix("/properties/") for path in schema.get("createOnlyProperties") or ()]


def _find_value(value: Any, path: str) -> Any:
    for key in path.split("/"):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _loss(was: Mapping[str, Any], now: Mapping[str, Any] | None) -> str | None:
    if now is None:
        return f"{was['type']} is gone"
    if now["type"] != was["type"]:
        return f"{was['type']} is a {now['type']}"
    before, after = was.get("fixed", {}), now.get("fixed", {})
    moved = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    return f"{was['type']} is replaced, as {', '.join(moved)} cannot change" if moved else None


if __name__ == "__main__":
    main()

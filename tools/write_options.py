"""Write docs/reference/options.md from the options of `GpuClusterStack`."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from gpu_facts.versions import KUBERNETES
from stacks.options import GpuClusterOptions, PoolOptions

DOCUMENT = Path(__file__).parents[1] / "docs" / "reference" / "options.md"
# As they are typed behind `-c`, none of them the default.
EXAMPLES = {
    "autoscaler": "karpenter",
    "kubernetes_version": "1.35",
    "cluster_name": "research",
    "pools": '[{"name": "l4", "instance_types": ["g6.xlarge"], "capacity": "spot"}]',
    "system_instance_types": "m7g.large",
    "availability_zones": "us-east-1b,us-east-1d",
    "nat_gateways": "2",
    "public_access_cidrs": "203.0.113.0/24",
    "admins": "arn:aws:iam::111122223333:role/Admin",
    "smoke_test": "true",
    "tags": '{"team": "research"}',
}
POOL_EXAMPLES: dict[str, Any] = {
    "name": "l4",
    "instance_types": ["g6.xlarge", "g6.2xlarge"],
    "max_nodes": 8,
    "min_nodes": 1,
    "capacity": "spot",
    "operating_system": "bottlerocket",
    "disk_gib": 500,
}
HEAD = """# Options of GpuClusterStack

Each is a key of CDK context: on the command line as `cdk synth GpuClusterStack -c KEY=VALUE`, with make as
`make synth ARGS="-c KEY=VALUE"`, or under `context` in `cdk.json`, where lists and objects are written as JSON. A wrong
key or value is refused before anything is made. What no option says is said in Python, in an app of your own
([examples](examples.md)). This page is written by `make options`.
"""
POOL_HEAD = """
## A pool

An object in the list `pools`, which replaces the default pool.
"""
NOTES = """
## Worth knowing

* **Nobody but `admins` gets into the cluster**, not even who deploys it.
* `kubernetes_version` is one of {versions}.
* `public_access_cidrs` left out, the endpoint of the API answers the whole internet, and asks for credentials.
* `nat_gateways=0` leaves the nodes without a way to any registry but ECR, and the images of this stack lie elsewhere:
  the device plugin's on nvcr.io, the autoscaler's on registry.k8s.io. `cdk synth` rejects it (GPU076, GPU455).
  It takes an app of your own that names mirrors: [pools.md](../how-to/pools.md#your-own-network-keys-and-rules).
* The two zones taken by default are the first two of the region. GPU types are sold in few zones; those of yours are
  listed by `aws ec2 describe-instance-type-offerings --location-type availability-zone`. EKS puts no control plane into
  the zones with the ids use1-az3, usw1-az2 and cac1-az3
  ([network requirements](https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html)), and which name that is
  your account alone knows. In us-east-1, us-west-1 and ca-central-1 the control plane therefore gets two subnets of its
  own in other zones. That takes a stack which knows its region: `app.py` takes the CDK's, an app of yours says
  `env=cdk.Environment(region=...)`.
"""


def document() -> str:
    """Return the page."""
    return "\n".join(
        [
            HEAD,
            *table(GpuClusterOptions, lambda name: f"-c {name}={_quoted(EXAMPLES[name])}"),
            POOL_HEAD,
            *table(PoolOptions, lambda name: json.dumps({name: POOL_EXAMPLES[name]})[1:-1]),
            NOTES.format(versions=", ".join(KUBERNETES)),
        ]
    )


def table(kind: type[Any], example: Callable[[str], str]) -> list[str]:
    """Return the options of a kind as rows.

    Args:
        kind: A dataclass whose docstring says what each attribute means.
        example: Makes the example of an attribute's name.
    """
    meant = dict(meanings(kind))
    rows = [[f"`{each.name}`", *_said(meant[each.name], each), f"`{example(each.name)}`"] for each in fields(kind)]
    head = [["key", "what it says", "default", "example"], ["---"] * 4]
    return [f"| {' | '.join(_cell(each) for each in row)} |" for row in [*head, *rows]]


def meanings(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Return what the docstring of a kind says of each attribute."""
    attributes = (inspect.getdoc(kind) or "").partition("\nAttributes:\n")[2].partition("\nRaises:")[0]
    for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE):
        yield name, " ".join(text.split()).replace("``", "`")


def _said(meaning: str, option: Field[Any]) -> tuple[str, str]:
    """Return what an option says and its default, which is a value or stands in the docstring."""
    what, _, computed = meaning.partition(" Default: ")
    if computed:
        return what, computed.rstrip(".")
    if option.default is MISSING:
        return what, "none; it must be given"
    return what, f"`{_json(option.default)}`"


def _json(value: Any) -> str:
    """Return a value as context holds it."""
    if isinstance(value, tuple) and value and isinstance(value[0], PoolOptions):
        return json.dumps([{"name": each.name, "instance_types": list(each.instance_types)} for each in value])
    return value if isinstance(value, str) else json.dumps(value)


def _quoted(value: str) -> str:
    return f"'{value}'" if set(value) & set('"[ ') else value


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(document())

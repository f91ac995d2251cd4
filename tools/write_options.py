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

`GpuClusterStack` is a complete stack in this repository, for use without changes. `make synth` creates an environment
with Node and the cdk CLI in `.venv`, and writes `cdk.out`. [Operate](../how-to/operate.md) describes deployment and
destruction. Without make: `pip install -r requirements.txt`, and `requirements-dev.txt` for the tests.

Each option is a key of CDK context. Set it on the command line as `cdk synth GpuClusterStack -c KEY=VALUE`, with make
as `make synth ARGS="-c KEY=VALUE"`, or under `context` in `cdk.json`, where lists and objects are JSON. A wrong key or
value is rejected before anything is created. For other settings, write your own app ([examples](examples.md)).
`make options` writes this page.
"""
POOL_HEAD = """
## A pool

An object in the list `pools`, which replaces the default pool.
"""
NOTES = """
## Worth knowing

* **Only `admins` have access to the cluster**, not even the role that deploys it.
* `kubernetes_version` is one of {versions}.
* Without `public_access_cidrs`, the API endpoint is reachable from the whole internet, and requires credentials.
* With `nat_gateways=0`, nodes reach no registry except ECR. The device plugin's image is on nvcr.io, and the
  autoscaler's on registry.k8s.io. So `cdk synth` rejects it (GPU076, GPU455). Write your own app that names mirrors:
  [isolated networks](../how-to/isolated.md).
* The two default zones are the first two of the region. GPU types are sold in few zones. List your zones with
  `aws ec2 describe-instance-type-offerings --location-type availability-zone`.
* EKS puts no control plane into the zones with the ids use1-az3, usw1-az2 and cac1-az3
  ([network requirements](https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html)). Only your account knows
  the names of these zones. So in us-east-1, us-west-1 and ca-central-1, the control plane gets two separate subnets
  in other zones. The stack must know its region: `app.py` uses the CDK's. In your own app, pass
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
    rows = [[f"`{each.name}`", *_described(meant[each.name], each), f"`{example(each.name)}`"] for each in fields(kind)]
    head = [["key", "meaning", "default", "example"], ["---"] * 4]
    return [f"| {' | '.join(_cell(each) for each in row)} |" for row in [*head, *rows]]


def meanings(kind: type[Any]) -> Iterator[tuple[str, str]]:
    """Return the text of each attribute in the docstring of a kind."""
    attributes = (inspect.getdoc(kind) or "").partition("\nAttributes:\n")[2].partition("\nRaises:")[0]
    for name, text in re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", attributes, re.MULTILINE):
        yield name, " ".join(text.split()).replace("``", "`")


def _described(meaning: str, option: Field[Any]) -> tuple[str, str]:
    """Return the meaning of an option and its default, which is a value or a text of the docstring."""
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

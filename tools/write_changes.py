"""Write docs/reference/changes.md from the tested table of changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "changes.md"
CHANGES = ROOT / "tests" / "second_deployments" / "changes.yaml"
# ruff: noqa: E501 - rows of a table are one line each
HEAD = """# What happens when you change an option

The effect of a second deployment in which only one option of a public class changes. A test makes each change in templates
and compares them with CloudFormation's schemas and the immutable fields of Kubernetes. No row was tried in an AWS account
([evidence](../explanation/evidence.md)). `gpu-constructs review OLD NEW` reports the same for your own change.

![How many options have which class](../pictures/changes.svg)

| class | meaning |
|---|---|
| in place | resources and objects are updated, added or removed; nodes keep running, and so do pods, except the pods of a chart whose values change their template |
| pods restart | the pod template of a Deployment, DaemonSet, StatefulSet or LeaderWorkerSet changes, so its pods are replaced by its update strategy |
| nodes replaced | the group or NodePool stays, and its nodes are drained and replaced. A managed group replaces one after the other, or as many as its `NodeUpdate` sets. Karpenter and Auto Mode follow the disruption budgets |
| replaced | a new resource or object is created, and the old one is deleted after everything else has succeeded |
| fails | AWS or Kubernetes rejects the update, and the deployment is rolled back |
| destructive | data or a run that has not ended is lost |
| left behind | something stays in no stack: delete it yourself |
| rejected | `cdk synth` rejects the change |
| none | the template stays the same |

The class is the first of these that one change in the deployment has: destructive, fails, left behind, replaced, nodes
replaced, pods restart, in place. A value object such as `NodeShape` or `GpuPod` was tried in a managed node group, a
`KarpenterNodePool` or a `GpuDeployment`; elsewhere, for example in a self-managed group, it may only reach new nodes.

A row describes one option alone. `review` also finds effects of several options together: changes of a managed node group that
CloudFormation rejects in one update ([one kind of change a deployment](../how-to/upgrades.md#one-kind-of-change-a-deployment)),
subnets whose blocks overlap old subnets, and constructs that move between two stacks of an app.

With another `cluster`, everything is created in the new cluster and deleted from the old one. `make changes` writes this
page.
"""
PLACES = """## Ids, places and several options

| change | effect |
|---|---|
| version, image or launch template of a managed group together with sizes, labels, taints or tags | CloudFormation rejects it: [one kind of change a deployment](../how-to/upgrades.md#one-kind-of-change-a-deployment) |
| instance types or taints of a pool with workloads | their pods change too: a `GpuDeployment` rolls, and a `GpuJob` starts again from the beginning |
| `min_nodes` above, or `max_nodes` below, the current number of nodes | nodes start, or the surplus is drained |
| id or place of a node group's construct, `name` of `add_pool` | a new group starts with `min_nodes` nodes, and the old one is drained. Pods are Pending until the autoscaler adds nodes. Use [two pools](../how-to/upgrades.md#two-pools-blue-and-green) |
| id or place of a construct that applies objects or a chart | none, except for `LustreFileSystem`, where the deployment [fails](../how-to/storage.md#fsx-for-lustre) |
| id or place of a `GpuCluster`, `gpu_vpc` or `PrivateEndpoints` | the deployment fails. For another cluster, add a second `GpuCluster` with its own id and `cluster_name` |
| `replicas=` removed because a `GpuHorizontalAutoscaler` is new | [one pod](https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/#migrating-deployments-and-statefulsets-to-horizontal-autoscaling) until the autoscaler adds more |

## Identity of applied objects

The logical id of an applied object depends only on cluster, API group, kind, namespace and name. For a chart it depends
on cluster, namespace and release, for an access entry on cluster and principal.

* An existing object is adopted. If that deployment fails, the object is deleted.
* **Between stacks, deploy twice.** If you move a construct to another stack, the new stack adopts the object and then
  the old stack deletes it. Deploy the old stack without the construct first. `review` reports such moves.
* **Cross-stack exports.** CloudFormation doesn't delete an export in use. Deploy the importing stack first: `cdk deploy
  Second --exclusively`, then `cdk deploy --all`. With `"@aws-cdk/core:defaultCrossStackReferences": "weak"` in
  `cdk.json`, which `cdk init` writes since CDK 2.254, there are no exports.
* If the name of an imported cluster is a token, keep using the same parameter or export.
"""


@dataclass(frozen=True)
class Row:
    """Options of a class whose change is of one class.

    Attributes:
        options: Their names.
        change: The class of the change.
        of: Kinds of the resources and objects with that change; empty if obvious.
        how: Advice about the change.
    """

    options: tuple[str, ...]
    change: str
    of: tuple[str, ...] = ()
    how: str = ""


def rows() -> dict[str, list[Row]]:
    """Return the rows of each class."""
    read = yaml.safe_load(CHANGES.read_text())
    return {
        name: [
            Row(tuple(each["options"]), each["change"], tuple(each.get("of", ())), each.get("how", ""))
            for each in found
        ]
        for name, found in read.items()
    }


def document() -> str:
    """Return the page."""
    parts = [f"## {name}\n\n" + "\n".join(_table(found)) + "\n" for name, found in sorted(rows().items(), key=_name)]
    return "\n".join([HEAD, PLACES, *parts])


def _name(entry: tuple[str, list[Row]]) -> str:
    return entry[0].lower()


def _table(found: Iterable[Row]) -> list[str]:
    lines = ["| options | class | note |", "|---|---|---|"]
    for each in found:
        options = ", ".join(f"`{option}`" for option in each.options)
        what = ". ".join(part for part in (", ".join(each.of), each.how) if part)
        lines.append(f"| {options} | {each.change} | {what} |")
    return lines


if __name__ == "__main__":
    DOCUMENT.write_text(document())

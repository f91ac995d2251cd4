"""NodePools of Karpenter."""

from __future__ import annotations

from typing import Any

from tests.mutations.operator import MEASURED, operator
from tests.mutations.written import Written, drop, look, put

DOCS = "https://karpenter.sh/docs/concepts/nodepools/"
TEMPLATE = ("spec", "template", "spec")


def pools(given: Written) -> list[Any]:
    """The NodePools."""
    return given.objects("NodePool")


def require(pool: Any, key: str, *values: str, operator: str = "In") -> bool:
    """Set a requirement, in place of one of its key."""
    old = look(pool, *TEMPLATE, "requirements") or []
    new = [each for each in old if each.get("key") != key] + [
        {"key": key, "operator": operator, "values": list(values)}
    ]
    return put(pool, *TEMPLATE, "requirements", to=new)


@operator("https://github.com/awslabs/cdk-eks-blueprints/issues/1148")
def consolidation_policy_of_v1beta1(given: Written) -> bool:
    """The consolidation policy is WhenUnderutilized, from v1beta1."""
    return any(put(each, "spec", "disruption", "consolidationPolicy", to="WhenUnderutilized") for each in pools(given))


@operator(MEASURED + "a reference to a class without its group, as in v1beta1")
def class_without_group(given: Written) -> bool:
    """The reference to the node class has no group."""
    return any(drop(each, *TEMPLATE, "nodeClassRef", "group") for each in pools(given))


@operator(MEASURED + "a reference to a class by version, as in v1beta1")
def class_by_version(given: Written) -> bool:
    """The reference to the node class has an apiVersion instead of a group."""
    reference = {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "gpu"}
    return any(put(each, *TEMPLATE, "nodeClassRef", to=reference) for each in pools(given))


@operator(MEASURED + "expireAfter where v1beta1 had it")
def expiry_under_disruption(given: Written) -> bool:
    """The expiry is under disruption, where v1beta1 had it."""
    return any(put(each, "spec", "disruption", "expireAfter", to="720h") for each in pools(given))


@operator(MEASURED + "a label of a domain that Karpenter keeps to itself")
def restricted_label(given: Written) -> bool:
    """The template has a label of Karpenter's own domain."""
    labels = {"karpenter.sh/team": "vision"}
    return any(put(each, "spec", "template", "metadata", to={"labels": labels}) for each in pools(given))


@operator(MEASURED + "an expiry that is no duration")
def expiry_in_days(given: Written) -> bool:
    """The expiry is written in days."""
    return any(put(each, *TEMPLATE, "expireAfter", to="30d") for each in pools(given))


@operator(MEASURED + "a weight out of its range")
def weight_of_1000(given: Written) -> bool:
    """The weight is 1000, of 100 at most."""
    return any(put(each, "spec", "weight", to=1000) for each in pools(given))


@operator(MEASURED + 'the capacity type "ondemand"')
def capacity_type_ondemand(given: Written) -> bool:
    """The capacity type lacks its hyphen."""
    return any(require(each, "karpenter.sh/capacity-type", "ondemand") for each in pools(given))


@operator(MEASURED + "a Provisioner beside Karpenter 1")
def provisioner(given: Written) -> bool:
    """The pool is a Provisioner of v1alpha5."""
    return any(
        put(each, "apiVersion", to="karpenter.sh/v1alpha5") and put(each, "kind", to="Provisioner")
        for each in pools(given)
    )


@operator("https://github.com/awslabs/cdk-eks-blueprints/issues/1148")
def pool_of_v1beta1(given: Written) -> bool:
    """The pool is of v1beta1, which Karpenter serves no more."""
    return any(put(each, "apiVersion", to="karpenter.sh/v1beta1") for each in pools(given))


@operator(MEASURED + "a startup taint that no component removes")
def startup_taint_that_stays(given: Written) -> bool:
    """A startup taint is there that nothing removes."""
    taint = {"key": "example.com/starting", "effect": "NoSchedule"}
    return any(put(each, *TEMPLATE, "startupTaints", to=[taint]) for each in pools(given))


@operator(MEASURED + "GPU pods that do not tolerate the taint of the pool")
def taint_that_pods_do_not_tolerate(given: Written) -> bool:
    """The pool has a second taint, which no pod tolerates."""
    taint = {"key": "team", "value": "vision", "effect": "NoSchedule"}
    return any(
        put(each, *TEMPLATE, "taints", to=[*(look(each, *TEMPLATE, "taints") or []), taint]) for each in pools(given)
    )


@operator(DOCS)
def size_that_the_family_does_not_have(given: Written) -> bool:
    """The size is one that the family does not come in."""
    return any(require(each, "karpenter.k8s.aws/instance-size", "3xlarge") for each in pools(given))


@operator(MEASURED + "an instance type that does not exist")
def misspelt_type(given: Written) -> bool:
    """The instance type lacks a letter."""
    return any(require(each, "node.kubernetes.io/instance-type", "g6.2xlage") for each in pools(given))


@operator("https://github.com/kubernetes-sigs/karpenter/issues/701")
def consolidation_ends_jobs(given: Written) -> bool:
    """Nodes that are underused are emptied, at once."""
    disruption = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    done = any(put(each, "spec", "disruption", to=disruption) for each in pools(given))
    return done and any([drop(each, "spec", "template", "metadata", "annotations") for each in given.objects("Job")])


@operator(DOCS)
def limit_below_one_node(given: Written) -> bool:
    """The limit of CPU is in thousandths."""
    return any(put(each, "spec", "limits", to={"cpu": "100m", "nvidia.com/gpu": 8}) for each in pools(given))


@operator(DOCS)
def limit_of_gpus_misspelt(given: Written) -> bool:
    """The limit of GPUs is spelt in the plural, so that there is none."""
    return any(put(each, "spec", "limits", to={"nvidia.com/gpus": 8}) for each in pools(given))


@operator(DOCS)
def zone_without_subnet(given: Written) -> bool:
    """The pool asks for a zone in which no subnet is."""
    found = [each for each in pools(given) if given.resources("AWS::EC2::Subnet")]
    return any(require(each, "topology.kubernetes.io/zone", "us-west-2d") for each in found)


@operator(DOCS)
def budget_of_more_than_all(given: Written) -> bool:
    """A budget lets 200 % of the nodes go."""
    return any(put(each, "spec", "disruption", "budgets", to=[{"nodes": "200%"}]) for each in pools(given))


@operator(DOCS)
def taints_outside_of_the_template(given: Written) -> bool:
    """The taints are next to the template instead of in it."""
    return any(
        put(each, "spec", "taints", to=look(each, *TEMPLATE, "taints")) and drop(each, *TEMPLATE, "taints")
        for each in pools(given)
        if look(each, *TEMPLATE, "taints")
    )

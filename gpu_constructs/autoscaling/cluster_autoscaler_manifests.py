"""The Kubernetes objects of cluster autoscaler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpu_constructs.facts.labels import POOL

if TYPE_CHECKING:
    import cdk8s
    from cdk8s_plus_28 import k8s

NAME = "cluster-autoscaler"
NAMESPACE = "kube-system"
PRIORITIES = "cluster-autoscaler-priority-expander"
# Rank of the groups that nobody ranked; ranks are positive.
EVERY_OTHER_GROUP = 1
_PORT = 8085
_LABELS = {"app.kubernetes.io/name": NAME}

Rule = tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]

# API groups, resources, verbs, names. Without a single list or watch of these the process runs, is ready, and
# never finishes its first loop. Source: kubernetes/autoscaler cluster-autoscaler-1.36.1
# cluster-autoscaler/cloudprovider/aws/examples/cluster-autoscaler-autodiscover.yaml
CLUSTER_RULES: tuple[Rule, ...] = (
    ([""], ["events", "endpoints"], ["create", "patch"], []),
    ([""], ["pods/eviction"], ["create"], []),
    ([""], ["pods/status"], ["update"], []),
    ([""], ["endpoints"], ["get", "update"], [NAME]),
    ([""], ["nodes"], ["watch", "list", "get", "update"], []),
    (
        [""],
        [
            "namespaces",
            "pods",
            "services",
            "replicationcontrollers",
            "persistentvolumeclaims",
            "persistentvolumes",
        ],
        ["watch", "list", "get"],
        [],
    ),
    (["policy"], ["poddisruptionbudgets"], ["watch", "list"], []),
    (["apps"], ["statefulsets", "replicasets", "daemonsets"], ["watch", "list", "get"], []),
    (["resource.k8s.io"], ["deviceclasses", "resourceslices", "resourceclaims"], ["watch", "list", "get"], []),
    (
        ["storage.k8s.io"],
        ["storageclasses", "csinodes", "csidrivers", "csistoragecapacities", "volumeattachments"],
        ["watch", "list", "get"],
        [],
    ),
    (["batch"], ["jobs"], ["get", "list", "watch", "patch"], []),
    (["coordination.k8s.io"], ["leases"], ["create"], []),
    (["coordination.k8s.io"], ["leases"], ["get", "update"], [NAME]),
)
NAMESPACE_RULES: tuple[Rule, ...] = (
    ([""], ["configmaps"], ["create", "list", "watch"], []),
    (
        [""],
        ["configmaps"],
        ["delete", "get", "update", "watch"],
        ["cluster-autoscaler-status", PRIORITIES],
    ),
)


def flags(
    cluster_name: str, *, priorities: bool = False, balance_similar: bool = False, claims: bool = False
) -> tuple[str, ...]:
    """Return the command line for a cluster with GPU groups.

    Args:
        cluster_name: Name of the cluster.
        priorities: Whether groups are ranked.
        balance_similar: Whether equal groups are kept equally large.
        claims: Whether pods with ResourceClaims are to be scheduled and the image does not do so anyway.
    """
    return (
        "--cloud-provider=aws",
        f"--namespace={NAMESPACE}",
        # One flag with both tags: with the first alone it takes over other clusters' groups, and repeating the
        # flag finds none.
        "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,"
        f"k8s.io/cluster-autoscaler/{cluster_name}",
        "--expander=priority,least-waste" if priorities else "--expander=least-waste",
        # Otherwise a node with a pod that has an emptyDir, as most GPU pods do for /dev/shm, is never removed.
        "--skip-nodes-with-local-storage=false",
        f"--balance-similar-node-groups={str(balance_similar).lower()}",
        # p5 and p6 need more than the 15 minutes that are the flag's default.
        "--max-node-provision-time=30m",
        "--scale-down-unneeded-time=10m",
        "--scale-down-delay-after-add=10m",
        "--scale-down-gpu-utilization-threshold=0.5",
        *(["--enable-dynamic-resource-allocation=true"] if claims else []),
        "--stderrthreshold=info",
        "--v=4",
    )


def priorities_text(priorities: Mapping[int, Sequence[str]]) -> str:
    """Return what the priority expander reads: patterns of group names by rank, the highest first to be taken.

    A group that no pattern matches would never be taken while another one matches, so the lowest rank takes all.
    Source: kubernetes/autoscaler cluster-autoscaler-1.36.1 cluster-autoscaler/expander/priority/readme.md
    """
    import yaml

    ranked = {rank: list(priorities[rank]) for rank in sorted(priorities, reverse=True)}
    return yaml.safe_dump(ranked | {EVERY_OTHER_GROUP: [".*"]}, sort_keys=False, width=float("inf"))


def cluster_autoscaler_chart(
    *, region: str, image: str, command: Sequence[str], priorities: str | None = None
) -> cdk8s.Chart:
    """Return service account, RBAC, deployment and disruption budget; and the ranks of groups where there are any."""
    import cdk8s
    from cdk8s_plus_28 import k8s

    chart = cdk8s.Chart(cdk8s.App(), NAME)
    here = k8s.ObjectMeta(name=NAME, namespace=NAMESPACE, labels=_LABELS)
    everywhere = k8s.ObjectMeta(name=NAME, labels=_LABELS)
    subject = k8s.Subject(kind="ServiceAccount", name=NAME, namespace=NAMESPACE)
    group = "rbac.authorization.k8s.io"

    k8s.KubeServiceAccount(chart, "ServiceAccount", metadata=here)
    k8s.KubeClusterRole(chart, "ClusterRole", metadata=everywhere, rules=_rules(CLUSTER_RULES))
    k8s.KubeClusterRoleBinding(
        chart,
        "ClusterRoleBinding",
        metadata=everywhere,
        role_ref=k8s.RoleRef(api_group=group, kind="ClusterRole", name=NAME),
        subjects=[subject],
    )
    k8s.KubeRole(chart, "Role", metadata=here, rules=_rules(NAMESPACE_RULES))
    k8s.KubeRoleBinding(
        chart,
        "RoleBinding",
        metadata=here,
        role_ref=k8s.RoleRef(api_group=group, kind="Role", name=NAME),
        subjects=[subject],
    )
    if priorities is not None:
        name = k8s.ObjectMeta(name=PRIORITIES, namespace=NAMESPACE, labels=_LABELS)
        k8s.KubeConfigMap(chart, "Priorities", metadata=name, data={"priorities": priorities})
    k8s.KubeDeployment(
        chart,
        "Deployment",
        metadata=here,
        spec=k8s.DeploymentSpec(
            replicas=1,
            selector=k8s.LabelSelector(match_labels=_LABELS),
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(
                    labels=_LABELS,
                    annotations={
                        # It must not remove the node it runs on.
                        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(_PORT),
                    },
                ),
                spec=_pod(command=command, region=region, image=image),
            ),
        ),
    )
    k8s.KubePodDisruptionBudget(
        chart,
        "PodDisruptionBudget",
        metadata=here,
        spec=k8s.PodDisruptionBudgetSpec(
            max_unavailable=k8s.IntOrString.from_number(1), selector=k8s.LabelSelector(match_labels=_LABELS)
        ),
    )
    return chart


def _rules(rules: Sequence[Rule]) -> list[k8s.PolicyRule]:
    from cdk8s_plus_28 import k8s

    return [
        k8s.PolicyRule(
            api_groups=list(groups), resources=list(resources), verbs=list(verbs), resource_names=list(names) or None
        )
        for groups, resources, verbs, names in rules
    ]


def _pod(*, command: Sequence[str], region: str, image: str) -> k8s.PodSpec:
    from cdk8s_plus_28 import k8s

    memory = k8s.Quantity.from_string("600Mi")
    not_on_gpu_nodes = k8s.NodeSelectorRequirement(key=POOL, operator="DoesNotExist")
    term = k8s.NodeSelectorTerm(match_expressions=[not_on_gpu_nodes])
    return k8s.PodSpec(
        service_account_name=NAME,
        priority_class_name="system-cluster-critical",
        security_context=k8s.PodSecurityContext(
            run_as_non_root=True,
            run_as_user=65534,
            fs_group=65534,
            seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
        ),
        affinity=k8s.Affinity(
            node_affinity=k8s.NodeAffinity(
                required_during_scheduling_ignored_during_execution=k8s.NodeSelector(node_selector_terms=[term])
            )
        ),
        tolerations=[k8s.Toleration(key="CriticalAddonsOnly", operator="Exists")],
        containers=[
            k8s.Container(
                name=NAME,
                image=image,
                command=["./cluster-autoscaler", *command],
                env=[k8s.EnvVar(name="AWS_REGION", value=region)],
                ports=[k8s.ContainerPort(name="metrics", container_port=_PORT)],
                liveness_probe=k8s.Probe(
                    http_get=k8s.HttpGetAction(path="/health-check", port=k8s.IntOrString.from_number(_PORT))
                ),
                resources=k8s.ResourceRequirements(
                    requests={"cpu": k8s.Quantity.from_string("100m"), "memory": memory}, limits={"memory": memory}
                ),
                security_context=k8s.SecurityContext(
                    allow_privilege_escalation=False,
                    read_only_root_filesystem=True,
                    capabilities=k8s.Capabilities(drop=["ALL"]),
                ),
            )
        ],
    )

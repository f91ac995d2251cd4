"""The Kubernetes objects of cluster autoscaler."""

from __future__ import annotations

from collections.abc import Sequence

import cdk8s
from cdk8s_plus_28 import k8s

from gpu_facts.charts import CLUSTER_AUTOSCALER, PRIORITY_EXPANDER
from gpu_facts.kubernetes import CLUSTER_CRITICAL, KUBE_SYSTEM
from gpu_facts.labels import APP_NAME, POOL, SAFE_TO_EVICT

_PORT = 8085
_LABELS = {APP_NAME: CLUSTER_AUTOSCALER}

# An API group, and the resources, verbs and names of objects, each separated by spaces.
Rule = tuple[str, str, str, str]

# If the process may not list or watch one of these, it runs and is ready, but never finishes its first loop.
# Source: kubernetes/autoscaler cluster-autoscaler-1.36.1
# cluster-autoscaler/cloudprovider/aws/examples/cluster-autoscaler-autodiscover.yaml
CLUSTER_RULES: tuple[Rule, ...] = (
    ("", "events endpoints", "create patch", ""),
    ("", "pods/eviction", "create", ""),
    ("", "pods/status", "update", ""),
    ("", "endpoints", "get update", CLUSTER_AUTOSCALER),
    ("", "nodes", "watch list get update", ""),
    (
        "",
        "namespaces pods services replicationcontrollers persistentvolumeclaims persistentvolumes",
        "watch list get",
        "",
    ),
    ("policy", "poddisruptionbudgets", "watch list", ""),
    ("apps", "statefulsets replicasets daemonsets", "watch list get", ""),
    ("resource.k8s.io", "deviceclasses resourceslices resourceclaims", "watch list get", ""),
    (
        "storage.k8s.io",
        "storageclasses csinodes csidrivers csistoragecapacities volumeattachments",
        "watch list get",
        "",
    ),
    ("batch", "jobs", "get list watch patch", ""),
    ("coordination.k8s.io", "leases", "create", ""),
    ("coordination.k8s.io", "leases", "get update", CLUSTER_AUTOSCALER),
)
_NAMESPACE_RULES: tuple[Rule, ...] = (
    ("", "configmaps", "create list watch", ""),
    ("", "configmaps", "delete get update watch", f"cluster-autoscaler-status {PRIORITY_EXPANDER}"),
)


def cluster_autoscaler_chart(
    *, region: str, image: str, command: Sequence[str], priorities: str | None = None
) -> cdk8s.Chart:
    """Return service account, RBAC, Deployment and disruption budget, and the ranks of groups if there are any."""
    chart = cdk8s.Chart(cdk8s.App(), CLUSTER_AUTOSCALER)
    here = k8s.ObjectMeta(name=CLUSTER_AUTOSCALER, namespace=KUBE_SYSTEM, labels=_LABELS)
    everywhere = k8s.ObjectMeta(name=CLUSTER_AUTOSCALER, labels=_LABELS)
    subject = k8s.Subject(kind="ServiceAccount", name=CLUSTER_AUTOSCALER, namespace=KUBE_SYSTEM)
    group = "rbac.authorization.k8s.io"

    k8s.KubeServiceAccount(chart, "ServiceAccount", metadata=here)
    k8s.KubeClusterRole(chart, "ClusterRole", metadata=everywhere, rules=_rules(CLUSTER_RULES))
    k8s.KubeClusterRoleBinding(
        chart,
        "ClusterRoleBinding",
        metadata=everywhere,
        role_ref=k8s.RoleRef(api_group=group, kind="ClusterRole", name=CLUSTER_AUTOSCALER),
        subjects=[subject],
    )
    k8s.KubeRole(chart, "Role", metadata=here, rules=_rules(_NAMESPACE_RULES))
    k8s.KubeRoleBinding(
        chart,
        "RoleBinding",
        metadata=here,
        role_ref=k8s.RoleRef(api_group=group, kind="Role", name=CLUSTER_AUTOSCALER),
        subjects=[subject],
    )
    if priorities is not None:
        name = k8s.ObjectMeta(name=PRIORITY_EXPANDER, namespace=KUBE_SYSTEM, labels=_LABELS)
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
                        # It must not remove its own node.
                        SAFE_TO_EVICT: "false",
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
    return [
        k8s.PolicyRule(
            api_groups=[group], resources=resources.split(), verbs=verbs.split(), resource_names=names.split() or None
        )
        for group, resources, verbs, names in rules
    ]


def _pod(*, command: Sequence[str], region: str, image: str) -> k8s.PodSpec:
    memory = k8s.Quantity.from_string("600Mi")
    not_on_gpu_nodes = k8s.NodeSelectorRequirement(key=POOL, operator="DoesNotExist")
    term = k8s.NodeSelectorTerm(match_expressions=[not_on_gpu_nodes])
    return k8s.PodSpec(
        service_account_name=CLUSTER_AUTOSCALER,
        priority_class_name=CLUSTER_CRITICAL,
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
                name=CLUSTER_AUTOSCALER,
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

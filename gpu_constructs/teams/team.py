"""A namespace for a team: admission policy, network policy, pod security and quota.

The admission policy rejects some objects in a team's namespace, for every client.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ (stable from 1.30 on)

The constructs check only pods that this library writes against the team's Pod Security level.

Preflight checks all pods against all rules of the level.
Source: https://kubernetes.io/docs/concepts/security/pod-security-standards/ (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing import registry
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_before, apply_manifests
from gpu_constructs.installing.registry import Applied, PathOf
from gpu_constructs.queueing.gpu_queues import TeamQueue
from gpu_constructs.teams.access import (
    POLICIES,
    Right,
    access_entry,
    bound_role,
    member_rules,
    refuse_unless_principals,
    warn_of_identity_center,
)
from gpu_constructs.teams.team_quota import QuotaUse, TeamQuota
from gpu_facts.charts import KUBE_PROMETHEUS_STACK, KUBERAY, NAMESPACES, OTHER_NAMESPACES
from gpu_facts.kubernetes import RESTRICTED_DOMAINS, checked_labels, is_under, refuse_unless_object_name
from gpu_facts.labels import ENFORCED_LEVEL, NAMESPACE_NAME, WARNED_LEVEL
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import address_block, refuse_unless_bool, refuse_unless_choice, refuse_unless_instance, words

_GROUP_VERSION = "admissionregistration.k8s.io/v1"
# Kubernetes reserves this prefix for its own priority classes, which are above all others. Pods of such a class evict
# pods of every namespace. Kubernetes allows them in any namespace, unless an admission plugin or policy rejects them.
# Source: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/ (2026-11)
_PRIORITY = (
    "request.resource.resource != 'pods' || !dyn(object).spec.?priorityClassName.orValue('').startsWith('system-')"
)
# A Service takes over the cluster's traffic to its external addresses, even addresses that it doesn't own. A Service
# keeps the addresses that it already has, because updates that remove finalizers must succeed.
# Source: https://nvd.nist.gov/vuln/detail/CVE-2020-8554
_ADDRESSES = (
    "request.resource.resource != 'services' || "
    "dyn(object).spec.?externalIPs.orValue([]).all(each, "
    "oldObject != null && each in dyn(oldObject).spec.?externalIPs.orValue([]))"
)
# Prometheus scrapes pods, and KubeRay's operator reads the jobs of a Ray cluster from its head.
_CONTROLLERS = (NAMESPACES[KUBE_PROMETHEUS_STACK], NAMESPACES[KUBERAY])
Level = Literal["privileged", "baseline", "restricted"]
# Kubernetes creates the first itself. The others belong to components of the cluster.
_TAKEN = ("default", *dict.fromkeys(NAMESPACES.values()), *OTHER_NAMESPACES)


def _admission_policy(namespace: str) -> list[dict[str, Any]]:
    """Return the policy of a team's namespace, and the binding that enforces it."""
    name = {"name": f"team-{namespace}.gpu-constructs.io"}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}},
            "resourceRules": [
                _rule("pods", "CREATE"),
                _rule("services", "CREATE", "UPDATE"),
            ],
        },
        "validations": [
            {
                "expression": _PRIORITY,
                "message": "priorityClassName must not begin with 'system-' in the namespace of a team",
                "reason": "Forbidden",
            },
            {
                "expression": _ADDRESSES,
                "message": "externalIPs must be empty in the namespace of a team; use a Service of type LoadBalancer",
                "reason": "Forbidden",
            },
        ],
    }
    binding = {"policyName": name["name"], "validationActions": ["Deny"]}
    return [
        {
            "apiVersion": _GROUP_VERSION,
            "kind": f"ValidatingAdmissionPolicy{suffix}",
            "metadata": dict(name),
            "spec": spec,
        }
        for suffix, spec in (("", policy), ("Binding", binding))
    ]


def _rule(resource: str, *operations: str) -> dict[str, list[str]]:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": [resource]}


def _refuse_unless_reachable(who: object, given: object, *, isolate: bool) -> tuple[str, ...]:
    """Return the namespaces and address blocks that may connect to a team's pods.

    Raises:
        TypeError: The value isn't a list of strings.
        ValueError: A string is neither a namespace nor an address block, or the team isn't isolated.
    """
    found = words(who, "reachable_from", given)
    for each in found:
        if "/" in each:
            address_block(who, "reachable_from", each, example="10.0.0.0/16")
        else:
            refuse_unless_object_name(who, "reachable_from", each)
    if found and not isolate:
        raise ValueError(f"{who}: reachable_from must be left out without isolate, got {found!r}; set isolate=True")
    return found


def _refuse_unless_enforced(who: PathOf, cluster: ClusterRef) -> None:
    """Reject network policies in a cluster that doesn't enforce them. Warn if the cluster's settings are unknown.

    Raises:
        ValueError: The cluster's add-on doesn't enforce network policies.
    """
    if cluster.holder(registry.NETWORK_POLICIES) is not None:
        return
    if cluster.holder(registry.POD_NETWORK) is not None:
        raise ValueError(
            f"{who}: isolate must have a cluster that enforces network policies, got {cluster.path!r} that doesn't; "
            "set network_policies=True there"
        )
    cdk.Annotations.of(who.construct).add_warning_v2(
        "gpu-constructs:networkPolicyUnknown",
        f"{who}: it is unknown whether cluster {cluster.path} enforces network policies, and without that isolate has "
        f"no effect; set {json.dumps({'enableNetworkPolicy': 'true'})} in its add-on vpc-cni, or in Auto Mode "
        'enable-network-policy-controller: "true" in ConfigMap kube-system/amazon-vpc-cni',
    )


def _warn_of_exposure(who: PathOf, applied: Applied, reachable_from: Sequence[str]) -> None:
    """Warn if an applied object requests a load balancer for pods that no address outside the cluster may reach."""
    exposed = any(each.get("kind") == "Ingress" for each in applied.manifests)
    if exposed and not any("/" in each for each in reachable_from):
        cdk.Annotations.of(applied.construct).add_warning_v2(
            "gpu-constructs:exposedButIsolated",
            f"{applied.construct.node.path}: the load balancer can't connect to the pods of team {who}, which "
            "isolates them; add the address blocks of the load balancer's subnets to reachable_from, e.g. "
            "['10.0.0.0/16']",
        )


def _network_policy(namespace: str, reachable_from: Sequence[str]) -> dict[str, Any]:
    """Return the policy that admits traffic only from the namespace itself, its controllers and `reachable_from`.

    Source: https://kubernetes.io/docs/concepts/services-networking/network-policies/ (2026-11)
    """
    spaces = [*_CONTROLLERS, *(each for each in reachable_from if "/" not in each)]
    peers: list[dict[str, Any]] = [{"podSelector": {}}]
    peers += [{"namespaceSelector": {"matchLabels": {NAMESPACE_NAME: each}}} for each in dict.fromkeys(spaces)]
    peers += [{"ipBlock": {"cidr": each}} for each in reachable_from if "/" in each]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "team", "namespace": namespace},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": peers}]},
    }


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Refused:
    """Part of a pod that a Pod Security level rejects.

    Attributes:
        rule: Requirement of the level.
        got: Value that the pod has.
        fix: Suggested change.
    """

    rule: str
    got: str
    fix: str


_NO_EFA = Refused(rule="no efa, which needs IPC_LOCK", got="efa", fix="give the team pod_security='privileged'")


def _refused(level: Level, manifest: Any) -> Refused | None:
    """Return the part of a manifest that the level rejects, or ``None`` if it rejects nothing."""
    for pod in _pods(manifest):
        if level != "privileged" and any("IPC_LOCK" in _added(each) for each in _containers(pod)):
            return _NO_EFA
        root = [each for each in _containers(pod) if not _is_not_root(pod, each)] if level == "restricted" else []
        if root:
            fix = "set another user there and for its init containers, or give the team pod_security='baseline'"
            got = f"container {root[0].get('name')!r} without"
            return Refused(rule="run_as_user other than root", got=got, fix=fix)
    return None


def _pods(value: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the specs of all pods in a manifest, at any depth."""
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield value
            return
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from _pods(each)


def _containers(pod: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [each for key in ("initContainers", "containers") for each in pod.get(key) or ()]


def _added(container: Mapping[str, Any]) -> list[str]:
    capabilities = (container.get("securityContext") or {}).get("capabilities") or {}
    return list(capabilities.get("add") or ())


def _is_not_root(pod: Mapping[str, Any], container: Mapping[str, Any]) -> bool:
    of_pod = (pod.get("securityContext") or {}).get("runAsNonRoot")
    return bool((container.get("securityContext") or {}).get("runAsNonRoot", of_pod))


@named_arguments
class Team(Construct):
    """A namespace, the people who have access to it, and limits on the size, security and connections of its pods.

    CloudFormation applies objects of this library in the namespace after the team, and deletes them before it, if they
    are in the same stack. If the team leaves the app, or ``namespace`` changes, the old namespace stays with all its
    objects, but without quota, isolation and access of members. A new team with the same ``namespace`` manages it
    again.

    A principal who is in several teams has one access entry with the rights of each. EKS' own policies cover no custom
    resources. So the members with each right also form a group, ``gpu-constructs:<namespace>:<right>``, with a role for
    JobSet, LeaderWorkerSet, Kubeflow jobs, TrainJob, Ray, DynamoGraphDeployment, ScaledObject, VerticalPodAutoscaler
    and DRA claims. For other kinds, write a Role and a RoleBinding to the group ``groups["edit"]``.

    In each namespace of a team, the API server also rejects pods with ``priorityClassName`` ``system-node-critical`` or
    ``system-cluster-critical``, which would evict pods of other teams, Karpenter and CoreDNS, and Services with
    ``externalIPs``, which take traffic of other pods (CVE-2020-8554). Existing Services keep theirs. Members can use
    every other PriorityClass.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html,
    https://github.com/aws/containers-roadmap/issues/2349,
    https://kubernetes.io/docs/concepts/security/pod-security-admission/ (2026-11)

    Args:
        cluster: Cluster of the team; needs a kubectl provider.
        namespace: Name of the namespace, which the construct creates.
        members: Rights of IAM users and roles in the namespace, by literal ARN: ``view``, ``edit``, or ``admin``, which
            may also create roles. All but ``view`` may read its Secrets and run pods as any of its service accounts.
            Default: only administrators have access.
        quota: Max that its pods may request at once. Default: no limit.
        pod_security: Pod Security level that its pods must meet. ``baseline`` accepts what this library writes except
            EFA, which needs ``privileged``. ``restricted`` accepts pods with ``run_as_user``. With ``privileged`` any
            pod can use the host's disk, and so other pods' data: give such a team its own pool.
        isolate: Whether only the namespace itself, Prometheus and KubeRay may connect to its pods. The cluster needs
            ``network_policies``. It filters incoming traffic. Members with ``edit`` may write policies that admit more.
            A new pod accepts all traffic until its node has received the policies. RDMA of EFA bypasses them.
        reachable_from: Other sources that may connect: namespaces, and address blocks such as those that contain load
            balancers.
        labels: Labels of the namespace, e.g. for tools that allocate cost.
        retain: Keep the namespace when the team leaves the app. With ``False`` Kubernetes deletes it with everything in
            it, claims of storage included, after the rest of the update has succeeded.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name or ARN is invalid, the namespace is reserved, or a member administers the cluster. Or the
            cluster doesn't enforce network policies, the level rejects a pod of this library there, or its workloads
            request more than the quota.

    Attributes:
        namespace: Name of the namespace.
        pod_security: Its level.
        groups: Group of its members by right, for your own role bindings.
        resource: The namespace in the cluster.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        namespace: str,
        members: Mapping[str, Right] | None = None,
        quota: TeamQuota | None = None,
        pod_security: Level = "baseline",
        isolate: bool = False,
        reachable_from: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        retain: bool = True,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        _refuse_unless_free(who, namespace)
        people = _members(who, members)
        if quota is not None:
            refuse_unless_instance(who, "quota", quota, TeamQuota, "TeamQuota(...)")
        refuse_unless_choice(who, "pod_security", pod_security, get_args(Level))
        refuse_unless_bool(who, "isolate", isolate)
        refuse_unless_bool(who, "retain", retain)
        reachable = _refuse_unless_reachable(who, reachable_from, isolate=isolate)
        own_labels = _labels(who, labels)
        ref.claim(who, f"team of namespace {namespace}", why="a namespace is one object of the cluster")
        if isolate:
            _refuse_unless_enforced(who, ref)

        self.namespace: str = namespace
        self.pod_security: Level = pod_security
        self._reachable = reachable if isolate else None
        self._quota = QuotaUse(quota) if quota is not None else None
        self.groups: dict[Right, str] = {each: _group(namespace, each) for each in get_args(Right)}
        # Not 'enforce' alone: that rejects pods, and a user who applies a Job would get no message.
        level = {ENFORCED_LEVEL: pod_security, WARNED_LEVEL: pod_security}
        made = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": level | own_labels}}
        # Not RETAIN_ON_UPDATE_OR_DELETE: a namespace that was taken over would be deleted if the deployment fails.
        policy = cdk.RemovalPolicy.RETAIN if retain else cdk.RemovalPolicy.DESTROY
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[made], removal_policy=policy)
        ref.namespace(namespace).serve(self._admit_applied)
        apply_manifests(self, "Admission", cluster=ref, manifests=_admission_policy(namespace))
        if quota is not None:
            limits = list(quota.to_manifests(namespace).values())
            apply_manifests(self, "Quota", cluster=ref, manifests=limits).node.add_dependency(self.resource)
        if isolate:
            apply_manifests(self, "Isolation", cluster=ref, manifests=[_network_policy(namespace, reachable)])
        self._grant_access(ref, people)

    def _grant_access(self, cluster: ClusterRef, people: Mapping[str, Right]) -> None:
        warn_of_identity_center(self, tuple(people))
        for arn, right in people.items():
            entry = access_entry(PathOf(self), "members", cluster, arn)
            entry.add_policy(POLICIES[right], group=self.groups[right], namespace=self.namespace)
        for right in get_args(Right):
            if right in people.values():
                role = bound_role(f"team-{right}", self.groups[right], member_rules(right), namespace=self.namespace)
                apply_manifests(self, f"Role-{right}", cluster=cluster, manifests=role)

    def _admit_applied(self, applied: Applied) -> None:
        """Apply an object in the namespace after the namespace itself, and reject pods that its level never admits."""
        path = applied.construct.node.path.removesuffix("/Resource")
        if f"{path}/".startswith(f"{self.node.path}/"):
            applied.construct.node.add_dependency(self.resource)
            return
        for each in applied.manifests:
            if (found := _refused(self.pod_security, each)) is not None:
                raise ValueError(
                    f"{path}: pod must have {found.rule}, as namespace {self.namespace!r} is of Pod Security level "
                    f"{self.pod_security!r}, got {found.got}; {found.fix} [GPU372]"
                )
            if self._quota is not None and (beyond := self._quota.take(each)) is not None:
                raise ValueError(
                    f"{path}: pods must {beyond}; raise the TeamQuota of namespace {self.namespace!r}, or run fewer "
                    "pods [GPU130]"
                )
        if self._reachable is not None:
            _warn_of_exposure(PathOf(self), applied, self._reachable)
        apply_before(self)(applied.construct)

    @named_call
    def queue(self, *, nodes: Mapping[str, int], weight: int = 1) -> TeamQueue:
        """Return the team's share of the pools, for ``GpuQueues(teams=...)`` or ``KaiQueues(teams=...)``.

        The queue has the name of the namespace.

        Args:
            nodes: Guaranteed number of nodes by pool.
            weight: Share of borrowed nodes relative to other teams. It has an effect only with fair sharing.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: A number is below 0, or ``weight`` below 1.
        """
        return TeamQueue(name=self.namespace, namespace=self.namespace, nodes=nodes, weight=weight)


def _group(namespace: str, right: Right) -> str:
    # EKS rejects groups that begin with 'system:', and a namespace may be called 'system'.
    return f"gpu-constructs:{namespace}:{right}"


def _refuse_unless_free(who: object, namespace: object) -> None:
    refuse_unless_object_name(who, "namespace", namespace)
    if namespace in _TAKEN or str(namespace).startswith("kube-"):
        raise ValueError(
            f"{who}: namespace must not be reserved, got {namespace!r}, which Kubernetes or a chart of this library "
            "uses; choose another name"
        )


def _members(who: object, members: object) -> dict[str, Right]:
    if members is None:
        return {}
    if not isinstance(members, Mapping):
        raise TypeError(
            f"{who}: members must map ARNs to view, edit or admin, got {members!r}; "
            "write {'arn:aws:iam::111122223333:role/Ann': 'edit'}"
        )
    for arn, right in members.items():
        if not isinstance(arn, str):
            raise TypeError(f"{who}: members must have ARNs as keys, got {arn!r}; write them as strings")
        refuse_unless_choice(who, f"members[{arn!r}]", right, get_args(Right))
    refuse_unless_principals(who, "members", tuple(members))
    return dict(members)


def _labels(who: object, labels: object) -> dict[str, str]:
    found = {} if labels is None else checked_labels(who, labels)
    for key in found:
        if is_under(key, RESTRICTED_DOMAINS):
            raise ValueError(
                f"{who}: labels must not be in Kubernetes' own domains, got {key!r}; use a domain of your own"
            )
    return found

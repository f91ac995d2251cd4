"""A namespace for some people, and what they may do, use and reach in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import get_args

import aws_cdk as cdk
from constructs import Construct

from gpu_constructs.installing.claims import PathOf
from gpu_constructs.installing.cluster_ref import AnyCluster, ClusterRef, cluster_ref
from gpu_constructs.installing.delivery import apply_before, apply_manifests
from gpu_constructs.installing.once import Applied
from gpu_constructs.queueing.team_queue import TeamQueue
from gpu_constructs.teams.access_entry import access_entry, refuse_unless_principals, warn_of_identity_center
from gpu_constructs.teams.admission_policy import admission_policy
from gpu_constructs.teams.network_policy import (
    network_policy,
    refuse_unless_enforced,
    refuse_unless_reachable,
    warn_of_exposure,
)
from gpu_constructs.teams.pod_security import Level, refused
from gpu_constructs.teams.quota_use import QuotaUse
from gpu_constructs.teams.rights import POLICIES, Right, bound_role, member_rules
from gpu_constructs.teams.team_quota import TeamQuota
from gpu_facts.charts import NAMESPACES, OTHER_NAMESPACES
from gpu_facts.kubernetes import (
    RESTRICTED_DOMAINS,
    checked_labels,
    is_under,
    refuse_unless_object_name,
)
from gpu_facts.labels import ENFORCED_LEVEL, WARNED_LEVEL
from gpu_facts.named_arguments import named_arguments, named_call
from gpu_facts.refusals import refuse_unless_bool, refuse_unless_instance, refuse_unless_one_of

# The first is there before anybody makes it, the others belong to what runs in the cluster.
_TAKEN = ("default", *dict.fromkeys(NAMESPACES.values()), *OTHER_NAMESPACES)


@named_arguments
class Team(Construct):
    """A namespace, who gets into it, and what its pods may be, use and reach.

    What this library applies to the namespace in the same stack comes after the team and is deleted before it. If the
    team leaves the app, or ``namespace`` changes, the old namespace stays with everything that people created in it,
    but without quota, isolation and rights of members. A team of the same ``namespace`` takes it over again.

    A principal of several teams has one access entry with the rights of each. EKS' own policies cover no custom
    resources, so members of each right are a group, too, ``gpu-constructs:<namespace>:<right>``, with a role for them.

    Sources: https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html,
    https://kubernetes.io/docs/concepts/security/pod-security-admission/ (2026-11)

    Args:
        cluster: Cluster of the team; needs a kubectl provider.
        namespace: Name of the namespace, which is made here.
        members: What users and roles of IAM may do there, by literal ARN: ``view``, ``edit``, or ``admin``, who also
            makes roles. All but ``view`` read its Secrets and run pods as any of its service accounts.
            Default: nobody but administrators.
        quota: Most that its pods may ask for at once. Default: no bound.
        pod_security: Level of Kubernetes' standards that its pods have to meet: ``baseline`` takes what this library
            writes but for EFA, which needs ``privileged``; ``restricted`` takes pods with ``run_as_user``.
        isolate: Whether only the namespace itself, Prometheus and KubeRay reach its pods; for a cluster with
            ``network_policies``. It filters what comes in; members with ``edit`` may write policies that let in more.
        reachable_from: Who else does: namespaces, and address blocks such as those of load balancers.
        labels: Labels of the namespace, e.g. by which programs that divide cost know it.
        retain: Keep the namespace when the team leaves the app. With ``False`` Kubernetes deletes it with everything in
            it, claims of storage included, after the rest of the update has succeeded.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A name or ARN is none, a namespace is somebody else's, a member administers the cluster, the cluster
            does not enforce network policies, or the level refuses a pod of this library there, or the quota has less
            than its workloads ask for.

    Attributes:
        namespace: Name of the namespace.
        pod_security: Its level.
        groups: Group of its members by their right, for bindings of yours.
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
        refuse_unless_one_of(who, "pod_security", pod_security, get_args(Level))
        refuse_unless_bool(who, "isolate", isolate)
        refuse_unless_bool(who, "retain", retain)
        reachable = refuse_unless_reachable(who, reachable_from, isolate=isolate)
        own_labels = _labels(who, labels)
        ref.claim(who, f"team of namespace {namespace}", why="a namespace is one object of the cluster")
        if isolate:
            refuse_unless_enforced(who, ref)

        self.namespace: str = namespace
        self.pod_security: Level = pod_security
        self._reachable = reachable if isolate else None
        self._quota = QuotaUse(quota) if quota is not None else None
        self.groups: dict[Right, str] = {each: _group(namespace, each) for each in get_args(Right)}
        # Not by 'enforce' alone: that refuses pods, and who applies a Job would hear nothing of it.
        level = {ENFORCED_LEVEL: pod_security, WARNED_LEVEL: pod_security}
        made = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": namespace, "labels": level | own_labels},
        }
        # Not RETAIN_ON_UPDATE_OR_DELETE: a namespace that was taken over would be deleted if the deployment fails.
        policy = cdk.RemovalPolicy.RETAIN if retain else cdk.RemovalPolicy.DESTROY
        self.resource = apply_manifests(self, "Resource", cluster=ref, manifests=[made], removal_policy=policy)
        ref.namespace(namespace).serve(self._take_in)
        apply_manifests(self, "Admission", cluster=ref, manifests=admission_policy(namespace))
        if quota is not None:
            limits = list(quota.to_manifests(namespace).values())
            apply_manifests(self, "Quota", cluster=ref, manifests=limits).node.add_dependency(self.resource)
        if isolate:
            apply_manifests(self, "Isolation", cluster=ref, manifests=[network_policy(namespace, reachable)])
        self._let_in(ref, people)

    def _let_in(self, cluster: ClusterRef, people: Mapping[str, Right]) -> None:
        warn_of_identity_center(self, tuple(people))
        for arn, right in people.items():
            entry = access_entry(PathOf(self), "members", cluster, arn)
            entry.let(POLICIES[right], group=self.groups[right], namespace=self.namespace)
        for right in get_args(Right):
            if right in people.values():
                role = bound_role(f"team-{right}", self.groups[right], member_rules(right), namespace=self.namespace)
                apply_manifests(self, f"Role-{right}", cluster=cluster, manifests=role)

    def _take_in(self, applied: Applied) -> None:
        """Put what is applied to the namespace after it, and refuse what its level never lets in."""
        path = applied.construct.node.path.removesuffix("/Resource")
        if f"{path}/".startswith(f"{self.node.path}/"):
            applied.construct.node.add_dependency(self.resource)
            return
        for each in applied.manifests:
            if (found := refused(self.pod_security, each)) is not None:
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
            warn_of_exposure(PathOf(self), applied, self._reachable)
        apply_before(self)(applied.construct)

    @named_call
    def queue(self, *, nodes: Mapping[str, int], weight: int = 1) -> TeamQueue:
        """Return the team's part of the pools, for ``GpuQueues(teams=...)`` or ``KaiQueues(teams=...)``.

        Its queue is called as the namespace is.

        Args:
            nodes: Nodes that are its own, by pool.
            weight: Part in what is borrowed, against that of the others; only with fair sharing.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: A number is below 0, or ``weight`` below 1.
        """
        return TeamQueue(name=self.namespace, namespace=self.namespace, nodes=nodes, weight=weight)


def _group(namespace: str, right: Right) -> str:
    # EKS takes no group that begins with 'system:', which a namespace may be called.
    return f"gpu-constructs:{namespace}:{right}"


def _refuse_unless_free(who: object, namespace: object) -> None:
    refuse_unless_object_name(who, "namespace", namespace)
    if namespace in _TAKEN or str(namespace).startswith("kube-"):
        raise ValueError(
            f"{who}: namespace must be the team's own, got {namespace!r}, which Kubernetes or a chart of ours "
            "has; write another name"
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
            raise TypeError(f"{who}: members must have ARNs as keys, got {arn!r}")
        refuse_unless_one_of(who, f"members[{arn!r}]", right, get_args(Right))
    refuse_unless_principals(who, "members", tuple(members))
    return dict(members)


def _labels(who: object, labels: object) -> dict[str, str]:
    found = {} if labels is None else checked_labels(who, labels)
    for key in found:
        if is_under(key, RESTRICTED_DOMAINS):
            raise ValueError(
                f"{who}: labels must not be of Kubernetes' own domains, got {key!r}; use a domain of your own"
            )
    return found

"""Kueue: lets a job start when its queue has room for all of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from constructs import Construct

from gpu_constructs.facts.versions import KUEUE
from gpu_constructs.installing.cluster_ref import AnyCluster, PathOf, cluster_ref
from gpu_constructs.installing.delivery import install_helm_chart
from gpu_constructs.named_arguments import named_arguments
from gpu_constructs.refusals import refuse_unless_whole_number

NAMESPACE = "kueue-system"
_FRAMEWORKS = (
    "batch/job",
    "jobset.x-k8s.io/jobset",
    "kubeflow.org/mpijob",
    "leaderworkerset.x-k8s.io/leaderworkerset",
    "ray.io/raycluster",
    "ray.io/rayjob",
)


@named_arguments
class Kueue(Construct):
    """Kueue's controller. A job waits, without pods, until its queue has the quota for all of them at once.

    Source: https://kueue.sigs.k8s.io/docs/

    Args:
        cluster: Cluster to install into; needs a kubectl provider.
        ready_minutes: How long an admitted job may take until all its pods run, nodes from zero included; after that it
            goes back into its queue, so that two halves of two jobs never wait for each other.
        fair_sharing: Teams that use less of what they borrow come first.
        values: Values of the chart, laid over ours, e.g. for an image of your own registry.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The cluster has no kubectl provider, or has Kueue from this library.

    Attributes:
        chart: The release; queues depend on it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        cluster: AnyCluster,
        ready_minutes: int = 45,
        fair_sharing: bool = True,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(scope, id)
        who = PathOf(self)
        ref = cluster_ref(who, cluster, kubectl=True)
        refuse_unless_whole_number(who, "ready_minutes", ready_minutes, least=1)
        ref.claim(who, "queueing system", why="both decide when a job may start")
        self.chart = install_helm_chart(
            self,
            "Resource",
            cluster=ref,
            chart=KUEUE,
            namespace=NAMESPACE,
            create_namespace=True,
            values=kueue_values(ready_minutes=ready_minutes, fair_sharing=fair_sharing),
            user_values=values,
        )


def kueue_values(*, ready_minutes: int, fair_sharing: bool) -> Mapping[str, Any]:
    """Return the values of the chart, which takes the controller's configuration as one text.

    Source: kubernetes-sigs/kueue v0.19.2 charts/kueue/values.yaml
    """
    config: dict[str, Any] = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": ":8081"},
        "metrics": {"bindAddress": ":8443"},
        "webhook": {"port": 9443},
        "leaderElection": {"leaderElect": True, "resourceName": "c1f6bfd2.kueue.x-k8s.io"},
        "waitForPodsReady": {"timeout": f"{ready_minutes}m", "blockAdmission": False},
        "integrations": {"frameworks": list(_FRAMEWORKS)},
    }
    if fair_sharing:
        config["fairSharing"] = {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}
    return {"managerConfig": {"controllerManagerConfigYaml": yaml.safe_dump(config, sort_keys=False)}}

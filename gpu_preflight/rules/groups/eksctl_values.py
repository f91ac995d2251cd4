"""Values of a ClusterConfig that eksctl rejects."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_preflight.case import Case
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.reading.eksctl.configs import cluster_of, configs
from gpu_preflight.reading.objects import Object
from gpu_preflight.rules.rule import Problem, Subject, rule
from gpu_preflight.schema.eksctl_rejections import Rejection, rejections


@rule("GPU461", "error", source="eksctl-io/eksctl 99984ad pkg/apis/eksctl.io/v1alpha5/validation.go", presumed=True)
def value_that_eksctl_rejects(case: Case) -> Iterator[Problem]:
    """Value that eksctl rejects.

    eksctl checks the whole config first and creates nothing. It finds a fault in user data only after it created the
    cluster, and then leaves out that group.

    Fix: Correct the value as the message says.
    """
    cluster = case.cluster
    # The input may hold configs of several clusters.
    for config in (each for each in configs(list(cluster.objects)) if each.name == cluster.name):
        for found in rejections(config):
            yield Problem(_subject(found, config, cluster), found.text, unknown=found.unknown)


def _subject(found: Rejection, config: Object, cluster: Cluster) -> Subject:
    key = f"{config.name}/{found.group}"
    pool = next((each for each in cluster.pools if each.resource is not None and each.resource.key == key), None)
    return pool or cluster_of(config, cluster.resources)

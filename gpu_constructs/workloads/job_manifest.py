"""The Job of pods that run to completion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import cdk8s
from cdk8s_plus_28 import k8s
from constructs import Construct

from gpu_constructs.pools.pool import Pool
from gpu_constructs.workloads.gpu_pod import GpuPod
from gpu_constructs.workloads.kai_queue import KaiQueue
from gpu_constructs.workloads.names import unique_name
from gpu_constructs.workloads.pod_spec import DO_NOT_DISRUPT, pod_spec, with_parts
from gpu_constructs.workloads.pool_room import PodClaim
from gpu_facts.labels import APP_NAME, KUEUE_QUEUE

# Fields of a Job that may change while it runs.
# Source: kubernetes/kubernetes v1.36.3 pkg/apis/batch/validation/validation.go ValidateJobSpecUpdate
_CHANGED_IN_PLACE = ("activeDeadlineSeconds", "backoffLimit", "parallelism", "ttlSecondsAfterFinished")


def job_manifest(
    who: object,
    *,
    scope: Construct,
    pool: Pool,
    name: str,
    pod: GpuPod,
    namespace: str,
    queue: str | KaiQueue | None,
    limits: Mapping[str, int | None],
    claim: PodClaim | None,
    gang: bool,
) -> dict[str, Any]:
    """Return the Job without its pod's overlay. Its name contains a hash of its immutable fields."""
    chart = cdk8s.Chart(cdk8s.App(), name)
    named = {APP_NAME: name}
    spec = pod_spec(who, pod, pool, name=name, restart_policy="Never")
    template = k8s.PodTemplateSpec(metadata=k8s.ObjectMeta(labels=named, annotations=DO_NOT_DISRUPT), spec=spec)
    job = k8s.JobSpec(template=template, **limits)  # type: ignore[arg-type]
    queued = {KUEUE_QUEUE: queue} if isinstance(queue, str) else {}
    metadata = k8s.ObjectMeta(name=name, namespace=namespace, labels=named | queued)
    k8s.KubeJob(chart, "Job", metadata=metadata, spec=job)
    made: dict[str, Any]
    [made] = chart.to_json()
    made["spec"]["template"]["spec"] = with_parts(who, made["spec"]["template"]["spec"], pod)
    if claim is not None:
        claim.configure_workload(made)
    if isinstance(queue, KaiQueue):
        queue.put_on(made, made["spec"]["template"])
    if gang:
        made["spec"]["completionMode"] = "Indexed"
    overlay = {"overlay": dict(pod.overlay)} if pod.overlay else {}
    # Kueue doesn't allow a running job to change its queue.
    waits = {"queue": queue} if isinstance(queue, str) else {}
    fixed = {key: each for key, each in made["spec"].items() if key not in _CHANGED_IN_PLACE}
    made["metadata"]["name"] = unique_name(scope, name, fixed | overlay | waits)
    return made

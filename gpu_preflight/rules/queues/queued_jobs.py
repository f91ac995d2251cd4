"""Labels of jobs by which Kueue orders and starts them."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import KUEUE
from gpu_facts.labels import KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.kueue import kueue_objects
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import is_expression, known_text
from gpu_preflight.rules.rule import Problem, rule

_CONCEPTS = "https://kueue.sigs.k8s.io/docs/concepts"
# Source: https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/setup_default_local_queue/ (2026-11)
_DEFAULT_QUEUE = "default"
_PRIORITY = f"{KUEUE_DOMAIN}/priority-class"


@rule("GPU393", "error", source=f"{_CONCEPTS}/workload_priority_class/")
def job_of_a_priority_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Job of a priority that does not exist.

    Kueue makes no workload of the job, which stays suspended.

    Fix: Create the WorkloadPriorityClass, or correct the name.
    """
    cluster = case.cluster
    known = [each.name for each in kueue_objects(cluster, "WorkloadPriorityClass")]
    for job in case.queued_jobs if cluster.whole else ():
        owner = job.parts[0].owner
        name = known_text(owner.labels.get(_PRIORITY))
        if name and not is_expression(name) and name not in known:
            text = f"{job.name}: WorkloadPriorityClass {name} does not exist{did_you_mean(name, known)}"
            yield Problem(owner, text, unknown=not cluster.sees_objects)


@rule("GPU394", "error", source=f"{_CONCEPTS}/workload/")
def suspended_job_whose_queue_stands_on_its_pods(case: Case) -> Iterator[Problem]:
    """Suspended job whose queue stands on its pods.

    Kueue looks at the labels of the job, so that it does not start this one, and nobody else does.

    Fix: Put the label onto the job itself.
    """
    cluster = case.cluster
    for workload in cluster.workloads:
        owner = workload.owner
        misplaced = KUEUE_QUEUE in workload.labels and KUEUE_QUEUE not in owner.labels
        if owner.kind == "Job" and workload.suspended and misplaced and _has_kueue(workload, cluster):
            text = f"is suspended, and {KUEUE_QUEUE} stands on its pods, not on the job"
            yield Problem.of(workload, text, unknown=cluster.chart(KUEUE) is None)


def _has_kueue(workload: Workload, cluster: Cluster) -> bool:
    """Whether Kueue is in the input, or queues of it are; it may put a job without a queue into one called default."""
    queues = cluster.of_kind("LocalQueue")
    given = any((each.namespace, each.name) == (workload.namespace, _DEFAULT_QUEUE) for each in queues)
    return cluster.chart(KUEUE) is not None or (bool(queues) and not given)

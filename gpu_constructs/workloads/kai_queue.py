"""A queue of KAI Scheduler, as a job refers to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_constructs.installing.cluster_ref import ClusterRef
from gpu_constructs.installing.registry import Applied
from gpu_facts.charts import KAI_SCHEDULER
from gpu_facts.kubernetes import refuse_unless_object_name
from gpu_facts.labels import KAI_QUEUE
from gpu_facts.named_arguments import named_arguments


@named_arguments
@dataclass(frozen=True, slots=True)
class KaiQueue:
    """A queue of KAI Scheduler. KAI then schedules the pods instead of the cluster's default scheduler.

    Attributes:
        name: Name of the queue.

    Raises:
        ValueError: ``name`` is invalid.
    """

    name: str

    def __post_init__(self) -> None:
        refuse_unless_object_name("kai queue", "name", self.name)

    @property
    def key(self) -> tuple[str, str]:
        """Key that pairs the jobs of the queue with the queue."""
        return (KAI_SCHEDULER, self.name)

    def put_on(self, workload: dict[str, Any], *templates: dict[str, Any]) -> None:
        """Assign a workload and the pods of its templates to the queue."""
        for each in (workload, *templates):
            each.setdefault("metadata", {}).setdefault("labels", {})[KAI_QUEUE] = self.name
        for each in templates:
            each["spec"]["schedulerName"] = KAI_SCHEDULER


def refuse_unless_queue(who: object, queue: object) -> None:
    """Reject a value that isn't a queue of KAI Scheduler, the name of a Kueue queue, or `None`.

    Raises:
        TypeError: The value has another type.
        ValueError: The string isn't a valid name.
    """
    if queue is not None and not isinstance(queue, KaiQueue):
        refuse_unless_object_name(who, "queue", queue)


def apply_after_queue(applied: Applied, *, cluster: ClusterRef, namespace: str, queue: str | KaiQueue | None) -> None:
    """Apply a workload after its queue and its queueing system, which rejects every job until its webhook answers.

    Raises:
        ValueError: It requests more than its queue can ever have.
    """
    cluster.jobs.ask(applied.construct)
    if isinstance(queue, KaiQueue):
        # A queue that isn't created here also needs the scheduler.
        cluster.queue(queue.key[0]).ask(applied)
        cluster.queue(*queue.key).ask(applied)
    elif queue is not None:
        cluster.queue(namespace, queue).ask(applied)

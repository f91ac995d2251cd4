"""A queue of KAI Scheduler, as a job names it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpu_constructs.facts.charts import KAI_SCHEDULER
from gpu_constructs.facts.kubernetes import refuse_unless_object_name
from gpu_constructs.facts.labels import KAI_QUEUE
from gpu_constructs.named_arguments import named_arguments


@named_arguments
@dataclass(frozen=True, slots=True)
class KaiQueue:
    """A queue of KAI Scheduler, which then places the pods instead of the cluster's own scheduler.

    Attributes:
        name: Name of the queue.

    Raises:
        ValueError: ``name`` is none.
    """

    name: str

    def __post_init__(self) -> None:
        refuse_unless_object_name("kai queue", "name", self.name)

    @property
    def key(self) -> tuple[str, str]:
        """What the jobs of the queue and the queue meet by."""
        return (KAI_SCHEDULER, self.name)

    def put_on(self, job: dict[str, Any]) -> None:
        """Put a Job and its pods into it."""
        template = job["spec"]["template"]
        for each in (job, template):
            each["metadata"]["labels"][KAI_QUEUE] = self.name
        template["spec"]["schedulerName"] = KAI_SCHEDULER

"""Workloads: pods that are alike, and who makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpu_facts.kubernetes import TRAINING_JOBS
from gpu_facts.light import dataclass
from gpu_preflight.model.container import Container
from gpu_preflight.model.pod import Pod
from gpu_preflight.reading.objects import Object, Origin

_OF_KUBERNETES = "batch"
# Kinds whose pods end.
JOBS = ("Job", "CronJob", "ScaledJob")


@dataclass(frozen=True, slots=True)
class Exclusive:
    """Groups that keep apart, each of them whole in one domain.

    Attributes:
        key: Label of the nodes that tells domains apart.
        groups: How many groups there are; ``None`` where it is not known.
        size: Pods of each; ``None`` where it is not known.
        beside: Groups of the same owner's other parts, which want domains too; ``None`` where it is not known.
        shared: Whether pods of another part run in the domain of each group.
        labelled: Whether nodes are labelled for the groups beforehand, by somebody.
    """

    key: Any
    groups: int | None
    size: int | None
    beside: int | None = 0
    shared: bool = False
    labelled: bool = False


@dataclass(frozen=True)
class Workload:
    """Pods that are alike.

    Attributes:
        name: ``Kind namespace/name``, with the name of the part where a kind has several.
        namespace: Its namespace.
        origin: Where it stands.
        pod: Its pod.
        labels: Labels of its pods.
        annotations: Annotations of its pods.
        replicas: How many pods; ``None`` where it is not known.
        together: Whether all must run at once.
        owner: The object that makes them.
        suspended: Whether they wait until somebody releases them.
        overlaps: Whether more come on a schedule while some still wait or run.
        claim_templates: ``spec`` of each claim that is made for each of them.
        priority: Priority of its class, where it is known.
        preempts: Whether it takes the place of pods of lower priority that run.
        placed: How many of them already have a node, in a running cluster.
        unscheduled: What the scheduler of the running cluster reports of one that has none; empty otherwise.
        exclusive: Groups of them that want a domain each; ``None`` where none do.
    """

    name: str
    namespace: str
    origin: Origin
    pod: Pod
    labels: Mapping[str, Any]
    annotations: Mapping[str, Any]
    replicas: int | None
    together: bool
    owner: Object
    suspended: bool = False
    overlaps: bool = False
    claim_templates: tuple[Mapping[str, Any], ...] = ()
    priority: int | None = 0
    preempts: bool = True
    exclusive: Exclusive | None = None
    placed: int = 0
    unscheduled: str = ""

    @property
    def title(self) -> str:
        """Its name as people say it."""
        return self.name

    @property
    def is_placed(self) -> bool:
        """Whether every pod of it already has a node."""
        return self.placed > 0 and self.replicas is not None and self.placed >= self.replicas

    @property
    def is_daemon_set(self) -> bool:
        """Whether it is a DaemonSet, for which nobody makes a node."""
        return self.owner.kind == "DaemonSet"

    @property
    def takes_turns(self) -> bool:
        """Whether pods that find no place run once others are done."""
        return self.owner.kind in JOBS and not self.together

    @property
    def may_take_turns(self) -> bool:
        """Whether only the pods know that they need one another: those of an indexed job with names that find them do.

        Source: https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode (2026-11)
        """
        indexed = self.owner.kind in JOBS and self.together and self.owner.group == _OF_KUBERNETES
        return indexed and self.pod.written.get("subdomain") is None

    @property
    def ends(self) -> bool:
        """Whether its pods end by themselves and leave their place to others."""
        if self.owner.kind == "Pod":
            return self.pod.restart_policy in ("Never", "OnFailure")
        return self.owner.kind in (*JOBS, *TRAINING_JOBS, "JobSet", "RayJob")

    @property
    def containers(self) -> tuple[Container, ...]:
        """Init containers and containers."""
        return self.pod.every_container

    @property
    def asks_for_gpu(self) -> bool:
        """Whether its pods ask for a GPU, a share or a slice of one, or a claimed device."""
        return self.pod.asks_for_gpu

"""ConfigMaps and Secrets of pods: what is not there, and what stands where everybody reads it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpu_facts.access_tokens import token_in
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects.named_data import NamedData, keys_by_name, named_data
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import Container
from gpu_preflight.model.workload import Workload
from gpu_preflight.reading.unknown import Unknown, known_text
from gpu_preflight.rules.rule import Problem, of_each_pod, rule
from gpu_preflight.schema.fault import is_slip_for_one


@rule("GPU410", "error", source="https://kubernetes.io/docs/concepts/configuration/configmap/")
def config_map_or_secret_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """ConfigMap or Secret that does not exist.

    The pod gets a node and stays in CreateContainerConfigError or ContainerCreating there, with its GPUs.

    Fix: Create it in the pod's namespace, correct the name or the key, or mark it optional.
    """

    def missing_data(workload: Workload) -> Iterator[Problem]:
        for wanted in dict.fromkeys(named_data(workload.pod)):
            yield from _missing(workload, wanted, case.cluster)

    yield from of_each_pod(case.gpu_workloads, missing_data)


def _missing(workload: Workload, wanted: NamedData, cluster: Cluster) -> Iterator[Problem]:
    there = keys_by_name(wanted.kind, workload.namespace, cluster)
    title = f"{wanted.kind} {workload.namespace}/{wanted.name}"
    if wanted.name not in there:
        if _should_be_there(wanted, there, workload, cluster):
            text = f"{title} does not exist{did_you_mean(wanted.name, there)}"
            yield Problem.of(workload, text, unknown=True)
        return
    keys = there[wanted.name]
    for key in dict.fromkeys(wanted.keys):
        if keys is not None and key not in keys:
            yield Problem.of(workload, f"{title} has no key {key}{did_you_mean(key, keys)}")


def _should_be_there(wanted: NamedData, there: Collection[str], workload: Workload, cluster: Cluster) -> bool:
    """Whether the input would have it: people keep Secrets elsewhere, and charts bring some of their own."""
    if is_slip_for_one(wanted.name, there):
        return True
    charts = any(each.namespace == workload.namespace for each in cluster.charts)
    return wanted.kind == "ConfigMap" and bool(there) and cluster.sees_objects and not charts


@rule("GPU413", "warning", source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/")
def access_token_in_a_manifest(case: Case) -> Iterator[Problem]:
    """Access token in a manifest.

    Everybody who may read the file, the template or the pod has it, and so has their history.

    Fix: Revoke it, put a new one into a Secret, and name that by secretKeyRef.
    """
    for workload in case.cluster.workloads:
        for container in workload.containers:
            for place, kind in dict.fromkeys(_tokens(container)):
                yield Problem.of(workload, f"container {container.name} has {kind} in {place}")


def _tokens(container: Container) -> Iterator[tuple[str, str]]:
    said = [(f"variable {name}", name, value) for name, value in container.env.items()]
    said += [("its command", "", each) for each in container.words]
    for place, variable, value in said:
        # References that CloudFormation fills in are not known, and stand in the template as they are.
        text = value.expression if isinstance(value, Unknown) else known_text(value)
        kind = token_in(text, variable=variable) if text is not None else None
        if kind is not None:
            yield place, kind

"""DaemonSets for GPUs on nodes where they fail, or where another holds what they need."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.charts import DCGM_SERVER
from gpu_facts.hardware.type_names import may_be_newer
from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Pool
from gpu_preflight.model.software import DaemonSet
from gpu_preflight.reading.unknown import known_number
from gpu_preflight.rules.rule import Problem, rule

# Whether the plugin waits where it finds no GPU; its own default is to fail.
# Source: NVIDIA/k8s-device-plugin v0.20.0 cmd/nvidia-device-plugin/main.go
_FAIL = ("FAIL_ON_INIT_ERROR", "--fail-on-init-error")
# Source: aws/eks-node-monitoring-agent v1.7.0 charts/eks-node-monitoring-agent/templates/dcgm-daemonset.yaml
_ENGINE, _ENGINE_PORT = "nv-hostengine", 5555
_OF_OPERATOR = "nvidia-dcgm"


@rule("GPU364", "warning", source="https://github.com/eksctl-io/eksctl/pull/8859")
def device_plugin_on_nodes_without_gpus(case: Case) -> Iterator[Problem]:
    """Device plugin on nodes without GPUs.

    It finds no driver there and crash-loops; its logs and restarts may fill the disk of the node.

    Fix: Select the GPU nodes by a label of theirs, or set FAIL_ON_INIT_ERROR to false.
    """
    gpu_pools = {id(each) for each in case.gpu_pools}
    others = [each for each in case.cluster.pools if id(each) not in gpu_pools and each.kind != "fargate"]
    written = {each.origin for each in case.cluster.of_kind("DaemonSet")}
    for daemon in case.cluster.daemon_sets:
        if GPU not in daemon.advertises or daemon.origin not in written or _waits(daemon):
            continue
        reached = [each for each in others if case.reaches(daemon, each) is Answer.YES] if case.gpu_pools else []
        open_ones = [each.name for each in reached if _may_have_gpus(each)]
        names = [each.name for each in reached if not _may_have_gpus(each)]
        if names:
            yield Problem(daemon, f"{daemon.name} runs on {', '.join(names)} too, which has no GPUs")
        if open_ones:
            text = f"{daemon.name} runs on {', '.join(open_ones)} too, whose types are not known"
            yield Problem(daemon, text, unknown=True)


def _may_have_gpus(pool: Pool) -> bool:
    """Whether a pool of no known GPU may launch a type of which nothing is known."""
    untold = pool.is_group and not pool.instance_types
    return untold or any(map(may_be_newer, pool.instance_types))


def _waits(daemon: DaemonSet) -> bool:
    """Whether a plugin is told, or may be, to wait where there is no GPU."""
    told = [str(each.env.get(_FAIL[0], "")).lower() for each in daemon.pod.containers or ()]
    words = [str(word).lower() for each in daemon.pod.containers or () for word in each.words]
    return any(each not in ("", "true") for each in told) or any(each.startswith(f"{_FAIL[1]}=false") for each in words)


@rule("GPU365", "warning", source="aws/eks-node-monitoring-agent v1.7.0 charts/eks-node-monitoring-agent/values.yaml")
def two_host_engines_of_dcgm_on_one_node(case: Case) -> Iterator[Problem]:
    """Two host engines of DCGM on one node.

    The one of the node monitoring agent has port 5555 of the node; a second one does not start there, or takes its
    profiling counters away.

    Fix: Leave dcgm.enabled of the GPU Operator false, or keep the other engine off these nodes.
    """
    agents = [each for each in case.cluster.daemon_sets if each.name == DCGM_SERVER]
    engines = [each for each in case.cluster.daemon_sets if each not in agents and _is_engine(each)]
    for pool in case.gpu_pools:
        here = [each for each in engines if case.reaches(each, pool) is not Answer.NO]
        for agent in agents:
            if here and case.reaches(agent, pool) is not Answer.NO:
                names = " and ".join([agent.name, *(each.name for each in here)])
                yield Problem.of(pool, f"{names} each run a host engine of DCGM on its nodes")


def _is_engine(daemon: DaemonSet) -> bool:
    """Whether a DaemonSet runs a host engine on the port of its node; that inside an exporter binds none."""
    containers = daemon.pod.containers or ()
    ports = [known_number(port.host) for each in containers for port in each.ports]
    started = any(_ENGINE in str(word) for each in containers for word in each.words)
    return daemon.name == _OF_OPERATOR or _ENGINE_PORT in ports or (started and daemon.pod.host_network)

"""Configurations that NVIDIA's device plugin refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpu_facts.resources import GPU
from gpu_preflight.case import Case
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.software import MissingConfig
from gpu_preflight.reading.unknown import Unknown, dig, is_expression, known_number, mapping, mappings
from gpu_preflight.rules.rule import Problem, rule

_STRATEGIES = ("none", "single", "mixed")
_LEAST_REPLICAS = 2


@rule("GPU395", "error", source="NVIDIA/k8s-device-plugin v0.20.0 api/config/v1/replicas.go")
def configuration_that_the_device_plugin_refuses(case: Case) -> Iterator[Problem]:
    """Configuration that the device plugin refuses.

    It exits at start, and the nodes advertise no GPU.

    Fix: Correct the configuration as the message says, or the label nvidia.com/device-plugin.config of the nodes.
    """
    for daemon in case.cluster.daemon_sets:
        if GPU not in daemon.advertises:
            continue
        configs = [daemon.config]
        for pool, answer in [(pool, case.reaches(daemon, pool)) for pool in case.gpu_pools]:
            config = daemon.config_on(pool.labels)
            if answer is not Answer.NO and isinstance(config, MissingConfig):
                message = f"{daemon.name} has no configuration {config.name!r}, which its nodes select"
                yield Problem.of(pool, message, unknown=answer is not Answer.YES)
            configs += [config] if answer is not Answer.NO else []
        texts = [text for config in configs if isinstance(config, dict) for text in _wrong(config)]
        for text in dict.fromkeys(texts):
            yield Problem(daemon, f"{daemon.name}: {text}")


def _wrong(config: Mapping[str, Any]) -> Iterator[str]:
    strategy = dig(dict(config), "flags", "migStrategy")
    if isinstance(strategy, str) and strategy not in _STRATEGIES and not is_expression(strategy):
        yield f"migStrategy must be of {', '.join(_STRATEGIES)}, got {strategy!r}"
    ways = [way for way in ("timeSlicing", "mps") if mapping(dig(dict(config), "sharing", way)).get("resources")]
    if len(ways) > 1:
        yield "sharing has timeSlicing and mps, of which one can be"
    for way in ways:
        for each in mappings(dig(dict(config), "sharing", way, "resources")):
            written = each.get("replicas")
            number = known_number(written)
            known = not isinstance(written, Unknown) and not is_expression(str(written))
            if known and (number is None or number < _LEAST_REPLICAS):
                yield f"sharing.{way}: replicas of {each.get('name')} must be at least {_LEAST_REPLICAS}, got {written}"

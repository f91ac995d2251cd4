"""The DaemonSets of a chart or add-on, for its version and values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from gpu_facts import charts
from gpu_facts.light import dataclass, regex
from gpu_facts.quantities import quantity, total
from gpu_facts.resources import DISK
from gpu_facts.software import aws, monitoring, nvidia
from gpu_facts.software.model import (
    Container,
    DaemonSetSpec,
    KnownDaemonSet,
    KnownSoftware,
    Nodes,
    NodeSelectorTerm,
    Switch,
    Toleration,
    Tolerations,
    ValuePath,
)

T = TypeVar("T")
_ABSENT, _MISREAD = object(), object()
_REQUESTS = ("cpu", "memory", DISK)
_TOLERATION_KEYS = {"key", "operator", "value", "effect", "tolerationSeconds"}
# Values that Helm's `default` treats as empty.
_EMPTY: tuple[object, ...] = ({}, [], (), "", None, False)
_TO_TERMS = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_NUMBER = regex(r"\d{1,9}")
_CERT_MANAGER, _EXTERNAL_DNS = "cert-manager", "external-dns"
# Charts without a DaemonSet, listed so that they count as known. Their templates contain only Deployments, in every
# version that was read.
_WITHOUT_DAEMON_SETS = {
    charts.LOAD_BALANCER_CONTROLLER: ("https://github.com/aws/eks-charts/tree/master/stable", "2026-08-03"),
    _CERT_MANAGER: ("https://github.com/cert-manager/cert-manager/tree/master/deploy/charts", "2026-11-21"),
    charts.CLUSTER_AUTOSCALER: ("https://github.com/kubernetes/autoscaler/tree/master/charts", "2026-08-22"),
    _EXTERNAL_DNS: ("https://github.com/kubernetes-sigs/external-dns/tree/master/charts", "2026-11-21"),
    charts.JOBSET: ("https://github.com/kubernetes-sigs/jobset/tree/v0.12.0/charts/jobset", "2026-08-20"),
    charts.KARPENTER: ("https://github.com/aws/karpenter-provider-aws/tree/v1.14.1/charts/karpenter", "2026-08-20"),
    charts.KARPENTER_CRDS: (
        "https://github.com/aws/karpenter-provider-aws/tree/v1.14.1/charts/karpenter-crd",
        "2026-08-20",
    ),
    charts.KEDA: ("https://github.com/kedacore/charts/tree/main/keda", "2026-07-31"),
    charts.KUBE_STATE_METRICS: ("https://github.com/prometheus-community/helm-charts", "2026-08-22"),
    charts.KUBERAY: ("https://github.com/ray-project/kuberay/tree/v1.7.0/helm-chart", "2026-08-20"),
    charts.KUEUE: ("https://github.com/kubernetes-sigs/kueue/tree/v0.19.2/charts/kueue", "2026-08-20"),
    charts.LEADER_WORKER_SET: ("https://github.com/kubernetes-sigs/lws/tree/v0.10.0/charts/lws", "2026-08-20"),
    charts.METRICS_SERVER: ("https://github.com/kubernetes-sigs/metrics-server/tree/master/charts", "2026-11-21"),
    charts.PROMETHEUS_ADAPTER: ("https://github.com/prometheus-community/helm-charts", "2026-08-22"),
    charts.VERTICAL_POD_AUTOSCALER: (
        "https://github.com/kubernetes/autoscaler/tree/master/vertical-pod-autoscaler/charts",
        "2026-07-25",
    ),
}
# Built from the projects with the same names.
_OF_COMMUNITY = (_CERT_MANAGER, _EXTERNAL_DNS, charts.KUBE_STATE_METRICS, charts.METRICS_SERVER)
# Source of their components: the user guide.
_USER_GUIDE = "https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html"
_USER_GUIDE_AS_OF = "2024-12-18"


def _none(name: str, source: str, as_of: str) -> KnownSoftware:
    return KnownSoftware(name=name, source=source, as_of=as_of)


CHARTS = (
    *nvidia.CHARTS,
    *aws.CHARTS,
    *monitoring.CHARTS,
    *(_none(name, *read) for name, read in _WITHOUT_DAEMON_SETS.items()),
)
ADDONS = (
    *aws.ADDONS,
    *monitoring.ADDONS,
    *(_none(name, *_WITHOUT_DAEMON_SETS[name]) for name in _OF_COMMUNITY),
    *(_none(name, _USER_GUIDE, _USER_GUIDE_AS_OF) for name in (charts.COREDNS, "snapshot-controller")),
    # Its configuration can add collectors as DaemonSets. Their settings were not read.
    KnownSoftware(name="adot", opaque_paths=("collector",), source=_USER_GUIDE, as_of=_USER_GUIDE_AS_OF),
)


@dataclass(frozen=True, slots=True)
class _Read(Generic[T]):
    """A result, and whether every value that affects it was understood."""

    value: T
    exact: bool = True


def _resolve(software: KnownSoftware, values: object, *, version_was_read: bool) -> tuple[DaemonSetSpec, ...] | None:
    """Return the DaemonSets of software with some values, or ``None`` if a value installs unknown objects.

    If a value has the wrong type, the default applies, and the affected result isn't exact.
    """
    if any(_is_set(values, path) for path in software.opaque_paths):
        return None
    exact = version_was_read and isinstance(values, Mapping)
    found = (_spec(each, values, exact=exact) for each in software.daemon_sets)
    return tuple(each for each in found if each is not None)


def _spec(known: KnownDaemonSet, values: object, *, exact: bool) -> DaemonSetSpec | None:
    switches, containers = (
        _are_enabled(known.switches, values),
        [each for each in known.containers if _runs(each, values)],
    )
    if not switches.value or (known.containers and not containers):
        return None
    tolerations, selector = _tolerations(known.tolerations, values), _selector(known.nodes, values)
    affinity, requests = _affinity(known.nodes, values), [_requests(each, values) for each in containers]
    modelled = all(_find(values, path) is _ABSENT for path in known.inexact_paths)
    of_containers = [_are_enabled(each.switches, values) for each in known.containers]
    read: list[_Read[Any]] = [switches, *of_containers, tolerations, selector, affinity, *requests]
    return DaemonSetSpec(
        name=known.name,
        tolerations=tolerations.value,
        node_selector=selector.value,
        node_affinity=affinity.value,
        requests=total(each.value for each in requests),
        advertises=known.advertises,
        exact=exact and modelled and all(each.exact for each in read),
        source=known.source,
    )


def _runs(container: Container, values: object) -> bool:
    return _are_enabled(container.switches, values).value


def _are_enabled(switches: tuple[Switch, ...], values: object) -> _Read[bool]:
    read = [_is_enabled(each, values) for each in switches]
    return _Read(all(each.value for each in read), exact=all(each.exact for each in read))


def _is_enabled(switch: Switch, values: object) -> _Read[bool]:
    value = _find(values, switch.path)
    if isinstance(value, type(switch.on)):
        return _Read(value == switch.on)
    return _Read(switch.default == switch.on, exact=value is _ABSENT)


def _tolerations(known: Tolerations, values: object) -> _Read[tuple[Toleration, ...]]:
    everything = _is_enabled(Switch(path=known.all_path), values) if known.all_path else _Read(False)
    if everything.value:
        return _Read(known.default, everything.exact)
    replacing = _listed(_find(values, known.replacing_path, empty=_EMPTY))
    if replacing.value is not None or not replacing.exact:
        return _Read(known.default if replacing.value is None else replacing.value, replacing.exact)
    listed = _listed(_find(values, known.path))
    if known.all_path:
        return _Read(known.unless_all + (listed.value or ()), listed.exact)
    if listed.value is None or (known.kept_when_empty and not listed.value):
        return _Read(known.default, listed.exact)
    return _Read(known.default + listed.value if known.added else listed.value, listed.exact)


def _listed(value: Any) -> _Read[tuple[Toleration, ...] | None]:
    if value is _ABSENT:
        return _Read(None)
    read = [_toleration(each) for each in value] if isinstance(value, (list, tuple)) else []
    known = tuple(each for each in read if each is not None)
    understood = len(known) == len(read) and (value is None or isinstance(value, (list, tuple)))
    return _Read(known) if understood else _Read(None, exact=False)


def _toleration(value: object) -> Toleration | None:
    if not isinstance(value, Mapping):
        return None
    said = {key: str(each) if key == "tolerationSeconds" else each for key, each in value.items() if each is not None}
    understood = said.keys() <= _TOLERATION_KEYS and all(isinstance(each, str) for each in said.values())
    return said if understood else None


def _selector(known: Nodes, values: object) -> _Read[Mapping[str, str]]:
    value = _find(values, known.replacing_selector_path, empty=_EMPTY)
    if value is _ABSENT:
        value = _find(values, known.selector_path)
    if value is _ABSENT:
        return _Read(known.selector)
    if not isinstance(value, Mapping) or not all(_is_label(key, each) for key, each in value.items()):
        return _Read(known.selector, exact=False)
    return _Read({key: each for key, each in {**known.selector, **value}.items() if each is not None})


def _affinity(known: Nodes, values: object) -> _Read[tuple[NodeSelectorTerm, ...]]:
    labels = _find(values, known.labels_path)
    if labels is not _ABSENT:
        return _labelled(known.affinity, labels)
    replacing = _find(values, known.replacing_affinity_path, empty=_EMPTY)
    if isinstance(replacing, Mapping):
        return _affinity(Nodes(affinity_path="affinity"), {"affinity": replacing})
    found = _find(values, known.affinity_path) if replacing is _ABSENT else _MISREAD
    for key in _TO_TERMS:
        if found is None:
            return _Read(())
        if found is not _ABSENT:
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _MISREAD
    if isinstance(found, (list, tuple)) and all(_is_term(each) for each in found):
        return _Read(tuple(found))
    return _Read(known.affinity, exact=found is _ABSENT)


def _labelled(default: tuple[NodeSelectorTerm, ...], labels: object) -> _Read[tuple[NodeSelectorTerm, ...]]:
    """Return the terms for the labels in the values."""
    keys, values = _find(labels, "keys"), _find(labels, "values")
    if not _is_texts(keys) or not _is_texts(values) or not keys:
        return _Read(default, exact=False)
    terms = [[{"key": key, "operator": "In", "values": sorted(values)}] for key in keys]
    # The text after the loop in the chart's template belongs to the last term.
    terms[-1] += default[-1]["matchExpressions"][1:]
    return _Read(tuple({"matchExpressions": each} for each in terms))


def _requests(container: Container, values: object) -> _Read[Mapping[str, str]]:
    value, default = _find(values, container.replacing_path, empty=({}, None)), dict[str, str]()
    if value is _ABSENT:
        value, default = _find(values, container.path, empty=({}, None)), dict(container.requests)
    if value is _ABSENT:
        return _Read(default)
    requests, limits = (_amounts(value, part) for part in ("requests", "limits"))
    if requests is None or limits is None:
        return _Read(container.requests, exact=False)
    # A container with only a limit requests the same amount.
    merged = {**limits, **default, **requests}
    return _Read({name: amount for name, amount in merged.items() if amount is not None})


def _amounts(resources: object, part: str) -> Mapping[str, str | None] | None:
    """Return the requests or limits of a container. A removed amount is ``None``."""
    written = resources.get(part) if isinstance(resources, Mapping) else _MISREAD
    if written is None:
        return {}
    if not isinstance(written, Mapping):
        return None
    said = {name: _text(written[name]) for name in _REQUESTS if name in written}
    return said if all(each is None or _is_amount(name, each) for name, each in said.items()) else None


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _is_amount(name: str, value: object) -> bool:
    amount = quantity(name, value)
    return amount is not None and amount >= 0


def _find(values: object, path: ValuePath, *, empty: tuple[object, ...] = ()) -> Any:
    """Return the value at the first path that is set and whose value isn't in ``empty``."""
    for each in (path,) if isinstance(path, str) else path:
        found = values
        for key in each.split("."):
            found = found.get(key, _ABSENT) if isinstance(found, Mapping) else _ABSENT
        if found is not _ABSENT and found not in empty:
            return found
    return _ABSENT


def _is_set(values: object, path: str) -> bool:
    found = _find(values, path)
    return found is not _ABSENT and found is not None and found is not False


def _is_texts(value: object) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)


def _is_label(key: object, value: object) -> bool:
    return isinstance(key, str) and (value is None or isinstance(value, str))


def _is_term(value: object) -> bool:
    if not isinstance(value, Mapping):
        return False
    parts = [value.get(key, ()) for key in ("matchExpressions", "matchFields")]
    return all(isinstance(part, (list, tuple)) and all(isinstance(each, Mapping) for each in part) for part in parts)


def daemon_sets_of_chart(name: str, version: str | None, values: Mapping[str, Any]) -> tuple[DaemonSetSpec, ...] | None:
    """Return the DaemonSets that a Helm chart installs with some values.

    A version between two versions of a row is treated like them. For any other version, the next lower version that was
    read is used, or the lowest one, and the answers aren't exact. They also aren't exact if a value has the wrong type.
    Then its default is used. No argument raises an error.

    Args:
        name: Name of the chart, without repository.
        version: Version of the chart, or ``None`` if it isn't pinned.
        values: Values of the release that differ from the chart's.

    Returns:
        The enabled DaemonSets, possibly none, or ``None`` if the chart, or a part that the values add, is unknown.
    """
    return _daemon_sets(CHARTS, name, version, values)


def daemon_sets_of_addon(
    name: str, version: str | None, configuration: Mapping[str, Any]
) -> tuple[DaemonSetSpec, ...] | None:
    """Return the DaemonSets that an EKS add-on installs with some configuration, otherwise as for a chart.

    Args:
        name: Name of the add-on.
        version: Version of the add-on, such as ``v1.23.0-eksbuild.1``, or ``None`` if it isn't pinned.
        configuration: Its configuration values, parsed.

    Returns:
        The enabled DaemonSets, possibly none, or ``None`` if the add-on is unknown.
    """
    return _daemon_sets(ADDONS, name, version, configuration)


def _daemon_sets(
    table: tuple[KnownSoftware, ...], name: object, version: object, values: object
) -> tuple[DaemonSetSpec, ...] | None:
    rows = [each for each in table if each.name == name]
    if not rows:
        return None
    wanted = _numbers(_without_build(version)) if isinstance(version, str) else ()
    row = _row(rows, wanted)
    read = sorted(map(_numbers, row.versions))
    return _resolve(row, values, version_was_read=not read or bool(wanted and read[0] <= wanted <= read[-1]))


def _without_build(version: str) -> str:
    return version.removeprefix("v").split("-eksbuild.")[0]


def _row(rows: list[KnownSoftware], wanted: tuple[int, ...]) -> KnownSoftware:
    """Return the row with the nearest lower version, or the first row without a version."""
    if not wanted or not all(each.versions for each in rows):
        return rows[0]
    begun = [each for each in rows if _begins(each) <= wanted]
    return max(begun, key=_begins) if begun else min(rows, key=_begins)


def _begins(row: KnownSoftware) -> tuple[int, ...]:
    return min(map(_numbers, row.versions))


def _numbers(version: str) -> tuple[int, ...]:
    found = [int(each) for each in _NUMBER.findall(version)[:3]]
    return tuple(found + [0] * (3 - len(found))) if found else ()

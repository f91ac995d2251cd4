"""Rules for values that the schema of an API, a chart or a resource type rejects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache

from gpu_facts.charts import KARPENTER, KEDA
from gpu_facts.kubernetes import GONE, Gone, is_ended
from gpu_facts.light import regex
from gpu_facts.refusals import did_you_mean
from gpu_facts.schemas import KUBERNETES, SchemaSource, find_source, sources
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects import may_be_excerpt
from gpu_preflight.cluster.references import cluster_resources
from gpu_preflight.cluster.software import other_definition, read_version
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.cloudformation import Resource
from gpu_preflight.reading.eksctl.recognition import cluster_or_config
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import is_expression, is_true, known_text
from gpu_preflight.rule import Problem, rule
from gpu_preflight.schema.fields import broken_rules, has_rules
from gpu_preflight.schema.validation import Fault, is_typo

_GUIDE = "https://kubernetes.io/docs/reference/using-api/deprecation-guide/"
_CHARTS = {"Karpenter": KARPENTER, "KEDA": KEDA}
# Programs with all kinds of their API groups in the data.
_WHOLE = (KUBERNETES, "Karpenter")
# Other rules report these groups with the versions that serve them.
_ELSEWHERE = ("autoscaling", "resource.k8s.io")
# GPU243 reports switches, GPU197 gates of Karpenter.
_SAID_ELSEWHERE = regex(r"(^|\.)enable$|^settings\.featureGates\.")
_WINDOWS = ("Windows2019", "Windows2022", "Windows2025")
# CRD rules that GPU180 (NodePools) and GPU181 (EC2NodeClasses) check without the CEL library.
SAID_ELSEWHERE = {
    "NodePool": (
        "'schedule' must be set with 'duration'",
        "only 'limits.nodes' is supported on static NodePools",
        "'weight' is not supported on static NodePools",
        'label domain "karpenter.sh" is restricted',
        'label domain "karpenter.k8s.aws" is restricted',
        'label "karpenter.sh/nodepool" is restricted',
        'label "kubernetes.io/hostname" is restricted',
        "requirements with operator 'In' must have a value defined",
        "requirements operator 'Gt', 'Lt', 'Gte', or 'Lte' must have a single positive integer value",
        "requirements with 'minValues' must have at least that many values specified in the 'values' field",
    ),
    "EC2NodeClass": (
        "must specify exactly one of ['role', 'instanceProfile']",
        "'alias' is mutually exclusive, cannot be set with a combination of other fields in amiSelectorTerms",
        "'alias' is mutually exclusive, cannot be set with a combination of other amiSelectorTerms",
        "'alias' is improperly formatted, must match the format 'family@version'",
        "family is not supported, must be one of the following: 'al2', 'al2023', 'bottlerocket', 'windows2019', "
        "'windows2022', 'windows2025'",
        "windows families may only specify version 'latest'",
        "must specify amiFamily if amiSelectorTerms does not contain an alias",
        *(
            f"if set, amiFamily must be '{family}' or 'Custom' when using {article} {family} alias"
            for article, families in {"an": ("AL2", "AL2023"), "a": ("Bottlerocket", *_WINDOWS)}.items()
            for family in families
        ),
    ),
}
_VALIDATION = "https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation"
_EKS = "AWS::EKS::"
_NEWER = "a newer version of its API than the one that was checked may accept it"
_EXCERPT = "the file may have only a part of the object"
_OF_A_CLUSTER = (
    "AWS::EKS::Addon",
    "AWS::EKS::AccessEntry",
    "AWS::EKS::FargateProfile",
    "AWS::EKS::PodIdentityAssociation",
)
_SCHEMAS = "https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/resource-type-schemas.html"


@rule("GPU303", "error", source=_GUIDE)
def api_version_that_is_gone(case: Case) -> Iterator[Problem]:
    """API version or kind doesn't exist.

    The API server doesn't know the kind and rejects the object, so the object has no effect.

    Fix: Write the object in a version that the API server serves.
    """
    for each in case.cluster.objects:
        for text, unknown in _faults(each, case.cluster):
            for subject in case.cluster.dependent_parts(each):
                problem = Problem(subject, text, unknown=unknown, name=each.origin.path)
                yield problem.in_object(each, "apiVersion")


def _faults(each: Object, cluster: Cluster) -> Iterator[tuple[str, bool]]:
    """Yield why no API server accepts an object, and whether that is uncertain."""
    version = known_text(each.content.get("apiVersion"))
    if version is None:
        return
    gone = GONE.get((version, each.kind))
    if gone is not None:
        yield from _gone(version, gone, cluster)
    elif each.group not in _ELSEWHERE:
        yield from _unknown(each, version)


def _gone(version: str, gone: Gone, cluster: Cluster) -> Iterator[tuple[str, bool]]:
    runs = _program_version(gone.of, cluster)
    if runs is None or runs >= minor(gone.since):
        instead = f"; write {gone.now}" if gone.now else ""
        text = f"{gone.of} {gone.since} removed {version}{instead}"
        yield text, runs is None and not is_ended(gone.until)


def _program_version(program: str, cluster: Cluster) -> tuple[int, int] | None:
    """Return the minor version of a program; ``None`` if it isn't known."""
    if program not in _CHARTS:
        return minor(cluster.version) if cluster.version else None
    chart = cluster.chart(_CHARTS[program])
    return minor(chart.version) if chart is not None and chart.version else None


def _unknown(each: Object, version: str) -> Iterator[tuple[str, bool]]:
    """Yield that no known server has a kind in a version, if other kinds of its group are known."""
    known = _kinds_by_group().get(each.group, ())
    if not known and _is_own(each, version):
        yield f"Kubernetes has no API group {each.group}{did_you_mean(each.group, _own_groups())}", False
    if not known or f"{version}/{each.kind}" in known:
        return
    served = [kind.split("/")[-2] for kind in known if kind.endswith(f"/{each.kind}")]
    meant = next((kind for kind in _kinds(known) if is_typo(each.kind, kind)), None)
    elsewhere = [kind for kind in _whole() if kind.endswith(f"/{each.kind}")] if _is_whole(each.group) else []
    if served:
        yield f"version {version} isn't known; known is {', '.join(served)}", True
    elif meant is not None:
        yield f"{version} has no kind {each.kind}; did you mean {meant!r}?", False
    elif elsewhere:
        yield f"{version} has no kind {each.kind}; write {elsewhere[0].rpartition('/')[0]}", False


def _is_own(each: Object, version: str) -> bool:
    """Whether only Kubernetes itself could serve a group: other groups have a domain with a dot.

    Files of programs such as Skaffold also have such groups, but no kinds of Kubernetes.

    Source: kubernetes/apiextensions-apiserver v0.36.1 pkg/apis/apiextensions/validation/validation.go: ``spec.group``
    must be "a domain with at least one dot"
    """
    own = bool(each.group) and "." not in each.group and not is_expression(version)
    return own and each.kind in _kinds(_whole())


@cache
def _own_groups() -> tuple[str, ...]:
    return tuple(each for each in _kinds_by_group() if each and "." not in each)


@cache
def _kinds_by_group() -> Mapping[str, tuple[str, ...]]:
    """Return every known kind of an object, by API group."""
    found: dict[str, list[str]] = {}
    for source in sources():
        for kind in source.kinds:
            version = kind.rpartition("/")[0]
            if "::" not in kind and version != "chart":
                found.setdefault(version.rpartition("/")[0], []).append(kind)
    return {group: tuple(kinds) for group, kinds in found.items()}


@cache
def _whole() -> tuple[str, ...]:
    """Return the kinds of all programs whose groups are completely known."""
    return tuple(kind for source in sources() if source.name in _WHOLE for kind in source.kinds)


def _is_whole(group: str) -> bool:
    return any(kind.rpartition("/")[0].rpartition("/")[0] == group for kind in _whole())


def _kinds(known: Iterable[str]) -> list[str]:
    return sorted({kind.rpartition("/")[2] for kind in known})


@rule("GPU304", "note", source=_GUIDE)
def api_version_that_goes(case: Case) -> Iterator[Problem]:
    """API version is deprecated.

    The API server still serves it, with a warning. A later release doesn't serve it.

    Fix: Write the object in the newest version before the upgrade.
    """
    for each in case.cluster.objects:
        kind = f"{each.content.get('apiVersion')}/{each.kind}"
        for source in sources():
            if kind in source.deprecated:
                deprecated = each.content.get("apiVersion")
                text = f"{each.origin.path}: {source.name} will remove {deprecated}; write {_newest(source, each)}"
                yield Problem(each, text, field="apiVersion")


def _newest(source: SchemaSource, each: Object) -> str:
    """Return the version of a kind that its project keeps."""
    kept = [kind for kind in source.kinds if kind.endswith(f"/{each.kind}") and kind not in source.deprecated]
    return kept[-1].rpartition("/")[0] if kept else "none"


@rule("GPU307", "warning", source="https://helm.sh/docs/chart_template_guide/values_files/")
def value_that_the_chart_does_not_have(case: Case) -> Iterator[Problem]:
    """Chart doesn't have this value.

    Helm accepts any name without a warning, so the value has no effect.

    Fix: Write the value as in the chart's own values.
    """
    for chart in case.cluster.charts:
        source = find_source(f"chart/{chart.name}")
        faults = (each for each in case.fields.chart_faults(chart) if not _SAID_ELSEWHERE.search(each.path))
        for fault in faults:
            read = source.version.removeprefix("v") if source else ""
            text = f"chart {chart.name}: version {read} has no value {fault.path}; did you mean {fault.nearest!r}?"
            yield Problem(chart, text, unknown=(chart.version or "").removeprefix("v") != read)


@rule("GPU305", "error", source="https://github.com/aws/karpenter-provider-aws/tree/v1.15.1/pkg/apis/crds")
def rule_of_karpenters_definitions_that_is_broken(case: Case) -> Iterator[Problem]:
    """Object violates a validation rule of Karpenter's CRD.

    The API server evaluates the rules of the CRD and rejects the object, so the pool or class doesn't exist.

    Fix: Correct the fields as the message states.
    """
    for each in case.cluster.objects:
        for path, message in _broken(each, case):
            other = other_definition(each, case.cluster)
            besides = f"; checked against {read_version(each)}, but {other} installs its CRD" if other else ""
            for subject in case.cluster.dependent_parts(each):
                text = f"{each.origin.path}: {path}: {message}{besides}"
                yield Problem(subject, text, unknown=other is not None).in_object(each, path)


def _broken(each: Object, case: Case) -> Iterator[tuple[str, str]]:
    # An API server evaluates the rules only if all fields are valid.
    if has_rules(each) and all(fault.kind == "unknown" for fault in case.fields.object_faults(each)):
        reported = SAID_ELSEWHERE.get(each.kind, ())
        yield from ((path, message) for path, message in broken_rules(each) if message not in reported)


@rule("GPU301", "error", source=_VALIDATION)
def field_that_the_api_server_refuses(case: Case) -> Iterator[Problem]:
    """API server rejects a field.

    The object doesn't exist, or keeps its old state. If the object is a ClusterConfig, eksctl creates nothing.

    Fix: Correct the field as the message states.
    """
    for each, fault in _field_faults(case):
        if fault.kind != "unknown":
            yield from _problems(each, fault, case.cluster, unknown=_is_excerpt(each, fault))


@rule("GPU302", "error", source=_VALIDATION)
def field_that_its_kind_does_not_have(case: Case) -> Iterator[Problem]:
    """Object has an unknown field.

    kubectl, Argo CD and Flux reject the object, and eksctl rejects its config. Without validation, the API server drops
    the field.

    Fix: Correct the field as the message states, or remove it.
    """
    for each, fault in _field_faults(case):
        if fault.kind == "unknown":
            unknown = _is_applied_without_validation(each, case.cluster)
            yield from _problems(each, fault, case.cluster, unknown=unknown)


def _field_faults(case: Case) -> Iterator[tuple[Object, Fault]]:
    # The API server accepted the objects of a running cluster.
    for each in (one for one in case.cluster.objects if not one.is_live):
        for fault in case.fields.object_faults(each):
            yield each, fault


def _is_excerpt(each: Object, fault: Fault) -> bool:
    """Whether a file may contain only a part of an object, such as a patch for Kustomize."""
    outermost = each.origin.resource is None and fault.path.count(".") < 2
    return fault.kind == "missing" and (outermost or may_be_excerpt(each))


def _is_applied_without_validation(each: Object, cluster: Cluster) -> bool:
    """Whether CDK's function applies an object without validation."""
    resource = cluster.resources.get(each.origin.resource or "")
    return resource is not None and is_true(resource.properties.get("SkipValidation"))


def _problems(each: Object, fault: Fault, cluster: Cluster, *, unknown: bool) -> Iterator[Problem]:
    other = None if _is_typo(fault) else other_definition(each, cluster)
    besides = f"; checked against {read_version(each)}, but {other} installs its CRD" if other else ""
    of_eksctl = cluster_or_config(each, cluster.resources)
    for subject in cluster.dependent_parts(each) if of_eksctl is each else [of_eksctl]:
        unsure = unknown or fault.newer or other is not None
        doubt = _NEWER if fault.newer else _EXCERPT if unknown and fault.kind == "missing" else ""
        problem = Problem(subject, f"{fault.text}{besides}", unknown=unsure, name=each.origin.path, doubt=doubt)
        yield problem.in_object(each, fault.path)


def _is_typo(fault: Fault) -> bool:
    """Whether a field can only be a typo of a known one, which no other version has either."""
    name = fault.path.rpartition(".")[2]
    return fault.kind == "unknown" and fault.nearest is not None and is_typo(name, fault.nearest)


@rule("GPU300", "error", source=_SCHEMAS)
def property_that_cloudformation_refuses(case: Case) -> Iterator[Problem]:
    """CloudFormation rejects a property.

    The deployment fails and is rolled back, so the resource doesn't exist.

    Fix: Correct the property as the message states.
    """
    pools = _pools_by_resource(case.cluster)
    for each in _resources(case.cluster, pools):
        for fault in case.fields.resource_faults(each):
            yield from _resource_problems(each, fault, pools.get(each.key, []))


def _pools_by_resource(cluster: Cluster) -> dict[str, list[Pool]]:
    """Return the pools that a resource defines or launches, by its key."""
    found: dict[str, list[Pool]] = {}
    for pool in cluster.pools:
        for each in (pool.resource, pool.launch_resource):
            if each is not None:
                found.setdefault(each.key, []).append(pool)
    return found


def _resources(cluster: Cluster, pools: Mapping[str, list[Pool]]) -> Iterator[Resource]:
    """Yield the pools, the cluster, resources that name it, and resources of the same files that name no cluster."""
    made = [cluster.resources[key] for key in pools if key in cluster.resources]
    made += [cluster.resource] if cluster.resource is not None else []
    files = {each.file for each in made}
    yield from made
    yield from cluster_resources(cluster, *_OF_A_CLUSTER)
    others = cluster.resources_of_type(*_others())
    yield from (each for each in others if each.key not in pools and (each.file in files or not files))


@cache
def _others() -> tuple[str, ...]:
    """Return the resource types that name no cluster."""
    kinds = (kind for source in sources() for kind in source.kinds)
    return tuple(kind for kind in kinds if "::" in kind and not kind.startswith(_EKS))


def _resource_problems(resource: Resource, fault: Fault, pools: list[Pool]) -> Iterator[Problem]:
    of_resource = f"{resource.type} {resource.path}"
    text = f"{of_resource}: {fault.text}"
    if fault.path:
        text = f"{fault.path} of {of_resource}{fault.text.removeprefix(fault.path)}"
    # Inputs are often excerpts, and CloudFormation reports missing properties before it creates resources.
    lacks = fault.kind == "missing" and "." not in fault.path
    for pool in pools:
        doubt = _NEWER if fault.newer else _EXCERPT
        yield Problem.from_subject(pool, text, unknown=fault.newer or lacks, doubt=doubt).in_object(
            resource, fault.path
        )
    if not pools and not lacks:
        yield Problem(resource, text, unknown=fault.newer, field=fault.path, doubt=_NEWER)

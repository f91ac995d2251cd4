"""Rules for documents with duplicate keys, unresolved placeholders or broken references."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpu_facts.kubernetes import CLUSTER_SCOPED, SUPPORT
from gpu_facts.labels import KUEUE_DOMAIN, KUEUE_QUEUE
from gpu_facts.light import dataclass, regex
from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.cluster.objects import Makers
from gpu_preflight.cluster.software import defining_charts, is_defined, is_kind_defined
from gpu_preflight.model.answer import Answer
from gpu_preflight.model.cluster import Cluster, Pool
from gpu_preflight.model.pod import Workload
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.eksctl.recognition import cluster_or_config, configs, metadata
from gpu_preflight.reading.objects import Object, Origin, Repeated
from gpu_preflight.reading.unknown import Unknown, as_written, dig, is_expression, known_text, mapping
from gpu_preflight.reading.versions import is_partly_unknown
from gpu_preflight.rule import Problem, Subject, rule

_YAML = "https://yaml.org/spec/1.2.2/#3213-node-comparison"
# Verified with kubectl 1.37.1 and helm 4.3.1 (2026-11).
_AS_JSON = "https://github.com/kubernetes-sigs/yaml/blob/v1.6.0/yaml.go"
# A longer list doesn't help.
_MOST = 20
_OF_AN_OBJECT = ("apiVersion", "kind", "metadata", "spec", "data")
_Identity = tuple[str, str, str, str]
_Scope = tuple[str, str]
# Argo CD and Flux may deliver objects of one file to several clusters.
_GITOPS = ("argoproj.io", "kustomize.toolkit.fluxcd.io", "helm.toolkit.fluxcd.io")
# Helm deletes an object of a hook before it creates the next one with the same name.
_HOOK = "helm.sh/hook"
_KUSTOMIZE = "https://kubectl.docs.kubernetes.io/references/kustomize/kustomization/"
# No name, id or ARN has angle brackets. `envsubst` and Helm don't replace them, but a script may, so that
# each finding only may be an error.
_PLACEHOLDER = regex(r"<[A-Za-z][A-Za-z0-9 _./-]*>")
# Kinds that contain only names, ids, numbers and keywords.
_KINDS = ("ClusterConfig", "EC2NodeClass", "NodeClass", "NodePool")
# Free text and shell scripts.
_FREE = ("annotations", "attachPolicy", "description", "overrideBootstrapCommand", "preBootstrapCommands", "userData")
_TAGS = "tags"
_ROLE = "eks.amazonaws.com/role-arn"
# EKS opens three minor versions a year.
_VERSIONS_AHEAD = 3
# Source: https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html (2026-11)
_ADD_ONS = (
    "adot amazon-cloudwatch-observability aws-ebs-csi-driver aws-efs-csi-driver aws-fsx-csi-driver aws-guardduty-agent "
    "aws-mountpoint-s3-csi-driver coredns eks-node-monitoring-agent eks-pod-identity-agent kube-proxy metrics-server "
    "snapshot-controller vpc-cni"
)
_NEAR = 0.8


def _twice(case: Case) -> list[Repeated]:
    return [each for each in case.cluster.repeated if not each.key.read_as]


def _is_kind(each: Repeated) -> bool:
    return each.key.outermost and each.key.name == "kind"


@rule("GPU344", "error", source=_YAML)
def several_objects_in_one_yaml_document(case: Case) -> Iterator[Problem]:
    """One YAML document contains several objects.

    A mapping has each key once. kubectl uses the last value, so all objects except the last are never created.

    Fix: Put a line with three dashes (---) between the objects.
    """
    for each in filter(_is_kind, _twice(case)):
        key = each.key
        yield Problem(
            each, f"a second object starts in line {key.again} of the same YAML document, so the first object is lost"
        )


@rule("GPU345", "warning", source=_YAML)
def key_that_stands_twice_in_a_mapping(case: Case) -> Iterator[Problem]:
    """Mapping has the same key twice.

    The last value counts. The first one is ignored without a warning.

    Fix: Merge the two values, or remove one.
    """
    objects = {each.origin.file for each in _twice(case) if _is_kind(each)}
    for each in _twice(case):
        key = each.key
        several = each.origin.file in objects and key.outermost and key.name in _OF_AN_OBJECT
        if not several:
            yield Problem(
                each,
                f"key {key.name} of line {key.line} is repeated in line {key.again}, and only the last value counts",
            )


@rule("GPU443", "warning", source=_AS_JSON)
def key_that_is_read_as_another(case: Case) -> Iterator[Problem]:
    """Unquoted key is read as another value.

    kubectl, helm and eksctl read an unquoted word such as y, no or 0777 as a boolean or a number, and convert it to
    text. A lookup of the key as written finds no value, without a warning.

    Fix: Write the key in quotes.
    """
    for each in case.cluster.repeated:
        if each.key.read_as:
            text = f"key {each.key.name} of line {each.key.line} is read as {each.key.read_as!r}; write it in quotes"
            yield Problem(each, text)


@rule("GPU348", "error", source="https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/troubleshooting.html")
def reference_to_what_the_template_does_not_have(case: Case) -> Iterator[Problem]:
    """Template refers to a resource that it doesn't have.

    CloudFormation rejects the whole template with "Unresolved resource dependencies".

    Fix: Write the logical id of a resource of this template, or the name of a parameter.
    """
    for each in case.cluster.dangling[:_MOST]:
        hint = did_you_mean(each.name, each.known)
        text = f"{each.origin.path} refers to {each.name}, but its template has nothing of that name{hint}"
        yield Problem(each, text)


@dataclass(frozen=True, slots=True)
class _Place:
    """A file, without the pools that are defined in it."""

    file: str

    @property
    def origin(self) -> Origin:
        """Where it is."""
        return Origin(self.file, self.file)


@rule("GPU452", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/")
def two_objects_of_one_name(case: Case) -> Iterator[Problem]:
    """Two objects have the same name.

    kubectl apply overwrites one with the other. Deleting one deletes it for both.

    Fix: Give one of them another name or namespace, or remove one.
    """
    cluster = case.cluster
    delivered = any(each.group in _GITOPS for each in cluster.objects)
    known: dict[tuple[_Identity, _Scope], Object] = {}
    for each in cluster.objects:
        if (identity := _identity(each)) is None:
            continue
        firsts = [known.setdefault((identity, scope), each) for scope in _scopes(each, delivered)]
        if (first := next((one for one in firsts if _is_lost(one, each)), None)) is not None:
            for subject in _subjects(each, cluster):
                yield _taken(subject, each, first, cluster)


def _identity(each: Object) -> _Identity | None:
    """Return the key that identifies an object in its cluster; ``None`` if it isn't known."""
    metadata = mapping(each.content.get("metadata"))
    name, space = known_text(metadata.get("name")), metadata.get("namespace")
    if not name or isinstance(space, Unknown) or is_expression(f"{space}{name}{each.group}"):
        return None
    return each.group, each.kind, "" if each.kind in CLUSTER_SCOPED else str(space or "default"), name


def _scopes(each: Object, delivered: bool) -> list[_Scope]:
    """Return the scopes that an object shares with others that are certainly applied to its cluster."""
    if each.origin.resource is None:
        return [] if delivered else [("file", each.origin.file)]
    # Stacks of two regions may use the same cluster name, but a reference is unique.
    referred = [("cluster", each.cluster.expression)] if isinstance(each.cluster, Unknown) else []
    return [("template", each.origin.file), *referred]


def _is_lost(first: Object, each: Object) -> bool:
    """Whether one of two objects of one name is overwritten by the other."""
    if first is each or first.origin.resource != each.origin.resource:
        return first is not each
    hooked = _HOOK in first.annotations or _HOOK in each.annotations
    return not hooked and first.content != each.content


def _subjects(each: Object, cluster: Cluster) -> list[Subject]:
    """Return the workloads that an object defines, or else the object."""
    if workloads := _workloads(each, cluster):
        return [*workloads]
    # Only one of two pools with the same path remains.
    pools = each.origin.resource is None and any(isinstance(part, Pool) for part in cluster.dependent_parts(each))
    return [_Place(each.origin.file) if pools else each]


def _workloads(each: Object, cluster: Cluster) -> list[Workload]:
    return [part for part in cluster.dependent_parts(each) if isinstance(part, Workload)]


def _taken(subject: Subject, each: Object, first: Object, cluster: Cluster) -> Problem:
    applied = [cluster.resources.get(one.origin.resource or "") for one in (first, each)]
    conditional = any(one is not None and one.conditional for one in applied)
    paths = list(dict.fromkeys(one.path for one in applied if one is not None))
    where = (
        f"{paths[0]} and {paths[1]} both apply it" if len(paths) > 1 else f"is defined twice in {_place(first, paths)}"
    )
    # A part that is known only later may distinguish the two.
    filled_in = applied[0] is None and any(is_partly_unknown(dict(one.content)) for one in (first, each))
    text = f"{where}, so one overwrites the other"
    return Problem(subject, text, unknown=conditional or filled_in, name=each.origin.path)


def _place(each: Object, paths: list[str]) -> str:
    return paths[0] if paths else each.origin.file.rpartition("/")[2]


@rule("GPU453", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/namespaces/")
def namespace_that_nothing_makes(case: Case) -> Iterator[Problem]:
    """Namespace isn't created.

    A new cluster doesn't have the namespace, so kubectl apply rejects its objects and the first deployment fails.

    Fix: Apply a Namespace before the object, or use an existing one; with this library: Team.
    """
    cluster = case.cluster
    homeless: dict[tuple[str, bool], list[Object]] = {}
    for each in cluster.objects:
        later = _is_applied_later(each, cluster)
        if later is not None and each.kind not in CLUSTER_SCOPED:
            homeless.setdefault((each.namespace, later), []).append(each)
    makers = Makers(cluster)
    for (namespace, later), objects in homeless.items():
        answer = makers.has_namespace(namespace)
        if answer is Answer.YES or is_expression(namespace):
            continue
        workloads = {id(one): one for each in objects for one in _workloads(each, cluster)}
        unknown = later or answer is Answer.UNKNOWN or cluster.resource is None or cluster.resource.conditional
        text = f"its namespace {namespace} doesn't exist in the new cluster, and no object in the input creates it"
        if later:
            text += ", and it must exist before this stack is deployed"
        for workload in workloads.values():
            yield Problem.from_subject(workload, text, unknown=unknown)
        if not workloads:
            yield Problem(objects[0], f"{objects[0].kind} {objects[0].name}: {text}", unknown=unknown)


def _is_applied_later(each: Object, cluster: Cluster) -> bool | None:
    """Whether a stack that is deployed after the cluster applies the object, so a person may create its namespace.

    ``None`` if the input doesn't create the cluster, or no stack applies the object.
    """
    made, applied = cluster.resource, cluster.resources.get(each.origin.resource or "")
    if made is None or applied is None or isinstance(dig(dict(each.content), "metadata", "namespace"), Unknown):
        return None
    return applied.file != made.file


@rule("GPU492", "error", source=_KUSTOMIZE)
def reference_to_a_file_or_source_that_does_not_exist(case: Case) -> Iterator[Problem]:
    """Kustomization, Application or release refers to something that the input doesn't have.

    kustomize, Argo CD or Flux fails, and none of its objects is applied. A patch whose target matches no object is
    ignored: tolerations, GPUs or replicas keep their old values.

    Fix: Correct the name, or add the object, file or folder that it names. If it is in another repository, add that to
    the paths of the check.
    """
    for each in case.cluster.broken:
        yield Problem(each, each.text, unknown=each.unsure or each.silent)


@rule("GPU200", "error", source="https://kubernetes.io/docs/concepts/extend-kubernetes/api-extension/custom-resources/")
def objects_of_software_that_nothing_installs(case: Case) -> Iterator[Problem]:
    """Objects belong to software that isn't installed.

    The API server doesn't know the kind and rejects the object, so the deployment fails.

    Fix: Install the chart, and make its objects depend on it.
    """
    cluster = case.cluster
    if not cluster.shows_software:
        return
    first: dict[tuple[str, ...], Object] = {}
    for each in cluster.objects:
        if charts := defining_charts(each):
            first.setdefault(charts, each)
    for charts, example in first.items():
        if not is_kind_defined(example, cluster):
            message = (
                f"{example.kind} {example.name}: the input doesn't install the CRD of {example.kind} ({example.group});"
                f" chart {charts[0]} does"
            )
            fix = f"Install chart {charts[0]}, and make the objects of {example.group} depend on it."
            # With plain files, a user may have installed it by hand.
            by_hand = example.origin.resource is None and not cluster.charts
            unknown, condition = by_hand or not cluster.sees_software, f"chart {charts[0]} is installed"
            yield Problem(example, message, fix, unknown=unknown, condition=condition)


@rule("GPU208", "warning", source="https://kueue.sigs.k8s.io/docs/tasks/run/jobs/")
def queue_of_kueue_without_kueue(case: Case) -> Iterator[Problem]:
    """Job waits in a Kueue queue, but Kueue isn't installed.

    The label has no effect then. No quota holds the job, and a suspended job is never resumed.

    Fix: Install Kueue, or remove the label.
    """
    cluster = case.cluster
    if not cluster.shows_software or is_defined(KUEUE_DOMAIN, cluster):
        return
    for each in cluster.workloads:
        queue = known_text(each.owner.labels.get(KUEUE_QUEUE))
        if queue and each.asks_for_gpu:
            text = f"is labeled for queue {queue} of Kueue, but Kueue isn't installed"
            yield Problem.from_subject(each, text, unknown=not cluster.sees_software, doubt=cluster.doubt)


@rule("GPU219", "warning", source="https://kubernetes.io/docs/concepts/services-networking/topology-aware-routing/")
def two_ways_of_routing_by_zone_on_one_service(case: Case) -> Iterator[Problem]:
    """Service configures routing by zone in two ways.

    The annotation takes precedence over the field. Neither affects where GPU pods are placed.

    Fix: Remove the annotation and keep trafficDistribution.
    """
    for each in case.cluster.objects_of_kind("Service"):
        mode = each.annotations.get("service.kubernetes.io/topology-mode")
        spread = known_text(each.spec.get("trafficDistribution"))
        if mode is not None and spread and dig(each.spec, "selector"):
            message = (
                f"Service {each.namespace}/{each.name}: annotation service.kubernetes.io/topology-mode overrides "
                f"trafficDistribution {spread}"
            )
            yield Problem(each, message)


@rule("GPU471", "error", source="https://kubernetes.io/docs/concepts/overview/working-with-objects/names/")
def placeholder_that_is_not_replaced(case: Case) -> Iterator[Problem]:
    """Placeholder isn't replaced.

    Unless a script replaces it first, eksctl and the API server reject such a name, AWS has no role with this name, and
    cluster autoscaler finds no group by such a tag.

    Fix: Replace the placeholder with the real value.
    """
    cluster = case.cluster
    for each in cluster.objects:
        for text in dict.fromkeys(_object_texts(each)):
            for subject in _placeholder_subjects(each, cluster):
                yield Problem(subject, f"{each.origin.path}: {text}", unknown=True)
    for autoscaler in cluster.autoscalers:
        who, sign = (
            ("cluster autoscaler", "--") if autoscaler.kind == "cluster-autoscaler" else ("Karpenter", "settings.")
        )
        for text in _texts(dict(autoscaler.flags), ""):
            yield Problem(autoscaler, f"{who}: {sign}{text}", unknown=True)


def _placeholder_subjects(each: Object, cluster: Cluster) -> Iterable[Subject]:
    made = cluster_or_config(each, cluster.resources)
    return cluster.dependent_parts(each) if made is each else [made]


def _object_texts(each: Object) -> Iterator[str]:
    if each.kind in _KINDS:
        return _texts(each.content, "")
    metadata = mapping(each.content.get("metadata"))
    names = {key: value for key, value in metadata.items() if key in ("name", "namespace")}
    if each.kind == "ServiceAccount":
        names[f"annotations[{_ROLE}]"] = each.annotations.get(_ROLE)
    return _texts({"metadata": names}, "")


def _texts(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of placeholders in a value."""
    if isinstance(value, dict):
        for key, part in value.items():
            # Selectors contain tags of resources. Users choose the values of other tags freely.
            if key not in _FREE and (key != _TAGS or path.endswith("SelectorTerms[]")):
                yield from _texts(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part, f"{path}[]")
    elif found := _PLACEHOLDER.search(str(as_written(value) or "")):
        yield f"{path} still has the placeholder {found.group()}"


@rule("GPU390", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-versions.html")
def kubernetes_version_that_eks_does_not_have(case: Case) -> Iterator[Problem]:
    """EKS doesn't have this Kubernetes version.

    EKS rejects the cluster at creation.

    Fix: Use a minor version that EKS supports; 'aws eks describe-cluster-versions' lists them.
    """
    cluster = case.cluster
    if cluster.resource is None or cluster.version is None:
        return
    newest = max(map(minor, SUPPORT))
    asked = minor(cluster.version)
    if asked == (0, 0) or asked > (newest[0], newest[1] + _VERSIONS_AHEAD):
        known = f"the newest known is {newest[0]}.{newest[1]}"
        yield Problem(cluster.resource, f"cluster {cluster.name}: EKS has no Kubernetes {cluster.version}; {known}")


@rule("GPU459", "error", source="https://github.com/eksctl-io/eksctl/issues/5556")
def version_of_a_clusterconfig_that_is_a_number(case: Case) -> Iterator[Problem]:
    """Kubernetes version in a ClusterConfig is a number.

    eksctl accepts only text and doesn't load the file. YAML also reads 1.30 without quotes as 1.3.

    Fix: Write metadata.version in quotes.
    """
    cluster = case.cluster
    named = [each for each in map(metadata, configs(list(cluster.objects))) if each.get("name") == cluster.name]
    for version in [each.get("version") for each in named]:
        if cluster.resource is not None and isinstance(version, (int, float)) and not isinstance(version, bool):
            text = (
                f"ClusterConfig {cluster.name}: metadata.version must be text such as '1.36', got the number {version}"
            )
            yield Problem(cluster.resource, text)


@rule(
    "GPU391", "warning", source="https://docs.aws.amazon.com/eks/latest/userguide/workloads-add-ons-available-eks.html"
)
def add_on_that_eks_does_not_have(case: Case) -> Iterator[Problem]:
    """EKS doesn't have this add-on.

    EKS rejects the name, and the deployment fails.

    Fix: Correct the name; 'aws eks describe-addon-versions' lists the add-ons.
    """
    known = _ADD_ONS.split()
    for addon in case.cluster.addons:
        near = did_you_mean(addon.name, known, closeness=_NEAR) if addon.name not in known else ""
        if near:
            yield Problem(addon, f"EKS may have no add-on {addon.name}{near}", unknown=True)

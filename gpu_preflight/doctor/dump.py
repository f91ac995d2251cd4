"""The output of ``kubectl get``, ``kubectl logs`` and the AWS CLI about a running cluster, and which lists it has.

"There is no such object" is true only if the list of its kind is complete. A file with the name of a resource, such as
``nodepools.karpenter.sh.json``, has the complete list, even if it is empty. Without its group, as in
``daemonsets.json``, it has probably the complete list, because people may leave out ``-A``. The error of kubectl is in
``nodepools.karpenter.sh.err`` next to it instead. In other files, the kinds that occur in a list count as listed. A raw
list, such as a ``PodList``, is complete if its kind has no namespace, or its objects are in several. Files of one name
in several folders are the lists of single namespaces, as `kubectl cluster-info dump` writes them.

Sources: https://kubernetes.io/docs/reference/kubectl/generated/kubectl_get/,
https://docs.aws.amazon.com/cli/latest/reference/ (2026-11)
"""

from __future__ import annotations

import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from datetime import datetime, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gpu_facts.doctor_reads import RESOURCES
from gpu_facts.kubernetes import CLUSTER_SCOPED, KUBE_SYSTEM
from gpu_facts.light import dataclass, regex
from gpu_preflight.reading.documents import Document, UnusableInput, is_folder, is_list, parse, read_text
from gpu_preflight.reading.folder_files import walk
from gpu_preflight.reading.objects import SOFTWARE, Object, Origin, Part, Unread, parse_objects
from gpu_preflight.reading.unknown import known_text, mapping, mappings

# What people type for kubectl, and the names of their files.
_KINDS_WITHOUT_GROUP = {each.partition(".")[0]: kind for each, kind in RESOURCES.items()}
# Lists that are read in the namespace of the pod only, if one pod is asked for.
OF_THE_POD = frozenset(
    (
        *("replicasets.apps", "statefulsets.apps", "jobs.batch", "cronjobs.batch", "resourcequotas", "limitranges"),
        *("persistentvolumeclaims", "horizontalpodautoscalers.autoscaling", "scaledobjects.keda.sh"),
        *("resourceclaims.resource.k8s.io", "jobsets.jobset.x-k8s.io", "workloads.kueue.x-k8s.io"),
        *("localqueues.kueue.x-k8s.io", "podgroups.scheduling.run.ai"),
    )
)
# Keys of the answers of the AWS CLI, each with its command. A text in front of a colon is the name of the answer.
AWS_ANSWERS: Mapping[str, str] = {
    "cluster": "eks describe-cluster",
    "nodegroup": "eks describe-nodegroup",
    "nodegroups": "eks list-nodegroups",
    "update": "eks describe-update",
    "accessEntries": "eks list-access-entries",
    "accessEntry": "eks describe-access-entry",
    "addon": "eks describe-addon",
    "associations": "eks list-pod-identity-associations",
    "fargateProfile": "eks describe-fargate-profile",
    "AutoScalingGroups": "autoscaling describe-auto-scaling-groups",
    "Activities": "autoscaling describe-scaling-activities",
    "Reservations": "ec2 describe-instances",
    "InstanceStatuses": "ec2 describe-instance-status",
    "InstanceTypeOfferings": "ec2 describe-instance-type-offerings",
    "InstanceTypes": "ec2 describe-instance-types",
    "LaunchTemplateVersions": "ec2 describe-launch-template-versions",
    "Images": "ec2 describe-images",
    "Subnets": "ec2 describe-subnets",
    "RouteTables": "ec2 describe-route-tables",
    "SecurityGroups": "ec2 describe-security-groups",
    "VpcEndpoints": "ec2 describe-vpc-endpoints",
    "CapacityReservations": "ec2 describe-capacity-reservations",
    "Output": "ec2 get-console-output",
    "Quota": "service-quotas get-service-quota",
    "Quotas": "service-quotas list-service-quotas",
    "Events": "cloudtrail lookup-events",
}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_CONFIG_MAP = "configmap-"
_SUFFIXES = (".json", ".yaml", ".yml")
_MAX_LOG_BYTES = 1024**2
_MAX_RECORD_BYTES = 1024**3
_FORBIDDEN = regex(r"(?i)forbidden|unauthorized|accessdenied|not authorized")
# Source: kubernetes/kubectl v0.36.3 pkg/cmd/clusterinfo/clusterinfo_dump.go (2026-11)
_LOGS = regex(r"(?s)==== START logs for container (\S+) of pod ([^/\s]+)/(\S+) ====\n(.*?)==== END logs for container")
_NO_SUCH_RESOURCE = regex(r"doesn't have a resource type|could not find the requested resource")
# Answers of AWS in which an absent item is evidence, so that a part of the list isn't.
_WHOLE = ("accessEntries", "VpcEndpoints")
# The number of pods in the status of an owner.
POD_COUNTS = {
    "ReplicaSet": "replicas",
    "Deployment": "replicas",
    "StatefulSet": "replicas",
    "Job": "active",
    "DaemonSet": "currentNumberScheduled",
}
_TIMES = ("lastTransitionTime", "lastTimestamp", "eventTime", "renewTime", "creationTimestamp", "lastHeartbeatTime")


@dataclass(frozen=True, slots=True)
class NotLooked:
    """Something that the dump doesn't have, so that causes that need it are neither found nor excluded.

    Attributes:
        what: The resource of the API server, or the command of the AWS CLI.
        why: Why the dump lacks it, e.g. the error text of kubectl.
    """

    what: str
    why: str


@dataclass(slots=True)
class Dump:
    """Everything that the files hold.

    Attributes:
        objects: Every Kubernetes object, the newest version of each.
        complete: Kinds whose list is certainly complete, because a file with the name of the resource has it.
        listed: Kinds that occur in a list of another file. Such a list is probably complete.
        cut: Kinds of which a page is missing.
        unknown_kinds: Kinds that the API server doesn't have, so that no such object exists.
        refused: Resources and AWS commands that weren't readable, with the error text.
        aws: Answers of the AWS CLI by their key, each as (file, answer).
        logs: The last lines of each container, by (namespace, pod, container).
        unread: Files that hold nothing known, with the reason.
        at: When it was recorded; ``None`` for files of kubectl, which don't have that time.
        namespace: The namespace to which lists are limited, because one pod was asked for; empty without a limit.
        absent: ConfigMaps that certainly don't exist, as ``namespace/name``.
    """

    objects: list[Object] = field(default_factory=list)
    complete: set[str] = field(default_factory=set)
    listed: set[str] = field(default_factory=set)
    cut: set[str] = field(default_factory=set)
    unknown_kinds: set[str] = field(default_factory=set)
    refused: list[NotLooked] = field(default_factory=list)
    aws: dict[str, list[tuple[str, Any]]] = field(default_factory=dict)
    logs: dict[tuple[str, str, str], str] = field(default_factory=dict)
    unread: list[NotLooked] = field(default_factory=list)
    at: datetime | None = None
    namespace: str = ""
    absent: set[str] = field(default_factory=set)


def read_dump(paths: Iterable[str]) -> Dump:
    """Read files and folders with the output of kubectl and the AWS CLI.

    Raises:
        UnusableInput: A path doesn't exist or can't be parsed, or there are neither objects nor answers of AWS.
    """
    found, every = Dump(), list(paths)
    for path in every:
        place = Path(path)
        if place.suffix == ".zip":
            _read_record(place, found)
            continue
        files = sorted(walk(place)) if is_folder(place) else [place]
        # 'kubectl cluster-info dump' writes a list for each namespace.
        names = Counter(each.name for each in files)
        for file in files:
            _read_file(file, found, named=not is_folder(place), is_part=names[file.name] > 1)
    if not (found.objects or found.aws or found.complete or found.listed):
        unread = f" ({found.unread[0].what}: {found.unread[0].why})" if found.unread else ""
        raise UnusableInput(
            f"{', '.join(every)}: must hold the output of 'kubectl get ... -o json', got none{unread}; "
            "see 'gpu-constructs doctor --print-commands'"
        )
    found.objects = newest(found.objects)
    _limit_pods(found)
    return found


def _limit_pods(found: Dump) -> None:
    """Remove the list of pods from the complete ones if it lacks a namespace, as it does without the option ``-A``."""
    namespaces = {each.namespace for each in found.objects if each.kind == "Pod"}
    for each in found.objects:
        count = mapping(each.content.get("status")).get(POD_COUNTS.get(each.kind, ""))
        if isinstance(count, int) and count > 0 and each.namespace not in namespaces:
            if "Pod" in found.complete | found.listed:
                why = f"{each.title} has {count} pods, and no pod of its namespace is in the dump; list them with -A"
                found.refused.append(NotLooked("pods", why))
            found.complete.discard("Pod")
            found.listed.discard("Pod")
            return


def _read_record(file: Path, found: Dump) -> None:
    """Read what ``--record`` wrote.

    Raises:
        UnusableInput: It isn't a zip file of this program, or a file in it is too large.
    """
    with TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(file) as packed:
                if sum(each.file_size for each in packed.infolist()) > _MAX_RECORD_BYTES:
                    raise UnusableInput(f"{file}: must unpack to at most {_MAX_RECORD_BYTES // 1024**2} MiB, got more")
                # Members with a folder or a drive in their name aren't of this program.
                for name in sorted(each for each in packed.namelist() if Path(each).name == each):
                    packed.extract(name, folder)
        except (OSError, EOFError, zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError) as error:
            raise UnusableInput(f"{file}: must be a file that --record wrote, got {error}") from None
        time = Path(folder) / "time.txt"
        found.at = parse_time(time.read_text(errors="replace").strip()) if time.is_file() else None
        namespace = Path(folder) / "namespace.txt"
        found.namespace = namespace.read_text(errors="replace").strip() if namespace.is_file() else ""
        for each in sorted(Path(folder).iterdir()):
            _read_file(each, found, named=False, is_part=False)


def _read_file(file: Path, found: Dump, *, named: bool, is_part: bool) -> None:
    if file.suffix == ".log":
        _read_log(file, found)
    elif file.name == "logs.txt":
        _read_logs(file, found)
    elif named or file.suffix in (*_SUFFIXES, ".err"):
        try:
            if file.suffix == ".err":
                _read_error(file.stem, read_text(file), found)
            else:
                _read_documents(file, found, is_part=is_part)
        except UnusableInput as error:
            if named:
                raise
            found.unread.append(NotLooked(str(file), str(error).removeprefix(f"{file}: ")))


def _read_log(file: Path, found: Dump) -> None:
    namespace, _, rest = file.stem.partition("_")
    pod, _, container = rest.partition("_")
    if not container:
        why = f"must have the name NAMESPACE_POD_CONTAINER.log, got {file.name}"
        found.unread.append(NotLooked(str(file), why))
        return
    found.logs[namespace, pod, container] = _tail(file)


def _read_logs(file: Path, found: Dump) -> None:
    """Read the logs of a pod that 'kubectl cluster-info dump' wrote."""
    for container, namespace, pod, text in _LOGS.findall(_tail(file)):
        found.logs[namespace, pod, container] = text


def _tail(file: Path) -> str:
    """Return the end of a log."""
    with file.open("rb") as stream:
        stream.seek(0, 2)
        stream.seek(max(stream.tell() - _MAX_LOG_BYTES, 0))
        return stream.read().decode(errors="replace")


def _read_error(name: str, text: str, found: Dump) -> None:
    """Read what kubectl or the AWS CLI wrote to standard error instead of an answer."""
    kind = RESOURCES.get(name) or _KINDS_WITHOUT_GROUP.get(name)
    line = " ".join(text.split())[:300]
    if kind is not None and _NO_SUCH_RESOURCE.search(text):
        found.complete.add(kind)
        found.unknown_kinds.add(kind)
    elif name.startswith(_CONFIG_MAP) and "NotFound" in text:
        found.absent.add(config_map_name(name))
    elif line:
        found.refused.append(NotLooked(name, line))


def config_map_name(file: str) -> str:
    """Return namespace and name of the ConfigMap in ``configmap-NAME`` or ``configmap-NAMESPACE_NAME``."""
    namespace, _, name = file.removeprefix(_CONFIG_MAP).rpartition("_")
    return f"{namespace or KUBE_SYSTEM}/{name}"


def _read_documents(file: Path, found: Dump, *, is_part: bool) -> None:
    text = read_text(file)
    kind = None if is_part else RESOURCES.get(file.stem)
    likely = _KINDS_WITHOUT_GROUP.get(file.stem)
    before = len(found.objects)
    documents = list(parse(str(file), text))
    for document in documents:
        _read_document(document, found, is_part=is_part)
    read = found.objects[before:]
    lists = [each.content for each in documents if _is_list(each.content)]
    # The documents of a long list are its items.
    if any(map(_has_items, lists)) or (not lists and is_list(text[:4096])):
        if kind is not None and kind not in found.cut:
            found.complete.add(kind)
        elif likely is not None and likely != "Pod":
            # The script writes whole lists. A list of a person may be that of one namespace.
            (found.complete if likely in CLUSTER_SCOPED and not is_part else found.listed).add(likely)
        kinds = [each.kind for each in read]
        # A cluster has more than one pod. 'kubectl get pod/a node/b' writes such a list.
        found.listed |= {each for each in kinds if each != "Pod" or kinds.count(each) > 1}


def _is_list(content: Any) -> bool:
    return isinstance(content, dict) and str(content.get("kind")).endswith("List")


def _has_items(content: Mapping[str, Any]) -> bool:
    """Whether a list has its items. An API server writes null for no items."""
    return "items" in content and isinstance(content["items"], (list, type(None)))


def _read_document(document: Document, found: Dump, *, is_part: bool) -> None:
    content = document.content
    if not isinstance(content, dict):
        return
    if "kind" in content:
        objects = list(parse_objects(_with_kinds(content), document.file))
        found.objects += objects
        if mapping(content.get("metadata")).get("continue"):
            found.cut |= {each.kind for each in objects}
        elif _is_list(content) and content["kind"] != "List" and _has_items(content):
            kind = str(content["kind"]).removesuffix("List")
            # The path of the request isn't in the list. It may be limited to a namespace.
            is_named = not is_part and Path(document.file).stem.partition(".")[0] == f"{kind.lower()}s"
            is_whole = is_named or kind in CLUSTER_SCOPED or len({each.namespace for each in objects}) > 1
            if is_whole:
                found.complete.add(kind)
            elif kind != "Pod":
                # It may have no items.
                found.listed.add(kind)
        return
    known = [key for key in content if key in AWS_ANSWERS]
    is_cut = bool(content.get("NextToken") or content.get("nextToken"))
    for key in known:
        if is_cut and key in _WHOLE:
            found.refused.append(NotLooked(f"aws {AWS_ANSWERS[key]}", "only a part of the list is in the dump"))
            continue
        found.aws.setdefault(key, []).append((document.file, content[key]))
    if not known:
        found.unread.append(NotLooked(document.file, "has neither objects of Kubernetes nor an answer of the AWS CLI"))


def _with_kinds(content: dict[str, Any]) -> dict[str, Any]:
    """Return a list in which each item has its kind, which lists of ``kubectl get --raw`` lack."""
    kind = str(content["kind"])
    if kind == "List" or not kind.endswith("List"):
        return content
    own = {"apiVersion": content.get("apiVersion"), "kind": kind.removesuffix("List")}
    return {**content, "items": [{**own, **each} for each in mappings(content.get("items"))]}


# The possible content of a list that isn't readable, by the beginning of its name. Others may hold objects.
_POOLS: frozenset[Part] = frozenset(("pools",))
_OBJECTS: frozenset[Part] = frozenset(("objects",))
# AWS knows node groups without nodes.
_MAY_HOLD = {"aws": _POOLS, "node": _POOLS, "ec2node": _POOLS, "daemonsets": SOFTWARE, "deployments": SOFTWARE}


def unread_lists(dump: Dump) -> Iterator[Unread]:
    """Yield the lists that weren't readable as unread parts of an input."""
    for each in dump.refused:
        held = next((part for name, part in _MAY_HOLD.items() if each.what.startswith(name)), _OBJECTS)
        yield Unread(Origin("the cluster", each.what), each.why, held)


def newest(objects: Iterable[Object]) -> list[Object]:
    """Return each object once. If it is in several files, the one with the highest resource version counts."""
    found: dict[tuple[str, str, str, str], Object] = {}
    for each in objects:
        key = each.group, each.kind, each.namespace, each.name
        known = found.get(key)
        if known is None or _version(each) >= _version(known):
            found[key] = each
    return list(found.values())


def _version(each: Object) -> int:
    text = str(mapping(each.content.get("metadata")).get("resourceVersion") or "")
    return int(text) if text.isdecimal() and len(text) < 20 else 0


def parse_time(value: Any) -> datetime | None:
    """Return a time in the notation of Kubernetes or AWS, in UTC; ``None`` for anything else."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=timezone.utc)
    text = known_text(value)
    if not text or len(text) > 40:
        return None
    text = _FRACTION.sub("", text.strip().replace("Z", "+00:00"))
    try:
        found = datetime.fromisoformat(text)
        return found.astimezone(timezone.utc) if found.tzinfo else found.replace(tzinfo=timezone.utc)
    except (ValueError, OverflowError):
        return None


_FRACTION = regex(r"\.\d+(?=[+-]|$)")


def latest_time(dump: Dump) -> datetime | None:
    """Return the latest time in a dump, which is a little before it was made; ``None`` if it has none."""
    times = (parse_time(each) for content in dump.objects for each in _object_times(content))
    return max((each for each in times if each is not None), default=None)


def _object_times(each: Object) -> Iterator[Any]:
    metadata, status = mapping(each.content.get("metadata")), mapping(each.content.get("status"))
    for part in (metadata, each.content, each.spec, mapping(each.content.get("series"))):
        yield from (part.get(name) for name in _TIMES)
    yield mapping(each.content.get("series")).get("lastObservedTime")
    for condition in mappings(status.get("conditions")):
        yield from (condition.get(name) for name in _TIMES)


def without_permission(each: NotLooked) -> bool:
    """Whether something wasn't readable because a permission is missing."""
    return _FORBIDDEN.search(each.why) is not None

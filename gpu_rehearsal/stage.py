"""The environment of one play: simulated AWS, hosts of charts, a control plane and its nodes."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from gpu_facts.charts import AWS_NODE
from gpu_facts.labels import DEFINITIONS_RESOURCE, EKS_DOMAIN
from gpu_facts.schemas import replacement_properties
from gpu_rehearsal import processes
from gpu_rehearsal.assemblies import (
    Assembly,
    find_account,
    find_cluster_name,
    find_kubernetes_version,
    find_network,
    find_principals,
)
from gpu_rehearsal.aws.server import Aws
from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.cloudformation.stack import Stack
from gpu_rehearsal.cloudformation.template import bootstrap
from gpu_rehearsal.cluster.addons import GROUPS, Addons, Definitions, Webhooks
from gpu_rehearsal.cluster.client import Client
from gpu_rehearsal.cluster.container import Programs, Starter
from gpu_rehearsal.cluster.control_plane import ControlPlane, control_plane
from gpu_rehearsal.cluster.devices import Devices
from gpu_rehearsal.cluster.identities import Authenticator
from gpu_rehearsal.cluster.nodes import Kubelet, Nodes
from gpu_rehearsal.credentials import Authority
from gpu_rehearsal.internet import Charts, Internet

# Types of the custom resources of the CDK that install a chart, and that apply manifests.
RELEASE_TYPE, MANIFEST_TYPE = "Custom::AWSCDK-EKS-HelmChart", "Custom::AWSCDK-EKS-KubernetesResource"
# The error of kubectl and helm for an object whose definition isn't installed.
_NO_MATCH = re.compile(
    r'resource mapping not found for name: "[^"]*" namespace: "[^"]*" from "[^"]*": '
    r'no matches for kind "(?P<kind>[^"]+)" in version "(?P<group>[^"/]+)/[^"]+"'
)
_OTHER_ERROR = re.compile(r"Error from server|is invalid|forbidden|no matches for kind")
# Max seconds of the cleanup after a signal. Then the process exits without it.
CLEAN_UP_SECONDS = 3.5
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_handlers: list[Callable[[int, FrameType | None], None]] = []
# Factor of the usual delays of machines and images.
PACE = 0.1
# The DaemonSet that assigns addresses to the pods of a node.
NETWORK = AWS_NODE
# Description of the roles that exist although no stack creates them.
PREEXISTING = "exists before the stack"


class SkippedResources:
    """Decides which resources aren't simulated, and why.

    Attributes:
        missing: Names of the charts that a stack requests and that aren't in the folder.
    """

    def __init__(self, charts: Charts, definitions: Definitions) -> None:
        self._charts, self._definitions = charts, definitions
        self.missing: set[str] = set()

    def __call__(self, _logical_id: str, kind: str, properties: Mapping[str, Any]) -> str:
        """Return why a resource isn't simulated; empty if it is. Definitions that others need are installed then."""
        if kind in (RELEASE_TYPE, DEFINITIONS_RESOURCE):
            return self._release_reason(properties)
        if kind == MANIFEST_TYPE and _is_of_auto_mode(json.loads(properties["Manifest"])):
            return f"the definitions of {EKS_DOMAIN} are only available in EKS"
        return ""

    def _missing_chart_reason(self, chart: str, version: str, *, definitions: bool) -> str:
        """Return why a chart isn't installed; empty if it is. `definitions`: whether a release installs the CRDs."""
        if self._charts.has(chart, version):
            return ""
        self.missing.add(chart)
        applied = self._definitions.apply_chart_definitions(chart) if definitions else []
        reason = f"chart {chart} {version} is not in the folder"
        return f"{reason}; its definitions were applied: {', '.join(applied)}" if applied else reason

    def excuse(self, error: str) -> str:
        """Return why an error doesn't count: it needs definitions of a missing chart. Empty if it counts."""
        found = {(each["kind"], each["group"]) for each in _NO_MATCH.finditer(error)}
        absent = {group: chart for chart in sorted(self.missing) for group in GROUPS.get(chart, ())}
        if not found or not absent.keys() >= {group for _, group in found}:
            return ""
        if _OTHER_ERROR.search(_NO_MATCH.sub("", error)):
            return ""
        kinds = ", ".join(f"{kind} of chart {absent[group]}" for kind, group in sorted(found))
        return f"it needs the definition of {kinds}, which is not in the folder"

    def _release_reason(self, properties: Mapping[str, Any]) -> str:
        # A chart of the assembly itself has a file and no name.
        if "Chart" not in properties:
            return ""
        skipped = bool(properties.get("SkipCrds"))
        return self._missing_chart_reason(
            properties["Chart"], str(properties.get("Version", "")), definitions=not skipped
        )


def _is_of_auto_mode(manifest: list[dict[str, Any]]) -> bool:
    """Whether an object has, or refers to, a kind that only Auto Mode has."""
    return any(EKS_DOMAIN in (_group(each), _node_class_group(each)) for each in manifest)


def _group(manifest: Mapping[str, Any]) -> str:
    return str(manifest["apiVersion"]).partition("/")[0]


def _node_class_group(manifest: Mapping[str, Any]) -> str:
    """Return the group of the node class of a NodePool; empty for any other object."""
    if manifest["kind"] != "NodePool":
        return ""
    return str(manifest["spec"]["template"]["spec"].get("nodeClassRef", {}).get("group", ""))


@contextmanager
def ended_in_order(
    notice: Callable[[str], object] = lambda name: None, *, exit_after: float | None = None
) -> Iterator[None]:
    """Leave the block with an exception on SIGTERM and SIGINT, and kill the processes that it waits for.

    Only the main thread receives signals: in any other thread, and inside another such block, nothing changes.

    Args:
        notice: Called with the name of the signal, before anything is cleaned up.
        exit_after: Seconds after which the process exits, even if the cleanup still runs. Default: never.

    Raises:
        SystemExit: The process received a signal. The exit code is 128 plus its number, as in a shell.
    """

    def end(number: int, _: FrameType | None) -> None:
        code = 128 + number
        if not processes.stopping():
            name = signal.Signals(number).name
            processes.stop_all(f"ended by {name}")
            if exit_after is not None:
                _exit_later(code, exit_after)
            notice(name)
        sys.exit(code)

    if threading.current_thread() is not threading.main_thread() or _is_inside():
        yield
        return
    before = {each: signal.signal(each, end) for each in _SIGNALS}
    _handlers.append(end)
    try:
        yield
    finally:
        _handlers.pop()
        for each, handler in before.items():
            signal.signal(each, handler)
        processes.resume()


def run(main: Callable[[], object]) -> None:
    """Call the main function of a program, and exit at once if a signal ended it.

    The interpreter would first free the objects of the simulated account, which takes seconds.
    """
    try:
        main()
    except SystemExit as ended:
        if ended.code in [128 + each for each in _SIGNALS]:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(ended.code or 0))
        raise


def _is_inside() -> bool:
    return bool(_handlers) and signal.getsignal(signal.SIGTERM) is _handlers[-1]


def _exit_later(code: int, seconds: float) -> None:
    """Exit even if a thread doesn't end: the interpreter joins some threads at exit."""
    timer = threading.Timer(seconds, lambda: os._exit(code))
    timer.daemon = True
    timer.start()


@dataclass(frozen=True, kw_only=True, slots=True)
class Props:
    """Programs and files of a play.

    Attributes:
        control_planes: Folders with etcd and the binaries of Kubernetes, by minor version.
        karpenter: Karpenter's controller binary, by version.
        charts: Folder of packed charts; ``None`` for none.
        definitions: Folder of CustomResourceDefinitions of missing charts; ``None`` for none.
    """

    control_planes: Mapping[str, Path]
    karpenter: Mapping[str, Path] = field(default_factory=dict)
    charts: Path | None = None
    definitions: Path | None = None

    def control_plane(self, template: Mapping[str, Any]) -> Path:
        """Return the binaries for the version of a template's cluster, or the newest if it sets no version.

        Raises:
            LookupError: There are no binaries of that version.
        """
        minor = find_kubernetes_version(template) or max(self.control_planes, default="")
        if minor not in self.control_planes:
            there = ", ".join(sorted(self.control_planes)) or "none"
            raise LookupError(f"its cluster has Kubernetes {minor}, and there are programs of {there}")
        return self.control_planes[minor]


class Stage:
    """The running parts of one play.

    Attributes:
        aws: AWS, simulated.
        plane: The control plane of the cluster, real.
        nodes: Nodes of the instances.
        kubelet: The kubelets of the nodes.
        internet: Hosts that a deployment fetches from.
        programs: Real programs that run as pods.
        devices: Device managers of the nodes.
        addons: Workloads of EKS add-ons.
        webhooks: Server that replaces absent admission webhooks.
        skipped: Decides which resources aren't simulated.
        pace: Factor of the usual delays.
        cluster: Name of the cluster.
        folder: Files of the play: logs, code of functions.
        daemon_sets_seen: DaemonSets that had a ready pod on a node that was removed since.
    """

    def __init__(
        self,
        *,
        aws: Aws,
        plane: ControlPlane,
        nodes: Nodes,
        kubelet: Kubelet,
        internet: Internet,
        programs: Programs,
        devices: Devices,
        addons: Addons,
        pace: float,
        authority: Authority,
        skipped: SkippedResources,
        webhooks: Webhooks,
        cluster: str,
        folder: Path,
    ) -> None:
        self.aws, self.plane, self.nodes, self.kubelet = aws, plane, nodes, kubelet
        self.devices, self.addons, self.pace = devices, addons, pace
        self.internet, self.programs, self.cluster, self.folder = internet, programs, cluster, folder
        self._authority, self.skipped, self.webhooks = authority, skipped, webhooks
        self.stacks: dict[str, Stack] = {}
        self.daemon_sets_seen: set[str] = set()
        self._tries: Counter[str] = Counter()

    @property
    def client(self) -> Client:
        """A client with the rights of an administrator."""
        return self.plane.client

    def stopped(self) -> str:
        """Return why waiting makes no sense: a signal, or a controller that keeps crashing. Empty otherwise."""
        loops = sorted(self.kubelet.crash_loops.items())
        return processes.stopping() or "; ".join(f"pod {name}: {why}" for name, why in loops)

    def deploy(self, assembly: Assembly, *, fails: Mapping[str, str] | None = None) -> list[Event]:
        """Create a stack, and return the final event of each resource. Deploy the stacks that it needs first.

        Args:
            assembly: The stack. An earlier stack of the same name must have been rolled back.
            fails: Why resources fail after they were created, by logical id. The stack is rolled back then. Default:
                none, and a failed stack isn't rolled back.
        """
        tries, failures = self._tries[assembly.stack], fails or {}
        self._tries[assembly.stack] += 1
        _create_principals(self.aws, assembly)
        exports = {name: value for each in self.stacks.values() for name, value in each.exports.items()}
        stack = Stack(
            assembly.template,
            name=assembly.stack,
            assembly=assembly.folder,
            aws=self.aws,
            exports=exports,
            others={name: each.outputs for name, each in self.stacks.items()},
            environment=self.internet.environment(),
            authority=self._authority,
            skip=self.skipped,
            excuse=self.skipped.excuse,
            stopped=self.stopped,
            replaces=replacement_properties,
            folder=self.folder / f"{assembly.stack}{tries or ''}",
            fails=lambda logical_id: failures.get(logical_id, ""),
            tries=tries,
        )
        self.stacks[assembly.stack] = stack
        return stack.create(rollback=bool(failures))

    def update(self, assembly: Assembly) -> list[Event]:
        """Update a stack that `deploy` created, and return the final event of each changed resource."""
        _create_principals(self.aws, assembly)
        stack = self.stacks[assembly.stack]
        others = [each for each in self.stacks.values() if each is not stack]
        return stack.update(
            assembly.template,
            assembly=assembly.folder,
            exports={name: value for each in others for name, value in each.exports.items()},
            others={name: each.outputs for name, each in self.stacks.items() if each is not stack},
        )


@contextmanager
def stage(assembly: Assembly, props: Props, *, pace: float = PACE) -> Iterator[Stage]:
    """Start the environment of a play, and stop it afterwards.

    Args:
        assembly: The stack, or the first of several that share a cluster.
        props: Programs and files.
        pace: How long delays of machines and images are, against those that AWS usually has.

    Raises:
        LookupError: The stack creates no cluster, needs more existing resources than a network, or there are no
            binaries for its Kubernetes version.
    """
    cluster, network = find_cluster_name(assembly.template), find_network(assembly.template)
    with ended_in_order(), ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(prefix="gpu-constructs-rehearsal-")))
        authority = Authority(folder)
        account = assembly.account or find_account(assembly.template)
        aws = running.enter_context(Aws(region=assembly.region, account=account))
        bootstrap(aws)
        if network:
            aws.create_existing_network(vpc=network.vpc, in_zones=network.subnets)
        charts = Charts(props.charts)
        hosts = running.enter_context(Internet(charts, authority))
        webhook = running.enter_context(Authenticator(aws, cluster=cluster))
        plane = running.enter_context(
            control_plane(props.control_plane(assembly.template), authenticator=webhook.address, audit=True)
        )
        webhook.client = plane.client
        aws.serve_cluster(cluster, endpoint=plane.address, certificate_authority=plane.certificate_authority)
        programs = Programs.built(karpenter=props.karpenter)
        starter = Starter(programs, plane.client, aws, cluster=cluster, folder=folder, pace=pace)
        nodes = running.enter_context(Nodes(aws, plane.client, cluster=cluster, pace=pace, network=NETWORK))
        aws.nodes = nodes.outcome
        devices = Devices(plane.client, nodes.joined, nodes.instances, pace=pace)
        kubelet = Kubelet(
            plane.client, nodes.joined, starter=starter, rejection_reason=devices.rejection_reason, pace=pace
        )
        running.enter_context(kubelet)
        running.enter_context(devices)
        addons = running.enter_context(Addons(aws, plane.client, cluster=cluster))
        webhooks = running.enter_context(Webhooks(plane.client, authority))
        yield Stage(
            aws=aws,
            plane=plane,
            nodes=nodes,
            kubelet=kubelet,
            internet=hosts,
            programs=programs,
            devices=devices,
            addons=addons,
            pace=pace,
            authority=authority,
            skipped=SkippedResources(charts, Definitions(props.definitions, plane.client)),
            webhooks=webhooks,
            cluster=cluster,
            folder=folder,
        )


def _create_principals(aws: Aws, assembly: Assembly) -> None:
    """Create the roles and users that have access entries in a stack and that it doesn't create."""
    iam = aws.client("iam")
    statement = {
        "Effect": "Allow",
        "Action": "sts:AssumeRole",
        "Principal": {"AWS": f"arn:aws:iam::{aws.account}:root"},
    }
    trust = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    for each in find_principals(assembly.template, aws.account):
        with suppress(iam.exceptions.EntityAlreadyExistsException):
            if each.kind == "user":
                iam.create_user(UserName=each.name, Path=each.path)
            else:
                iam.create_role(
                    RoleName=each.name, Path=each.path, AssumeRolePolicyDocument=trust, Description=PREEXISTING
                )

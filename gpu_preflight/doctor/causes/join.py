"""Why an instance that runs is no Ready node: its role, its way to the API server, its user data, its network plugin.

EKS reports only that instances didn't join. The reasons are in other answers of AWS, which are compared here.
Sources: https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html,
https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html (2026-11), amazon-eks-ami 2026-07, nodeadm
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import suppress
from shlex import quote
from typing import Any

from gpu_facts.charts import AWS_NODE
from gpu_facts.kubernetes import KUBE_SYSTEM
from gpu_facts.light import dataclass, regex
from gpu_preflight.doctor.capacity import (
    Group,
    claims,
    fitting_groups,
    instance_id,
    instances,
    is_ready,
    joining_nodes,
    needs_node,
    node_pools,
)
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import Live, Target, title
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, items, mapping, mappings

_NO_NETWORK = ("cni plugin not initialized", "NetworkPluginNotReady", "cni config uninitialized")
_NO_ADDRESSES = ("InsufficientFreeAddresses", "failed to assign an IP", "no available IP", "get a free IP")
_CONSOLE = (
    "could not find NodeConfig within UserData",
    "Apiserver endpoint is missing in cluster configuration",
    "CIDR is missing in cluster configuration",
    "failed to decode node config",
    "/etc/eks/bootstrap.sh: No such file or directory",
)
# Services that a node without a way to the internet reaches by VPC endpoints.
_SERVICES = ("ec2", "ecr.api", "ecr.dkr", "s3", "sts")
_ROUTE_TARGETS = ("NatGatewayId", "TransitGatewayId", "NetworkInterfaceId", "VpcPeeringConnectionId", "GatewayId")
# Names of roles at the end of their ARNs.
_ROLE_NAMES = regex(r"/([\w+=,.@-]+)(?![\w+=,.@/-])")
_USUAL_SECONDS = 300
_TROUBLE = "https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html"
_STATUS_CHECKS = "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-system-instance-status-check.html"
_CLUSTER = "aws eks describe-cluster"


@dataclass(frozen=True, slots=True)
class _Unjoined:
    """The instances of a pool that run without a Node, and the configuration that they share."""

    subject: str
    role: str = ""
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    instances: tuple[Mapping[str, Any], ...] = ()
    ids: tuple[str, ...] = ()


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod whose node isn't ready, or whose new instance doesn't become a node."""
    yield from _network(live, target)
    if not needs_node(live, target):
        return
    unjoined = list(_karpenter_instances(live, target))
    for group in fitting_groups(live, target):
        lone, issues = _lone_instances(live, group), mappings(dig(group.managed, "health", "issues"))
        named = {str(each.get("code")): each for each in issues}
        failed, denied = named.get("NodeCreationFailure"), named.get("AccessDenied")
        if failed is None and denied is None and (not lone or live.certainty("Node") is None):
            continue
        ids = tuple(str(each.get("InstanceId")) for each in lone) or tuple(map(str, items(dig(failed, "resourceIds"))))
        role = str(group.managed.get("nodeRole") or "")
        unjoined.append(_Unjoined(group.title, role, group.subnets, (), tuple(lone), ids))
        yield from _join_failures(group, lone, ids, failed, denied)
    for each in unjoined:
        for reason in (_role, _route, _security_groups, _console, _status_checks):
            yield from reason(live, each)


def _lone_instances(live: Live, group: Group) -> list[Mapping[str, Any]]:
    """Return the instances of a group that run for some minutes without a Node."""
    joined = {instance_id(each) for each in live.nodes}
    return [
        each
        for each, tags in instances(live)
        if group.has_instance(tags)
        and each.get("InstanceId") not in joined
        and dig(each, "State", "Name") == "running"
        and (live.seconds_since(parse_time(each.get("LaunchTime"))) or 0) > _USUAL_SECONDS
    ]


def _join_failures(
    group: Group,
    lone: list[Mapping[str, Any]],
    ids: tuple[str, ...],
    failed: Mapping[str, Any] | None,
    denied: Mapping[str, Any] | None,
) -> Iterator[Cause]:
    """J1, and J2 if EKS reports it."""
    source, since = f"EKS {group.title}", str(lone[0].get("LaunchTime")) if lone else ""
    shown = [Evidence(source, "health.issues[NodeCreationFailure]", str(failed.get("message")))] if failed else []
    shown += [Evidence(f"Instance {each}", "State.Name", "running, without a Node", since) for each in ids[:3] if lone]
    if shown:
        message = f"Instance {ids[0] if ids else '(unknown)'} of {group.title} runs and doesn't join the cluster"
        confidence: Confidence = "proven" if failed is not None else "likely"
        command = f"aws ec2 get-console-output --latest --instance-id {quote(ids[0])}" if ids else ""
        fix = "read the console output of the instance, and check its role, routes and security groups"
        clock = Clock("EKS reports instances that don't join", since, "about 15 minutes", _TROUBLE)
        yield Cause("J1", group.title, message, confidence, tuple(shown), fix, command, clock=clock)
    if denied is not None:
        message = f"{group.title} has nodes that aren't authorized in the cluster: {denied.get('message')}"
        fix = "give the node role an access entry of type EC2_LINUX"
        issue = (Evidence(source, "health.issues[AccessDenied]", str(denied.get("message"))),)
        yield Cause("J2", group.title, message, "likely", issue, fix)


def _karpenter_instances(live: Live, target: Target) -> Iterator[_Unjoined]:
    """The instances of NodeClaims that don't register, which Karpenter reports itself."""
    for claim in claims(live, target):
        registered, launched = live.condition(claim, "Registered"), live.condition(claim, "Launched")
        is_old = (live.seconds_since(live.created(claim)) or 0) > _USUAL_SECONDS
        is_launched = launched is not None and launched.status == "True"
        if is_old and is_launched and registered is not None and registered.status != "True":
            yield _with_class(live, claim, instance_id(claim))
            return
    for pool in node_pools(live, target):
        health = live.condition(pool, "NodeRegistrationHealthy")
        if health is not None and health.reason == "RegistrationFailed":
            yield _with_class(live, pool, "")


def _with_class(live: Live, of: Object, instance: str) -> _Unjoined:
    ref = mapping(of.spec.get("nodeClassRef") or dig(of.spec, "template", "spec", "nodeClassRef"))
    found = live.object(str(ref.get("kind")), str(ref.get("name")))
    if found is None:
        return _Unjoined(title(of), ids=(instance,))
    status = mapping(found.content.get("status"))
    subnets, security_groups = (
        tuple(str(each.get("id")) for each in mappings(status.get(part))) for part in ("subnets", "securityGroups")
    )
    own = tuple(each for each, _ in instances(live) if each.get("InstanceId") == instance)
    return _Unjoined(title(of), str(found.spec.get("role") or ""), subnets, security_groups, own, (instance,))


def _cluster(live: Live) -> Mapping[str, Any]:
    return next(iter(mappings(live.aws("cluster"))), {})


def _role(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    """J2: neither an access entry nor aws-auth names the role of the nodes."""
    name, mode = unjoined.role.rpartition("/")[2], dig(_cluster(live), "accessConfig", "authenticationMode")
    if not name:
        return
    listed = [str(each) for each in live.aws("accessEntries")] if "accessEntries" in live.dump.aws else None
    found = live.config_map("aws-auth")
    roles = str(dig(found.content, "data", "mapRoles") or "") if found is not None else None
    if f"{KUBE_SYSTEM}/aws-auth" in live.dump.absent:
        roles = ""
    has_entry = None if listed is None else any(each.rpartition("/")[2] == name for each in listed)
    is_mapped = None if roles is None else name in _ROLE_NAMES.findall(roles)
    needed = {"API": [has_entry], "CONFIG_MAP": [is_mapped]}.get(str(mode), [has_entry, is_mapped])
    shown = [Evidence("aws eks list-access-entries", "accessEntries", ", ".join(listed or ()))] if listed else []
    shown += (
        [Evidence("ConfigMap kube-system/aws-auth", "data.mapRoles", f"without {name}")] if roles is not None else []
    )
    shown += [Evidence(_CLUSTER, "accessConfig.authenticationMode", str(mode))] if mode else []
    types = [
        each.get("type") for each in mappings(live.aws("accessEntry")) if f"/{name}" in str(each.get("principalArn"))
    ]
    wrong = [str(each) for each in types if each not in ("EC2_LINUX", "EC2_WINDOWS", "EC2")]
    cluster, command = str(_cluster(live).get("name") or ""), ""
    if cluster and unjoined.role.startswith("arn:") and mode != "CONFIG_MAP":
        options = f"--cluster-name {quote(cluster)} --principal-arn {quote(unjoined.role)} --type EC2_LINUX"
        command = f"aws eks create-access-entry {options}"
    if all(each is False for each in needed):
        message = (
            f"Role {name} of {unjoined.subject} has no access to the cluster: no access entry or aws-auth names it"
        )
        fix = "add the role to mapRoles of aws-auth" if mode == "CONFIG_MAP" else "create an access entry for the role"
        yield Cause("J2", unjoined.subject, message, "likely", tuple(shown), fix, command)
    elif wrong and is_mapped is not True:
        message = f"Role {name} of {unjoined.subject} has an access entry of type {wrong[0]}, not EC2_LINUX"
        entry = (Evidence("aws eks describe-access-entry", "accessEntry.type", wrong[0]),)
        yield Cause("J2", unjoined.subject, message, "likely", entry, "recreate the entry with type EC2_LINUX")


def _default_route(live: Live, subnet: str) -> str | None:
    """Return the target of the default route of a subnet; empty without one, ``None`` if it isn't known."""
    vpcs = {str(each.get("SubnetId")): each.get("VpcId") for each in mappings(live.aws("Subnets"))}
    tables = mappings(live.aws("RouteTables"))
    links = [(each, one) for each in tables for one in mappings(each.get("Associations"))]
    own = [each for each, one in links if one.get("SubnetId") == subnet]
    main = [each for each, one in links if one.get("Main") is True and each.get("VpcId") == vpcs.get(subnet)]
    if not (table := next(iter((*own, *main)), None)):
        return None
    for route in mappings(table.get("Routes")):
        if route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State") != "blackhole":
            return next((str(route[each]) for each in _ROUTE_TARGETS if route.get(each)), "unknown")
    return ""


def _route(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    """J3 and J4: the subnets have no way to the API server or to AWS."""
    subject, cluster = unjoined.subject, _cluster(live)
    vpc = mapping(cluster.get("resourcesVpcConfig"))
    isolated: dict[str, str] = {}
    used = tuple(str(each["SubnetId"]) for each in unjoined.instances if each.get("SubnetId")) or unjoined.subnets
    has_address = any(each.get("PublicIpAddress") for each in unjoined.instances)
    for subnet in used:
        if (way := _default_route(live, subnet)) == "":
            isolated[subnet] = "no default route"
        elif way is not None and way.startswith("igw-") and unjoined.instances and not has_address:
            isolated[subnet] = "an internet gateway, and the instance has no public address"
    shown = [Evidence(f"Subnet {each}", "route 0.0.0.0/0", why) for each, why in isolated.items()][:3]
    if vpc.get("endpointPrivateAccess") is False:
        cidrs = [str(each) for each in items(vpc.get("publicAccessCidrs"))]
        endpoint = Evidence(_CLUSTER, "resourcesVpcConfig.endpointPrivateAccess", "false")
        options = f"--name {quote(str(cluster.get('name')))} --resources-vpc-config endpointPrivateAccess=true"
        fix, command = "enable private access of the endpoint", f"aws eks update-cluster-config {options}"
        if isolated:
            subnet, why = next(iter(isolated.items()))
            message = (
                f"{subject} can't reach the API server: its endpoint is only public, and subnet {subnet} has {why}"
            )
            yield Cause("J3", subject, message, "likely", (endpoint, *shown), fix, command)
        elif cidrs and "0.0.0.0/0" not in cidrs:
            allowed = ", ".join(cidrs)
            message = f"{subject} may not reach the API server: its endpoint is only public and accepts only {allowed}"
            listed = Evidence(_CLUSTER, "resourcesVpcConfig.publicAccessCidrs", allowed)
            yield Cause("J3", subject, message, "possible", (endpoint, listed), fix, command)
    elif isolated:
        names = [str(each.get("ServiceName")) for each in mappings(live.aws("VpcEndpoints"))]
        have = {each.partition("amazonaws.")[2].partition(".")[2] for each in names}
        missing = [each for each in _SERVICES if each not in have]
        if missing:
            lacking = f"the VPC lacks endpoints for {', '.join(missing)}"
            message = f"{subject} has subnets without a way to the internet, and {lacking}"
            found = Evidence("aws ec2 describe-vpc-endpoints", "ServiceName", ", ".join(sorted(have)) or "none")
            confidence: Confidence = "likely" if "VpcEndpoints" in live.dump.aws else "possible"
            fix = "create the endpoints, or a route to a NAT gateway"
            yield Cause("J4", subject, message, confidence, (*shown, found), fix)


def _security_groups(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    """J5: no security group of the API server admits the instance to port 443."""
    vpc = mapping(_cluster(live).get("resourcesVpcConfig"))
    server = {str(each) for each in (vpc.get("clusterSecurityGroupId"), *items(vpc.get("securityGroupIds"))) if each}
    every = {str(each.get("GroupId")): each for each in mappings(live.aws("SecurityGroups"))}
    given = [str(one.get("GroupId")) for each in unjoined.instances for one in mappings(each.get("SecurityGroups"))]
    own, is_known = set(given or unjoined.security_groups), server <= set(every)
    if not server or not own or (own & server and not is_known):
        return
    is_admitted = is_known and any(_admits(every[each], own) for each in server)
    is_open = not own <= set(every) or any(mappings(every[each].get("IpPermissionsEgress")) for each in own)
    if not is_admitted or not is_open:
        listed = ", ".join(sorted(own))
        what = "allow no outgoing traffic" if is_admitted else f"aren't admitted by {' or '.join(sorted(server))}"
        message = f"Security groups {listed} of {unjoined.subject} {what}, so nodes can't reach port 443"
        place = "resourcesVpcConfig.clusterSecurityGroupId"
        instance = Evidence("aws ec2 describe-instances", "SecurityGroups", listed)
        shown = (instance, Evidence(_CLUSTER, place, ", ".join(sorted(server))))
        fix = "add the cluster security group to the nodes"
        yield Cause("J5", unjoined.subject, message, "likely" if is_known else "possible", shown, fix)


def _admits(group: Mapping[str, Any], sources: set[str]) -> bool:
    for rule in mappings(group.get("IpPermissions")):
        first, last = rule.get("FromPort"), rule.get("ToPort")
        has_port = isinstance(first, int) and isinstance(last, int) and first <= 443 <= last
        named = {str(each.get("GroupId")) for each in mappings(rule.get("UserIdGroupPairs"))}
        is_source = bool(named & sources or rule.get("IpRanges") or rule.get("PrefixListIds"))
        if is_source and (has_port or rule.get("IpProtocol") == "-1"):
            return True
    return False


def _console(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    """J6: errors of nodeadm in the console output."""
    for output in live.aws("Output"):
        text = str(output)
        with suppress(ValueError):
            text += b64decode(text, validate=True).decode(errors="replace")
        for line in text.splitlines():
            if part := next((each for each in _CONSOLE if each in line), None):
                message = f"{unjoined.subject} has wrong user data: {part}"
                fix = "write a NodeConfig for nodeadm into the user data, with cluster name, endpoint, CA and CIDR"
                shown = (Evidence("aws ec2 get-console-output", "Output", line.strip()[:300]),)
                yield Cause("J6", unjoined.subject, message, "likely", shown, fix)
                return


def _status_checks(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    clock = Clock("the status checks pass", "", "more than 10 minutes on P5 and metal types", _STATUS_CHECKS)
    for each in mappings(live.aws("InstanceStatuses")):
        states = {str(dig(each, part, "Status")) for part in ("InstanceStatus", "SystemStatus")}
        state = next((one for one in ("impaired", "initializing") if one in states), None)
        if state is not None and each.get("InstanceId") in unjoined.ids:
            is_slow, subject = state == "initializing", f"Instance {each.get('InstanceId')}"
            message = f"{subject} of {unjoined.subject} {'still boots' if is_slow else 'fails its status checks'}"
            fix, shown = "terminate it, so that it is replaced", (Evidence(subject, "InstanceStatus.Status", state),)
            waits = clock if is_slow else None
            yield Cause("J10", subject, message, "likely", shown, "wait" if is_slow else fix, clock=waits)


def _network(live: Live, target: Target) -> Iterator[Cause]:
    """J8 and J9: the network plugin of a node that the pod has or could use."""
    own, nodes = live.node(target), joining_nodes(live, target)
    if own is not None and target.pod is not None and live.object_events(target.pod, reason="FailedCreatePodSandBox"):
        nodes += [own] if is_ready(live, own) else []
    for node in nodes:
        agents = [each for each in live.pods_by_node.get(node.name, ()) if each.name.startswith(AWS_NODE)]
        yield from _addresses(live, node, agents)
        ready = live.condition(node, "Ready")
        if ready is None or ready.status != "False" or not any(each in ready.message for each in _NO_NETWORK):
            continue
        shown, why = [live.condition_evidence(node, ready)], "its pod reports no fault"
        if not agents:
            why = f"no pod of the VPC CNI {'runs on it' if live.certainty('Pod') is not None else 'is in the dump'}"
        for pod, one in [(agent, one) for agent in agents for one in live.containers(agent)]:
            if not (state := one.waiting or one.last_ended):
                continue
            why = f"container {one.name} of pod {pod.name} is in {state}"
            shown.append(Evidence(pod.title, f"status.containerStatuses[{one.name}]", state))
        message = f"{title(node)} has no ready network plugin: {why}"
        command = "kubectl get daemonset -n kube-system aws-node"
        if agents:
            command = f"kubectl logs -n {quote(agents[0].namespace)} {quote(agents[0].name)} --all-containers"
        yield Cause("J8", title(node), message, "proven", tuple(shown), "repair the VPC CNI on the node", command)


def _addresses(live: Live, node: Object, agents: list[Object]) -> Iterator[Cause]:
    networking = live.condition(node, "NetworkingReady")
    shown = []
    if networking is not None and networking.status == "False" and "IPAMDNoIPs" in str(networking):
        shown.append(live.condition_evidence(node, networking))
    is_reported = bool(shown)
    for pod in agents:
        every = list(live.log_lines(pod, *_NO_ADDRESSES))
        shown += [Evidence(f"log {pod.name}/{container}", "", line[:300]) for container, line in every[:1]]
    if shown:
        full = [each for each in mappings(live.aws("Subnets")) if each.get("AvailableIpAddressCount") == 0]
        shown += [Evidence(f"Subnet {each.get('SubnetId')}", "AvailableIpAddressCount", "0") for each in full[:3]]
        message = f"{title(node)} gets no addresses for pods from its subnet"
        fix = "use subnets with free addresses, or enable prefix delegation or custom networking"
        yield Cause("J9", title(node), message, "proven" if is_reported else "likely", tuple(shown), fix)

"""Why an instance that runs is no Ready node: its role, its way to the API server, its user data and its network plugin.

EKS reports only that instances didn't join. The reasons are in other answers of AWS, which are compared here.
Sources: https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html,
https://docs.aws.amazon.com/eks/latest/userguide/private-clusters.html (2026-11), amazon-eks-ami 2026-07, nodeadm
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error
from collections.abc import Iterator, Mapping
from dataclasses import field
from shlex import quote
from typing import Any

from gpu_facts.light import dataclass, regex
from gpu_preflight.doctor.capacity import (
    Group,
    claims,
    fitting_groups,
    instance_id,
    is_ready,
    joining_nodes,
    needs_node,
    node_pools,
)
from gpu_preflight.doctor.cause import Cause, Clock, Confidence, Evidence
from gpu_preflight.doctor.dump import parse_time
from gpu_preflight.doctor.live import Live, Target
from gpu_preflight.reading.objects import Object
from gpu_preflight.reading.unknown import dig, mapping, mappings

_NO_NETWORK = ("cni plugin not initialized", "NetworkPluginNotReady", "cni config uninitialized")
_NO_ADDRESSES = (
    "InsufficientFreeAddresses",
    "failed to assign an IP address",
    "no available IP",
    "IPAMDNoIPs",
    "Unable to get a free IP",
)
_CONSOLE = (
    "could not find NodeConfig within UserData",
    "Apiserver endpoint is missing in cluster configuration",
    "CIDR is missing in cluster configuration",
    "failed to decode node config",
    "/etc/eks/bootstrap.sh: No such file or directory",
)
# Services that a node without a way to the internet reaches by VPC endpoints.
_SERVICES = ("ec2", "ecr.api", "ecr.dkr", "s3", "sts")
_USUAL_SECONDS = 300
_EKS_TIMEOUT = "https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html"


@dataclass(slots=True)
class _Unjoined:
    """The instances of a pool that run without a Node, and the configuration that they share."""

    subject: str
    roles: tuple[str, ...] = ()
    subnets: tuple[str, ...] = ()
    security_groups: tuple[str, ...] = ()
    instances: list[Mapping[str, Any]] = field(default_factory=list)
    ids: tuple[str, ...] = ()
    causes: list[Cause] = field(default_factory=list)


def find(live: Live, target: Target) -> Iterator[Cause]:
    """Yield the causes of a pod whose node isn't ready, or whose new instance doesn't become a node."""
    yield from _network(live, target)
    if not needs_node(live, target):
        return
    every = [*(_of_group(live, each) for each in fitting_groups(live, target)), *_of_karpenter(live, target)]
    for each in every:
        if each is None:
            continue
        yield from each.causes
        yield from _role(live, each)
        yield from _route(live, each)
        yield from _security_groups(live, each)
        yield from _console(live, each)
        yield from _status_checks(live, each)


def _instances(live: Live) -> list[Mapping[str, Any]]:
    return [one for each in mappings(live.aws("Reservations")) for one in mappings(each.get("Instances"))]


def _of_group(live: Live, group: Group) -> _Unjoined | None:
    """J1 for a node group: the report of EKS, and instances without a Node."""
    joined = {instance_id(each) for each in live.nodes}
    own = []
    for each in _instances(live):
        tags = {str(one.get("Key")): str(one.get("Value")) for one in mappings(each.get("Tags"))}
        named = group.name == tags.get("eks:nodegroup-name") or (
            group.scaling_group and group.scaling_group == tags.get("aws:autoscaling:groupName")
        )
        age = live.seconds_since(parse_time(each.get("LaunchTime"))) or 0
        is_lone = each.get("InstanceId") not in joined and dig(each, "State", "Name") == "running"
        if named and is_lone and age > _USUAL_SECONDS:
            own.append(each)
    issues = {str(each.get("code")): each for each in mappings(dig(group.managed, "health", "issues"))}
    failed, denied = issues.get("NodeCreationFailure"), issues.get("AccessDenied")
    certainty = live.certainty("Node")
    if failed is None and denied is None and (not own or certainty is None):
        return None
    ids = tuple(str(each.get("InstanceId")) for each in own) or tuple(map(str, (failed or {}).get("resourceIds") or ()))
    shown = [
        Evidence(f"EKS {group.title}", f"health.issues[{each.get('code')}]", str(each.get("message")))
        for each in (failed, denied)
        if each
    ]
    shown += [
        Evidence(
            f"Instance {each.get('InstanceId')}", "State.Name", "running, without a Node", str(each.get("LaunchTime"))
        )
        for each in own[:3]
    ]
    listed = f"Instance {ids[0]}" if ids else "An instance"
    message = f"{listed} of {group.title} runs and doesn't join the cluster"
    confidence: Confidence = "proven" if failed is not None else "likely"
    command = f"aws ec2 get-console-output --latest --instance-id {quote(ids[0])}" if ids else ""
    fix = "Read the console output of the instance, and check its role, routes and security groups"
    clock = Clock(
        "EKS reports NodeCreationFailure",
        str(own[0].get("LaunchTime")) if own else "",
        "about 15 minutes",
        _EKS_TIMEOUT,
    )
    found = _Unjoined(
        group.title,
        (str(group.managed["nodeRole"]),) if group.managed.get("nodeRole") else (),
        group.subnets,
        (),
        own,
        ids,
    )
    found.causes.append(Cause("J1", group.title, message, confidence, tuple(shown), fix, command, clock=clock))
    if denied is not None:
        message = f"The nodes of {group.title} aren't authorized in the cluster: {denied.get('message')}"
        found.causes.append(
            Cause(
                "J2",
                group.title,
                message,
                "likely",
                (shown[-1] if failed is None else shown[1],),
                "Give the node role an access entry of type EC2_LINUX",
            )
        )
    return found


def _of_karpenter(live: Live, target: Target) -> Iterator[_Unjoined]:
    """The instances of NodeClaims that don't register, which Karpenter reports itself."""
    pools = {each.name: each for each in node_pools(live, target)}
    for claim in claims(live, target):
        registered, launched = live.condition(claim, "Registered"), live.condition(claim, "Launched")
        old = (live.seconds_since(live.created(claim)) or 0) > _USUAL_SECONDS
        if (
            registered is None
            or registered.status == "True"
            or not old
            or launched is None
            or launched.status != "True"
        ):
            continue
        yield _with_class(live, claim.title, claim, instance_id(claim))
        return
    for pool in pools.values():
        health = live.condition(pool, "NodeRegistrationHealthy")
        if health is not None and health.reason == "RegistrationFailed":
            yield _with_class(live, pool.title, pool, "")


def _with_class(live: Live, subject: str, of: Object, instance: str) -> _Unjoined:
    ref = mapping(of.spec.get("nodeClassRef") or dig(of.spec, "template", "spec", "nodeClassRef"))
    found = live.object(str(ref.get("kind")), str(ref.get("name")))
    status = mapping(found.content.get("status")) if found is not None else {}
    role = str(found.spec.get("role") or "") if found is not None else ""
    own = [each for each in _instances(live) if each.get("InstanceId") == instance]
    return _Unjoined(
        subject,
        (role,) if role else (),
        tuple(str(each.get("id")) for each in mappings(status.get("subnets"))),
        tuple(str(each.get("id")) for each in mappings(status.get("securityGroups"))),
        own,
        (instance,) if instance else (),
    )


def _cluster(live: Live) -> Mapping[str, Any]:
    return next(iter(mappings(live.aws("cluster"))), {})


def _role(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    """J2: neither an access entry nor aws-auth names the role of the nodes."""
    mode = str(dig(_cluster(live), "accessConfig", "authenticationMode") or "")
    entries = [str(each) for each in live.aws("accessEntries")] if "accessEntries" in live.dump.aws else None
    found = live.config_map("aws-auth")
    mapped = str(dig(found.content, "data", "mapRoles") or "") if found is not None else None
    for role in unjoined.roles:
        name = role.rpartition("/")[2]
        typed = [
            each for each in mappings(live.aws("accessEntry")) if str(each.get("principalArn")).endswith(f"/{name}")
        ]
        wrong = [str(each.get("type")) for each in typed if each.get("type") not in ("EC2_LINUX", "EC2_WINDOWS", "EC2")]
        has_entry = None if entries is None else any(each.rpartition("/")[2] == name for each in entries)
        is_mapped = None if mapped is None else regex(rf"[/:]{_escape(name)}\s").search(f"{mapped} ") is not None
        checks = {"API": (has_entry,), "CONFIG_MAP": (is_mapped,)}.get(mode, (has_entry, is_mapped))
        shown = (
            [Evidence("aws eks list-access-entries", "accessEntries", ", ".join(entries or ()) or "[]")]
            if has_entry is False
            else []
        )
        shown += (
            [Evidence("ConfigMap kube-system/aws-auth", "data.mapRoles", f"without {name}")]
            if is_mapped is False
            else []
        )
        shown += [Evidence("aws eks describe-cluster", "accessConfig.authenticationMode", mode)] if mode else []
        cluster = quote(str(_cluster(live).get("name") or ""))
        command = (
            f"aws eks create-access-entry --cluster-name {cluster} --principal-arn {quote(role)} --type EC2_LINUX"
            if role.startswith("arn:") and cluster != "''" and mode != "CONFIG_MAP"
            else ""
        )
        fix = (
            "Give the role an access entry of type EC2_LINUX"
            if mode != "CONFIG_MAP"
            else "Add the role to mapRoles of the ConfigMap aws-auth"
        )
        if all(each is False for each in checks):
            message = f"Role {name} of {unjoined.subject} isn't authorized in the cluster: no access entry or aws-auth names it"
            yield Cause("J2", unjoined.subject, message, "likely", tuple(shown), fix, command)
        elif wrong and is_mapped is not True:
            message = (
                f"The access entry of role {name} of {unjoined.subject} has type {wrong[0]}, and nodes need EC2_LINUX"
            )
            yield Cause(
                "J2",
                unjoined.subject,
                message,
                "likely",
                (Evidence("aws eks describe-access-entry", "type", wrong[0]),),
                "Recreate the access entry with type EC2_LINUX",
            )


def _escape(name: str) -> str:
    return "".join(each if each.isalnum() else f"\\{each}" for each in name)


def _default_route(live: Live, subnet: str) -> str | None:
    """Return the target of the default route of a subnet; empty without one, ``None`` if it isn't known."""
    vpcs = {each.get("SubnetId"): each.get("VpcId") for each in mappings(live.aws("Subnets"))}
    tables = mappings(live.aws("RouteTables"))
    links = [(each, one) for each in tables for one in mappings(each.get("Associations"))]
    own = [each for each, one in links if one.get("SubnetId") == subnet]
    main = [each for each, one in links if one.get("Main") is True and each.get("VpcId") == vpcs.get(subnet)]
    table = next(iter((*own, *main)), None)
    if table is None:
        return None
    for route in mappings(table.get("Routes")):
        if route.get("DestinationCidrBlock") == "0.0.0.0/0" and route.get("State") != "blackhole":
            keys = ("NatGatewayId", "TransitGatewayId", "NetworkInterfaceId", "VpcPeeringConnectionId", "GatewayId")
            return next((str(route[each]) for each in keys if route.get(each)), "unknown")
    return ""


def _route(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    """J3 and J4: the subnets have no way to the API server or to AWS."""
    vpc = mapping(_cluster(live).get("resourcesVpcConfig"))
    used = tuple(str(each["SubnetId"]) for each in unjoined.instances if each.get("SubnetId")) or unjoined.subnets
    isolated = {}
    for subnet in used:
        way = _default_route(live, subnet)
        addressed = [
            each for each in unjoined.instances if each.get("SubnetId") == subnet and each.get("PublicIpAddress")
        ]
        if way == "" or (way is not None and way.startswith("igw-") and unjoined.instances and not addressed):
            isolated[subnet] = (
                "no default route" if way == "" else "an internet gateway, and the instance has no public address"
            )
    shown = [Evidence(f"Subnet {each}", "route 0.0.0.0/0", why) for each, why in isolated.items()][:3]
    cidrs = [str(each) for each in vpc.get("publicAccessCidrs") or ()]
    is_private = vpc.get("endpointPrivateAccess")
    endpoint = Evidence("aws eks describe-cluster", "resourcesVpcConfig.endpointPrivateAccess", str(is_private).lower())
    command = f"aws eks update-cluster-config --name {quote(str(_cluster(live).get('name')))} --resources-vpc-config endpointPrivateAccess=true"
    if is_private is False and isolated:
        message = f"The instances of {unjoined.subject} can't reach the API server: its endpoint is only public, and subnet {next(iter(isolated))} has {next(iter(isolated.values()))}"
        yield Cause(
            "J3",
            unjoined.subject,
            message,
            "likely",
            (endpoint, *shown),
            "Enable private access of the endpoint",
            command,
        )
    elif is_private is False and cidrs and "0.0.0.0/0" not in cidrs:
        message = f"The endpoint of the API server is only public and accepts {', '.join(cidrs)}, which may lack the NAT gateway of {unjoined.subject}"
        listed = Evidence("aws eks describe-cluster", "resourcesVpcConfig.publicAccessCidrs", ", ".join(cidrs))
        yield Cause(
            "J3",
            unjoined.subject,
            message,
            "possible",
            (endpoint, listed),
            "Enable private access of the endpoint",
            command,
        )
    elif isolated:
        known = "VpcEndpoints" in live.dump.aws
        have = {
            str(each.get("ServiceName")).partition("amazonaws.")[2].partition(".")[2]
            for each in mappings(live.aws("VpcEndpoints"))
            if each.get("State", "available") == "available"
        }
        missing = [each for each in _SERVICES if each not in have]
        if missing:
            message = f"The subnets of {unjoined.subject} have no way to the internet, and the VPC lacks endpoints for {', '.join(missing)}"
            found = Evidence("aws ec2 describe-vpc-endpoints", "ServiceName", ", ".join(sorted(have)) or "none")
            yield Cause(
                "J4",
                unjoined.subject,
                message,
                "likely" if known else "possible",
                (*shown, found),
                "Create the endpoints, or a route to a NAT gateway",
            )


def _security_groups(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    """J5: no security group of the API server admits the instance to port 443."""
    vpc = mapping(_cluster(live).get("resourcesVpcConfig"))
    server = {str(each) for each in (vpc.get("clusterSecurityGroupId"), *(vpc.get("securityGroupIds") or ())) if each}
    every = {str(each.get("GroupId")): each for each in mappings(live.aws("SecurityGroups"))}
    given = [{str(one.get("GroupId")) for one in mappings(each.get("SecurityGroups"))} for each in unjoined.instances]
    for own in given or ([set(unjoined.security_groups)] if unjoined.security_groups else []):
        known = server and server <= set(every)
        if not server or not own or (own & server and not known):
            return
        admitted = any(_admits(every[each], own) for each in server) if known else False
        leaves = not own <= set(every) or any(mappings(every[each].get("IpPermissionsEgress")) for each in own)
        if admitted and leaves:
            return
        what = (
            f"aren't admitted to port 443 by {' or '.join(sorted(server))}"
            if not admitted
            else "allow no outgoing traffic"
        )
        message = f"The security groups {', '.join(sorted(own))} of {unjoined.subject} {what}"
        shown = (
            Evidence("Instance", "SecurityGroups", ", ".join(sorted(own))),
            Evidence(
                "aws eks describe-cluster",
                "resourcesVpcConfig.clusterSecurityGroupId",
                str(vpc.get("clusterSecurityGroupId")),
            ),
        )
        yield Cause(
            "J5",
            unjoined.subject,
            message,
            "likely" if known else "possible",
            shown,
            "Add the cluster security group to the nodes",
        )
        return


def _admits(group: Mapping[str, Any], sources: set[str]) -> bool:
    for rule in mappings(group.get("IpPermissions")):
        first, last = rule.get("FromPort"), rule.get("ToPort")
        covers = rule.get("IpProtocol") == "-1" or (
            isinstance(first, int) and isinstance(last, int) and first <= 443 <= last
        )
        named = {str(each.get("GroupId")) for each in mappings(rule.get("UserIdGroupPairs"))}
        if covers and (named & sources or rule.get("IpRanges") or rule.get("PrefixListIds")):
            return True
    return False


def _console(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    for output in live.aws("Output"):
        text = str(output)
        try:
            text += b64decode(text, validate=True).decode(errors="replace")
        except (Error, ValueError):
            pass
        for part in _CONSOLE:
            if part in text:
                line = next((each.strip() for each in text.splitlines() if part in each), part)
                message = f"The user data of {unjoined.subject} is wrong: {part}"
                fix = "Write a NodeConfig for nodeadm into the user data (AL2023), with cluster name, endpoint, CA and CIDR"
                yield Cause(
                    "J6",
                    unjoined.subject,
                    message,
                    "likely",
                    (Evidence("aws ec2 get-console-output", "Output", line[:300]),),
                    fix,
                )
                return


def _status_checks(live: Live, unjoined: _Unjoined) -> Iterator[Cause]:
    for each in mappings(live.aws("InstanceStatuses")):
        states = {str(dig(each, part, "Status")) for part in ("InstanceStatus", "SystemStatus")}
        if each.get("InstanceId") not in unjoined.ids or not states & {"impaired", "initializing"}:
            continue
        state = "impaired" if "impaired" in states else "initializing"
        subject = f"Instance {each.get('InstanceId')}"
        fails = "fails its status checks" if state == "impaired" else "still boots"
        message = f"{subject} of {unjoined.subject} {fails}: {state}"
        fix = "Terminate the instance, so that its group replaces it" if state == "impaired" else "Wait"
        clock = (
            None
            if state == "impaired"
            else Clock(
                "the status checks pass",
                "",
                "more than 10 minutes on P5 and metal types",
                "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-system-instance-status-check.html",
            )
        )
        shown = (Evidence(subject, "InstanceStatus.Status", state),)
        yield Cause("J10", subject, message, "likely", shown, fix, clock=clock)


def _network(live: Live, target: Target) -> Iterator[Cause]:
    """J8 and J9: the network plugin of a node that the pod has or could use."""
    own = live.node(target)
    sandbox = target.pod is not None and live.events_of(target.pod, reason="FailedCreatePodSandBox")
    extra = [own] if own is not None and sandbox and is_ready(live, own) else []
    for node in (*joining_nodes(live, target), *extra):
        ready, networking = live.condition(node, "Ready"), live.condition(node, "NetworkingReady")
        agents = [each for each in live.pods_by_node.get(node.name, ()) if each.name.startswith("aws-node")]
        lines = [
            Evidence(f"log {pod.name}/{container}", "", line[:300])
            for pod in agents
            for container, line in live.log_lines(pod, *_NO_ADDRESSES)
        ][:1]
        reported = (
            networking is not None
            and networking.status == "False"
            and "IPAMDNoIPs" in f"{networking.reason} {networking.message}"
        )
        full = [
            Evidence(f"Subnet {each.get('SubnetId')}", "AvailableIpAddressCount", "0")
            for each in mappings(live.aws("Subnets"))
            if each.get("AvailableIpAddressCount") == 0
        ]
        if lines or (reported and networking is not None):
            shown = [
                *([live.of_condition(node, networking)] if reported and networking is not None else []),
                *lines,
                *full,
            ]
            message = f"The network plugin of {node.title} gets no addresses from its subnet"
            fix = "Use subnets with free addresses, or enable prefix delegation or custom networking"
            yield Cause("J9", node.title, message, "proven" if reported else "likely", tuple(shown), fix)
        if ready is None or ready.status != "False" or not any(each in ready.message for each in _NO_NETWORK):
            continue
        states = [(pod, one) for pod in agents for one in live.containers(pod) if one.waiting or one.last_ended]
        shown = [live.of_condition(node, ready)]
        shown += [
            Evidence(pod.title, f"status.containerStatuses[{one.name}]", one.waiting or one.last_ended)
            for pod, one in states[:1]
        ]
        why = (
            f"{states[0][0].name} is in {states[0][1].waiting or states[0][1].last_ended}"
            if states
            else "no pod of aws-node runs on it"
            if not agents and live.certainty("Pod")
            else "its pod reports no fault"
        )
        message = f"The network plugin of {node.title} isn't ready: {why}"
        command = (
            f"kubectl logs -n kube-system {quote(agents[0].name)} --all-containers"
            if agents
            else "kubectl get daemonset -n kube-system aws-node"
        )
        yield Cause("J8", node.title, message, "proven", tuple(shown), "Repair the VPC CNI on the node", command)

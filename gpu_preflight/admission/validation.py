"""Fields of a pod that the API server rejects, among the fields that decide where it runs.

Source: kubernetes/kubernetes v1.36.3 pkg/apis/core/validation/validation.go ``ValidateTolerations``,
``ValidateNodeSelectorRequirement``, ``validateTopologySpreadConstraints``, ``validateContainerPorts``,
``validateContainerResourceClaim``, ``validatePodDNSConfig``, ``ValidateHostAliases``, ``validateOS``,
``ValidateSecurityContext``, ``checkHostPortConflicts``, ``ValidatePodCreate``

The API server also rejects amounts: requests above limits, huge pages alone, parts that exceed the whole.

Source: kubernetes/kubernetes v1.36.3 pkg/apis/core/validation/validation.go ``validateResourceRequirements`` and
``validatePodResourceConsistency``
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from ipaddress import ip_address
from typing import Any

from gpu_facts.kubernetes import LABEL_VALUE, QUALIFIED_NAME
from gpu_facts.light import regex
from gpu_facts.quantities import Resources, quantity, resources, show
from gpu_facts.refusals import did_you_mean
from gpu_facts.resources import DISK, NVIDIA
from gpu_preflight.admission.unevaluated import find_values, is_open
from gpu_preflight.model.answer import Answer, Reason
from gpu_preflight.model.cluster import Cluster
from gpu_preflight.model.container import Container, is_extended
from gpu_preflight.model.pod import Pod
from gpu_preflight.model.taints import Toleration
from gpu_preflight.node.nodes import minor
from gpu_preflight.reading.unknown import (
    Unknown,
    dig,
    is_expression,
    items,
    known_number,
    known_text,
    mapping,
    mappings,
)

_PAGES = "hugepages-"
_OVERCOMMITTED = ("cpu", "memory", DISK)
_WHOLE = ("cpu", "memory")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POLICIES = ("Always", "OnFailure", "Never")
_COMPARING = ("Lt", "Gt")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
# The last minor version that was checked. In it the gate TaintTolerationComparisonOperators is off, and EKS doesn't
# enable such gates.
# Source: kubernetes/kubernetes v1.36.3 pkg/features/kube_features.go
_NOT_COMPARED_UNTIL = (1, 36)
_DNS_LABEL = regex(r"(?=.{1,63}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_NAMESERVERS = 3


def invalid_amounts(pod: Pod) -> Iterator[str]:
    """Yield the rejected amounts of a pod after admission."""
    for each in pod.every_container:
        if not each.is_open:
            yield from _container_amount_errors(each)
    if not pod.is_open:
        yield from _pod_amount_errors(pod)


def _container_amount_errors(container: Container) -> Iterator[str]:
    who, limits = f"container {container.name}", resources(container.limits)
    yield from _request_limit_errors(who, container.requests, limits)
    # A separate rule checks NVIDIA's resources.
    lacking = (name for name in container.requests if name not in limits and not name.startswith(NVIDIA))
    for name in lacking:
        if is_extended(name) or name.startswith(_PAGES):
            yield f"{who} must have a limit of {name} that equals its request"


def _request_limit_errors(who: str, asked: Resources, limits: Resources) -> Iterator[str]:
    for name, limit in limits.items():
        amount = asked.get(name, 0)
        if name in _OVERCOMMITTED and amount > limit:
            yield f"{who} requests {show(name, amount)} {name}, which exceeds its limit of {show(name, limit)}"
    pages = [name for name in {**limits, **asked} if name.startswith(_PAGES)]
    if pages and not any(name in asked for name in _WHOLE):
        yield f"{who} must request cpu or memory in addition to {pages[0]}"
    for name in pages:
        yield from _huge_page_errors(who, name, asked.get(name, 0), limits.get(name))


def _huge_page_errors(who: str, name: str, asked: int, limit: int | None) -> Iterator[str]:
    size = quantity("memory", name.removeprefix(_PAGES))
    if size and asked % size:
        yield f"{who} must request whole pages of {name}, got {asked} bytes"
    if limit is not None and limit != asked:
        yield f"{who} must request as much {name} as its limit"


def _pod_amount_errors(pod: Pod) -> Iterator[str]:
    limits = resources(pod.limits)
    asked = pod.whole_requests
    for name in asked:
        if name not in _WHOLE and not name.startswith(_PAGES):
            yield f"resources of a pod can't have {name}; set it in a container"
    yield from _request_limit_errors("the pod", asked, limits)
    parts = pod.container_requests
    for name, amount in asked.items():
        if parts.get(name, 0) > amount:
            yield f"its containers request {show(name, parts[name])} {name}, the pod requests {show(name, amount)}"
    for each in pod.containers or ():
        for name, limit in resources(each.limits).items():
            if limit > limits.get(name, limit):
                most = show(name, limits[name])
                yield f"container {each.name} has a limit of {show(name, limit)} {name}, the pod has a limit of {most}"


def _is_invalid_label(value: Any) -> bool:
    return not _DNS_LABEL.fullmatch(str(value))


def _is_invalid_address(value: Any) -> bool:
    try:
        ip_address(str(value))
    except ValueError:
        return True
    return False


# Values that the API server rejects, by the path of the field: the values, and the rule.
_REJECTED: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("activeDeadlineSeconds", lambda value: (known_number(value) or 0) < 1, "must be at least 1"),
    ("dnsConfig.nameservers[]", _is_invalid_address, "must be an IP address"),
    (
        "dnsConfig.nameservers",
        lambda value: len(items(value)) > _MAX_NAMESERVERS,
        f"must have at most {_MAX_NAMESERVERS} entries",
    ),
    ("hostAliases[].ip", _is_invalid_address, "must be an IP address"),
    ("hostname", _is_invalid_label, "must be a DNS label"),
    ("subdomain", _is_invalid_label, "must be a DNS label"),
    ("os.name", lambda value: value not in ("linux", "windows"), "must be linux or windows"),
    *(
        (f"{path}[].restartPolicy", lambda value: value not in _POLICIES, f"must be one of {', '.join(_POLICIES)}")
        for path in ("containers", "initContainers")
    ),
)


def not_valid(pod: Pod, priority: int | None, cluster: Cluster, *, preempts: bool = True) -> Iterator[Reason]:
    """Yield why a pod is rejected because of its fields.

    Args:
        pod: The pod after admission.
        priority: Priority of its class, or of pods without a class; ``None`` if it isn't known.
        cluster: Its cluster.
        preempts: Whether its class, or the default for pods without a class, preempts other pods.
    """
    written = pod.written
    found = [
        # Tolerations that a RuntimeClass covers are already merged.
        *(each for one in pod.tolerations for each in _toleration_errors(one)),
        *_node_selector_errors(written),
        *(each for one in mappings(written.get("topologySpreadConstraints")) for each in _topology_spread_errors(one)),
        *_host_port_errors(written),
        *_restart_policy_errors(written.get("restartPolicy")),
        *_resource_claim_errors(written),
        *_field_value_errors(written),
        *_dns_config_errors(written),
        *_security_context_errors(written),
        *invalid_amounts(pod),
    ]
    yield from (_refusal(each) for each in dict.fromkeys(found))
    for since, text in _feature_gate_errors(written):
        known = cluster.version is not None and minor(cluster.version) >= since
        yield _refusal(text, Answer.NO if known else Answer.UNKNOWN)
    yield from _numeric_toleration_errors(pod, cluster)
    yield from _preemption_errors(pod, preempts, cluster)
    yield from _priority_errors(pod, priority, cluster)


def _refusal(text: str, answer: Answer = Answer.NO) -> Reason:
    return Reason(answer, "refused", f"the API server rejects it: {text}", rule="GPU405")


def _is_known(value: Any) -> bool:
    return not isinstance(value, Unknown) and not is_expression(str(value))


def _toleration_errors(given: Toleration) -> Iterator[str]:
    key, operator, value, effect = given.key or "", given.operator, given.value, given.effect
    who = f"a toleration of {key or 'every taint'}"
    if not all(map(_is_known, (key, operator, value, effect))):
        return
    if key and not QUALIFIED_NAME.fullmatch(str(key)):
        yield f"{key!r} isn't a valid key of a taint"
    if not key and operator != "Exists":
        yield f"{who} must have operator Exists"
    if operator == "Exists" and value:
        yield f"{who} with operator Exists must have no value, got {value!r}"
    if operator == "Equal" and not LABEL_VALUE.fullmatch(str(value)):
        yield f"{who} has {value!r}, which isn't a valid value of a taint"
    if effect and effect not in _EFFECTS:
        yield f"{who} must have one of the effects {', '.join(_EFFECTS)}, got {effect}"
    if given.seconds is not None and effect != "NoExecute":
        yield f"{who} with tolerationSeconds must have effect NoExecute"


def _numeric_toleration_errors(pod: Pod, cluster: Cluster) -> Iterator[Reason]:
    """Yield that tolerations compare numbers. Clusters reject them unless a feature gate is enabled."""
    for each in pod.tolerations:
        if each.operator in _COMPARING:
            known = cluster.version is not None and minor(cluster.version) <= _NOT_COMPARED_UNTIL
            text = f"a toleration of {each.key} has operator {each.operator}, whose feature gate EKS doesn't enable"
            yield _refusal(text, Answer.NO if known else Answer.UNKNOWN)
            return


def _priority_errors(pod: Pod, priority: int | None, cluster: Cluster) -> Iterator[Reason]:
    """Yield that a pod has another priority than its class.

    Source: kubernetes/kubernetes v1.36.3 plugin/pkg/admission/priority/admission.go
    """
    own = known_number(pod.written.get("priority"))
    if own is not None and priority is not None and own != priority:
        # Another class may be the default for all pods without one.
        known = bool(pod.priority_class) or cluster.sees_objects
        yield _refusal(
            f"its priority must equal its class's priority {priority}, got {own}",
            Answer.NO if known else Answer.UNKNOWN,
        )


def _preemption_errors(pod: Pod, preempts: bool, cluster: Cluster) -> Iterator[Reason]:
    """Yield that a pod has another preemptionPolicy than its class.

    Source: kubernetes/kubernetes v1.36.3 plugin/pkg/admission/priority/admission.go
    """
    own, policy = known_text(pod.written.get("preemptionPolicy")), "PreemptLowerPriority" if preempts else "Never"
    if own is not None and _is_known(own) and own != policy:
        known = cluster.sees_objects or any(
            each.name == pod.priority_class for each in cluster.objects_of_kind("PriorityClass")
        )
        text = f"its preemptionPolicy must equal its class's policy {policy}, got {own}"
        yield _refusal(text, Answer.NO if known else Answer.UNKNOWN)


def _node_selector_errors(pod: Mapping[str, Any]) -> Iterator[str]:
    for key, value in mapping(pod.get("nodeSelector")).items():
        yield from _label_errors(key, [value])
    affinity = dig(mapping(pod.get("affinity")), "nodeAffinity", _REQUIRED)
    terms = mappings(dig(affinity, "nodeSelectorTerms"))
    for each in (one for term in terms for one in mappings(term.get("matchExpressions"))):
        yield from _match_expression_errors(each)


def _label_errors(key: str, values: list[Any]) -> Iterator[str]:
    if _is_known(key) and not QUALIFIED_NAME.fullmatch(key):
        yield f"{key!r} isn't a valid key of a label"
    for value in values:
        text = known_text(value)
        if text is not None and _is_known(text) and not LABEL_VALUE.fullmatch(text):
            yield f"{text!r} isn't a valid value of label {key}"


def _match_expression_errors(raw: Mapping[str, Any]) -> Iterator[str]:
    key, operator, values = str(raw.get("key")), raw.get("operator"), raw.get("values")
    if isinstance(values, Unknown) or not _is_known(operator):
        return
    listed = items(values)
    if operator in ("In", "NotIn") and not listed:
        yield f"{key} {operator} must name a value"
    if operator in ("Exists", "DoesNotExist") and listed:
        yield f"{key} {operator} must name no value"
    if operator in ("Gt", "Lt") and len(listed) != 1:
        yield f"{key} {operator} must name one value, got {len(listed)}"
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"):
        yield f"{operator} isn't an operator of a node selector"
    yield from _label_errors(key, listed)


def _topology_spread_errors(raw: Mapping[str, Any]) -> Iterator[str]:
    skew, least, key = raw.get("maxSkew"), raw.get("minDomains"), raw.get("topologyKey")
    if _is_known(skew) and (known_number(skew) or 0) < 1:
        yield f"a spread by {key} must have a maxSkew of at least 1"
    if least is None or not _is_known(least) or not _is_known(raw.get("whenUnsatisfiable")):
        return
    if (known_number(least) or 0) < 1 or raw.get("whenUnsatisfiable") != "DoNotSchedule":
        yield f"a spread by {key} with minDomains must have whenUnsatisfiable DoNotSchedule, and minDomains 1 or more"


def _host_port_errors(pod: Mapping[str, Any]) -> Iterator[str]:
    containers = [*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))]
    ports = [one for each in mappings(pod.get("containers")) for one in mappings(each.get("ports"))]
    hosts = [tuple(map(str, (one.get("hostPort"), one.get("protocol") or "TCP", one.get("hostIP")))) for one in ports]
    for (number, protocol, _), times in Counter(each for each in hosts if all(map(_is_known, each))).items():
        if number not in ("None", "0") and times > 1:
            yield f"two ports of its containers have hostPort {number}/{protocol}"
    for port in (one for each in containers for one in mappings(each.get("ports"))):
        inner, outer = known_number(port.get("containerPort")), known_number(port.get("hostPort"))
        if pod.get("hostNetwork") is True and inner and outer and inner != outer:
            yield f"on the network of the node, hostPort {outer} must equal containerPort {inner}"


def _resource_claim_errors(written: Mapping[str, Any]) -> Iterator[str]:
    """Yield the claims of containers that the pod doesn't have. For a pod without ``spec``, nothing is known."""
    names = [each.get("name") for each in mappings(written.get("resourceClaims"))]
    if any(not isinstance(each, str) or is_expression(each) for each in names):
        return
    for container in (*mappings(written.get("initContainers")), *mappings(written.get("containers"))):
        for claim in mappings(dig(container, "resources", "claims")):
            name = known_text(claim.get("name"))
            if name is not None and not is_expression(name) and name not in names:
                hint = did_you_mean(name, [str(each) for each in names])
                yield f"container {container.get('name')} uses claim {name}, which the pod does not have{hint}"


def _restart_policy_errors(policy: Any) -> Iterator[str]:
    if policy is not None and _is_known(policy) and policy not in _POLICIES:
        yield f"restartPolicy must be one of {', '.join(_POLICIES)}, got {policy}"


def _field_value_errors(pod: Mapping[str, Any]) -> Iterator[str]:
    for path, is_wrong, rule in _REJECTED:
        for value in find_values(pod, path):
            if not is_open(value) and is_wrong(value):
                yield f"{path.replace('[]', '')} {rule}, got {value}"
    # A pod of a dump that has a node may have them.
    if items(pod.get("ephemeralContainers")) and pod.get("nodeName") is None:
        yield "a new pod must have no ephemeralContainers"


def _feature_gate_errors(pod: Mapping[str, Any]) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield fields that the API server rejects from the version that enables their gate. Older versions drop the field.

    Source: kubernetes/kubernetes v1.36.3 pkg/features/kube_features.go ``UserNamespacesSupport``,
    ``ContainerRestartRules``, ``HostnameOverride``
    """
    for container in (*mappings(pod.get("initContainers")), *mappings(pod.get("containers"))):
        if dig(container, "securityContext", "procMount") == "Unmasked" and pod.get("hostUsers") in (None, True):
            yield (1, 33), "procMount Unmasked must have hostUsers false"
        if items(container.get("restartPolicyRules")) and container.get("restartPolicy") is None:
            yield (1, 35), f"container {container.get('name')} with restartPolicyRules must have a restartPolicy"
    name = known_text(pod.get("hostnameOverride"))
    if name is not None and not is_open(name) and not all(map(_DNS_LABEL.fullmatch, name.split("."))):
        yield (1, 35), f"hostnameOverride must be a DNS name, got {name}"


def _dns_config_errors(pod: Mapping[str, Any]) -> Iterator[str]:
    servers = next(find_values(pod, "dnsConfig.nameservers"), None)
    if pod.get("dnsPolicy") == "None" and not isinstance(servers, Unknown) and not items(servers):
        yield "dnsPolicy None must have a dnsConfig with a nameserver"


def _security_context_errors(pod: Mapping[str, Any]) -> Iterator[str]:
    whole = mapping(pod.get("securityContext"))
    containers = (*mappings(pod.get("initContainers")), *mappings(pod.get("containers")))
    for own in (mapping(each.get("securityContext")) for each in containers):
        if own.get("privileged") is True and own.get("allowPrivilegeEscalation") is False:
            yield "a privileged container must not have allowPrivilegeEscalation false"
    for context in (whole, *(mapping(each.get("securityContext")) for each in containers)):
        for name in ("seccompProfile", "appArmorProfile"):
            profile = mapping(context.get(name))
            if profile.get("type") == "Localhost" and profile.get("localhostProfile") is None:
                yield f"{name} of type Localhost must have a localhostProfile"
    if pod.get("hostPID") is True and pod.get("shareProcessNamespace") is True:
        yield "hostPID and shareProcessNamespace must not both be true"

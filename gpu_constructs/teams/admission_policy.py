"""What the API server rejects in a team's namespace, whoever writes it there.

Source: https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ (stable from 1.30 on)
"""

from __future__ import annotations

from typing import Any

from gpu_facts.labels import NAMESPACE_NAME

_GROUP_VERSION = "admissionregistration.k8s.io/v1"
# Only Kubernetes has priority classes of this prefix, above all that others may define: their pods evict pods of every
# namespace. It lets them run in any namespace, unless an admission plugin or policy rejects them.
# Source: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/ (2026-11)
_PRIORITY = (
    "request.resource.resource != 'pods' || !dyn(object).spec.?priorityClassName.orValue('').startsWith('system-')"
)
# A Service takes the traffic of the cluster to its external addresses, whosever they are. What a Service already has
# stays, as updates that remove finalizers must pass.
# Source: https://nvd.nist.gov/vuln/detail/CVE-2020-8554
_ADDRESSES = (
    "request.resource.resource != 'services' || "
    "dyn(object).spec.?externalIPs.orValue([]).all(each, "
    "oldObject != null && each in dyn(oldObject).spec.?externalIPs.orValue([]))"
)


def admission_policy(namespace: str) -> list[dict[str, Any]]:
    """Return the policy of a team's namespace, and the binding that puts it into force."""
    name = {"name": f"team-{namespace}.gpu-constructs.io"}
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: namespace}},
            "resourceRules": [
                _rule("pods", "CREATE"),
                _rule("services", "CREATE", "UPDATE"),
            ],
        },
        "validations": [
            {
                "expression": _PRIORITY,
                "message": "priorityClassName must not begin with 'system-' in the namespace of a team",
                "reason": "Forbidden",
            },
            {
                "expression": _ADDRESSES,
                "message": "externalIPs must be empty in the namespace of a team; use a Service of type LoadBalancer",
                "reason": "Forbidden",
            },
        ],
    }
    binding = {"policyName": name["name"], "validationActions": ["Deny"]}
    return [
        {
            "apiVersion": _GROUP_VERSION,
            "kind": f"ValidatingAdmissionPolicy{suffix}",
            "metadata": dict(name),
            "spec": spec,
        }
        for suffix, spec in (("", policy), ("Binding", binding))
    ]


def _rule(resource: str, *operations: str) -> dict[str, list[str]]:
    return {"apiGroups": [""], "apiVersions": ["v1"], "operations": list(operations), "resources": [resource]}

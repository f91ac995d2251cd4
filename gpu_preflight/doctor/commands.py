"""The shell script that writes a dump, and the permissions that doctor needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

import yaml

from gpu_facts.doctor_reads import CALLS, CONFIG_MAPS, DOCTOR_ROLE, RESOURCES, Call, iam_actions, rbac_rules
from gpu_preflight.doctor.aws import filled

_HEAD = """\
#!/bin/sh
# Writes the state of a cluster to the folder dump, for: gpu-constructs doctor dump
# It only reads. Look through the files before you pass them on: they have names, images, environment variables and
# arguments of pods. Secrets aren't read.
# Usage: sh dump.sh [CLUSTER]   with the name of the EKS cluster, the answers of AWS are written too.
mkdir -p dump && cd dump || exit 1
get() { file=$1; shift
kubectl get "$@" -o json > "$file.json" 2> "$file.err" && rm -f "$file.err" || rm -f "$file.json"; }
"""
_AWS = """\
[ -n "$1" ] || exit 0
ask() { name=$(printf %s "$1" | tr / _); shift
aws "$@" --output json > "aws-$name.json" 2> "aws-$name.err" && rm -f "aws-$name.err" || rm -f "aws-$name.json"; }
"""


# Resources with many objects, which people don't edit. For other resources, the field managers show who changed them.
_MANY = ("pods", "events", "replicasets.apps", "leases.coordination.k8s.io", "nodeclaims.karpenter.sh")


def script() -> str:
    """Return a shell script that writes a dump with kubectl and, for a named cluster, with the AWS CLI."""
    managed = {each: "" if each in _MANY else " --show-managed-fields" for each in RESOURCES}
    resources = "\n".join(f"get {each} {each} -A{option}" for each, option in managed.items())
    maps = "\n".join(f"get configmap-{each} configmap {each} -n kube-system" for each in CONFIG_MAPS)
    return f"{_HEAD}{resources}\n{maps}\n{_AWS}{''.join(_aws_lines())}"


def _aws_lines() -> Iterator[str]:
    for each, calls in groupby(CALLS, key=lambda call: call.each):
        asked = [f'ask "{filled(call.name, "$1", "$each")}" {_arguments(call)}\n' for call in calls]
        if not each:
            yield from asked
            continue
        name, path = each
        lister = next(call for call in CALLS if call.name == name)
        yield f"for each in $(aws {_arguments(lister)} --query '{path}' --output text); do\n"
        yield from (f"  {line}" for line in asked)
        yield "done\n"


def _arguments(call: Call) -> str:
    """Return the arguments of the AWS CLI for a call, for a shell."""
    words = [call.command]
    for name, value in filled(call.parameters, "$1", "$each").items():
        option = "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("-")
        text = value if isinstance(value, str) else f"Name={value[0]['Name']},Values={value[0]['Values'][0]}"
        words.append(f'--{option} "{text}"')
    return " ".join((*words, *((f"--max-items {call.most}",) if call.most else ())))


def policy(kind: str) -> str:
    """Return the permissions that doctor needs: ``rbac`` as a ClusterRole, ``iam`` as a policy for every cluster."""
    if kind == "rbac":
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": DOCTOR_ROLE},
            "rules": rbac_rules(),
        }
        return yaml.safe_dump(role, sort_keys=False)
    statement = {"Effect": "Allow", "Action": iam_actions(), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2) + "\n"

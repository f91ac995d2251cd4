"""The shell script that writes a dump, and the permissions that doctor needs."""

from __future__ import annotations

import json

import yaml

from gpu_preflight.doctor.dump import AWS_ANSWERS, CONFIG_MAPS, RESOURCES

_HEAD = """\
#!/bin/sh
# Writes the state of a cluster to the folder dump, for: gpu-constructs doctor dump
# It only reads. Look through the files before you pass them on: they have names, images, environment variables and
# arguments of pods. Secrets aren't read.
# Usage: sh dump.sh [CLUSTER]   with the name of the EKS cluster, the answers of AWS are written too.
mkdir -p dump && cd dump || exit 1
get() { file=$1; shift; kubectl get "$@" -o json > "$file.json" 2> "$file.err" || rm -f "$file.json"
[ -s "$file.err" ] || rm -f "$file.err"; }
"""
_AWS = """\
[ -n "$1" ] || exit 0
ask() { name=$1; shift; aws "$@" --output json > "aws-$name.json" 2> "aws-$name.err" || rm -f "aws-$name.json"
[ -s "aws-$name.err" ] || rm -f "aws-$name.err"; }
ask cluster eks describe-cluster --name "$1"
ask access-entries eks list-access-entries --cluster-name "$1"
for group in $(aws eks list-nodegroups --cluster-name "$1" --query 'nodegroups[]' --output text); do
  ask "nodegroup-$group" eks describe-nodegroup --cluster-name "$1" --nodegroup-name "$group"
done
ask groups autoscaling describe-auto-scaling-groups --filters "Name=tag-key,Values=kubernetes.io/cluster/$1"
for group in $(aws autoscaling describe-auto-scaling-groups --filters "Name=tag-key,Values=kubernetes.io/cluster/$1" \\
  --query 'AutoScalingGroups[].AutoScalingGroupName' --output text); do
  ask "activities-$group" autoscaling describe-scaling-activities --auto-scaling-group-name "$group" --max-items 20
done
ask instances ec2 describe-instances --filters "Name=tag-key,Values=kubernetes.io/cluster/$1"
ask instance-status ec2 describe-instance-status
ask reservations ec2 describe-capacity-reservations
ask subnets ec2 describe-subnets
ask route-tables ec2 describe-route-tables
ask security-groups ec2 describe-security-groups
ask vpc-endpoints ec2 describe-vpc-endpoints
ask quota-p service-quotas get-service-quota --service-code ec2 --quota-code L-417A185B
ask quota-g service-quotas get-service-quota --service-code ec2 --quota-code L-DB2E81BA
"""


# Resources with many objects, which people don't edit. For other resources, the field managers show who changed them.
_MANY = ("pods", "events", "replicasets.apps", "leases.coordination.k8s.io", "nodeclaims.karpenter.sh")


def script() -> str:
    """Return a shell script that writes a dump with kubectl and, for a named cluster, with the AWS CLI."""
    managed = {each: "" if each in _MANY else " --show-managed-fields" for each in RESOURCES}
    resources = "\n".join(f"get {each} {each} -A{option}" for each, option in managed.items())
    maps = "\n".join(f"get configmap-{each} configmap {each} -n kube-system" for each in CONFIG_MAPS)
    return f"{_HEAD}{resources}\n{maps}\n{_AWS}"


# Actions of the AWS CLI's commands whose names differ. Console output and CloudTrail may hold secrets, so they are left
# out: add ec2:GetConsoleOutput or cloudtrail:LookupEvents if you want to look there.
_LEFT_OUT = ("get-console-output", "lookup-events")
_SERVICES = {"service-quotas": "servicequotas"}


def policy(kind: str) -> str:
    """Return the permissions that doctor needs: ``rbac`` as a ClusterRole, ``iam`` as a policy document.

    Describe actions of EC2 and Auto Scaling take no ARN. Source:
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html (2026-11)
    """
    if kind == "rbac":
        return _rbac()
    commands = [each.split() for each in AWS_ANSWERS.values() if not each.endswith(_LEFT_OUT)]
    names = [(_SERVICES.get(service, service), operation.title().replace("-", "")) for service, operation in commands]
    actions = sorted(f"{service}:{name}" for service, name in names)
    statement = {"Effect": "Allow", "Action": actions, "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2) + "\n"


def _rbac() -> str:
    groups: dict[str, list[str]] = {}
    for each in RESOURCES:
        name, _, group = each.partition(".")
        groups.setdefault(group, []).append(name)
    rules = [{"apiGroups": [group], "resources": names, "verbs": ["get", "list"]} for group, names in groups.items()]
    maps = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": list(CONFIG_MAPS), "verbs": ["get"]}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "gpu-constructs-doctor"},
        "rules": [*rules, maps],
    }
    return yaml.safe_dump(role, sort_keys=False)

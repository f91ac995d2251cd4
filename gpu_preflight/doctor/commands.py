"""The shell script that writes a dump: one file per resource, and the error text next to it."""

from __future__ import annotations

from gpu_preflight.doctor.dump import CONFIG_MAPS, RESOURCES

_HEAD = """\
#!/bin/sh
# Writes the state of a cluster to the folder dump, for: gpu-constructs doctor dump
# It only reads. Look through the files before you pass them on: they have names, images, environment variables and
# arguments of pods. Secrets aren't read.
# Usage: sh dump.sh [CLUSTER]   with the name of the EKS cluster, the answers of AWS are written too.
mkdir -p dump && cd dump || exit 1
get() { kubectl get "$1" -A -o json > "$1.json" 2> "$1.err" || rm -f "$1.json"; [ -s "$1.err" ] || rm -f "$1.err"; }
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
ask endpoints ec2 describe-vpc-endpoints
ask quota-p service-quotas get-service-quota --service-code ec2 --quota-code L-417A185B
ask quota-g service-quotas get-service-quota --service-code ec2 --quota-code L-DB2E81BA
"""


def script() -> str:
    """Return a shell script that writes a dump with kubectl and, for a named cluster, with the AWS CLI."""
    resources = "\n".join(f"get {each}" for each in RESOURCES)
    maps = "\n".join(
        f"kubectl get configmap {each} -n kube-system -o json > configmap-{each}.json 2> /dev/null "
        f"|| rm -f configmap-{each}.json"
        for each in CONFIG_MAPS
    )
    return f"{_HEAD}{resources}\n{maps}\n{_AWS}"

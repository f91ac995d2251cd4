"""Reads the state of AWS that decides about new nodes of a cluster. Each call is a Describe, List or Get.

The program for credentials in the kubeconfig has the name of the cluster, the Region and the profile. If EKS
names another endpoint for that cluster, nothing else is read.

Source: https://docs.aws.amazon.com/cli/latest/reference/eks/get-token.html (2026-11)
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from gpu_facts.labels import CLUSTER_TAG
from gpu_preflight.doctor.dump import AWS_ANSWERS, Dump, NotLooked
from gpu_preflight.reading.unknown import dig, items, mapping, mappings

# Quotas of running On-Demand vCPUs: families P, and G and VT.
# Source: https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html (2026-11)
_QUOTAS = ("L-417A185B", "L-DB2E81BA")
_MAX_ACTIVITIES = 20
# Fields that may hold secrets.
_HIDDEN = ("UserData",)


class Aws:
    """AWS's answers about one cluster.

    Args:
        program: The program for credentials in the kubeconfig, as ``aws eks update-kubeconfig`` writes it.
    """

    def __init__(self, program: Mapping[str, Any]) -> None:
        """Connect to nothing yet."""
        words = [str(each) for each in items(program.get("args"))]
        self._options = {key: value for key, value in pairwise(words) if key.startswith("--")}
        profile = next(
            (str(each.get("value")) for each in mappings(program.get("env")) if each.get("name") == "AWS_PROFILE"), ""
        )
        self._profile = self._options.get("--profile") or profile or None
        self.cluster = self._options.get("--cluster-name") or self._options.get("--cluster-id") or ""
        self.answers: dict[str, dict[str, Any]] = {}
        self.refused: list[NotLooked] = []

    def collect(self, server: str) -> None:
        """Read everything that decides about new nodes.

        Args:
            server: URL of the API server, which must be the endpoint of the cluster.
        """
        if not self.cluster:
            why = "the context of the kubeconfig doesn't use 'aws eks get-token', so the cluster's name isn't known"
            self.refused.append(NotLooked("aws", why))
            return
        try:
            from botocore.session import Session

            self._session: Any = Session(profile=self._profile)
        except ImportError:
            self.refused.append(NotLooked("aws", "botocore isn't installed; install gpu-constructs[doctor]"))
            return
        cluster = mapping(self._ask("eks", "describe_cluster", "cluster", name=self.cluster).get("cluster"))
        if not cluster:
            return
        if str(cluster.get("endpoint") or server).rstrip("/") != server.rstrip("/"):
            why = f"cluster {self.cluster} of this account and Region has another endpoint than the context, {server}"
            self.refused.append(NotLooked("aws", why))
            self.answers.clear()
            return
        self._groups(str(dig(cluster, "resourcesVpcConfig", "vpcId") or ""))
        for code in _QUOTAS:
            self._ask("service-quotas", "get_service_quota", f"quota-{code}", ServiceCode="ec2", QuotaCode=code)

    def _ask(self, service: str, operation: str, kept: str, /, **parameters: Any) -> dict[str, Any]:
        """Return an answer and keep it under a name; empty if there is none."""
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError

        config = Config(connect_timeout=3, read_timeout=10, retries={"mode": "standard", "total_max_attempts": 3})
        try:
            client = self._session.create_client(service, region_name=self._options.get("--region"), config=config)
            answer = getattr(client, operation)(**parameters)
        except (BotoCoreError, ClientError) as error:
            text = " ".join(str(error).split())[:300]
            self.refused.append(NotLooked(f"aws {service} {operation.replace('_', '-')}", text))
            return {}
        answer.pop("ResponseMetadata", None)
        found: dict[str, Any] = json.loads(json.dumps(_without_secrets(answer), default=str))
        self.answers[f"aws-{kept}"] = found
        return found

    def _groups(self, vpc: str) -> None:
        self._ask("eks", "list_access_entries", "access-entries", clusterName=self.cluster)
        listed = self._ask("eks", "list_nodegroups", "nodegroups", clusterName=self.cluster)
        for each in items(listed.get("nodegroups")):
            self._ask("eks", "describe_nodegroup", f"nodegroup-{each}", clusterName=self.cluster, nodegroupName=each)
        owned = [{"Name": "tag-key", "Values": [f"{CLUSTER_TAG}{self.cluster}"]}]
        groups = self._ask("autoscaling", "describe_auto_scaling_groups", "groups", Filters=owned)
        for each in mappings(groups.get("AutoScalingGroups")):
            name = str(each.get("AutoScalingGroupName"))
            wanted = {"AutoScalingGroupName": name, "MaxRecords": _MAX_ACTIVITIES}
            self._ask("autoscaling", "describe_scaling_activities", f"activities-{name}", **wanted)
        self._ask("ec2", "describe_instances", "instances", Filters=owned)
        self._ask("ec2", "describe_instance_status", "instance-status")
        self._ask("ec2", "describe_capacity_reservations", "reservations")
        for operation in ("subnets", "route_tables", "security_groups", "vpc_endpoints") if vpc else ():
            own = [{"Name": "vpc-id", "Values": [vpc]}]
            self._ask("ec2", f"describe_{operation}", operation.replace("_", "-"), Filters=own)

    def extend_dump(self, dump: Dump) -> None:
        """Add what was read to a dump of the cluster."""
        for name, answer in self.answers.items():
            for key in answer.keys() & AWS_ANSWERS.keys():
                dump.aws.setdefault(key, []).append((f"{name}.json", answer[key]))
        dump.refused += self.refused


def is_needed(dump: Dump) -> bool:
    """Whether AWS may explain something: a pod has no node, or a node isn't ready."""
    for each in dump.objects:
        conditions = mappings(dig(each.content, "status", "conditions")) if each.kind == "Node" else ()
        if any(one.get("type") == "Ready" and one.get("status") != "True" for one in conditions):
            return True
        if each.kind == "Pod" and not each.spec.get("nodeName"):
            return True
    return False


def _without_secrets(value: Any) -> Any:
    """Return an answer without fields that may hold secrets."""
    if isinstance(value, dict):
        return {key: _without_secrets(each) for key, each in value.items() if key not in _HIDDEN}
    return [_without_secrets(each) for each in value] if isinstance(value, list) else value

"""Causes that keep a pod from being created: ids A1 to A12, and H-1."""

from __future__ import annotations

from gpu_rehearsal.cluster.client import Object
from tests.e2e.doctor.cause import Cause, job, trainer
from tests.e2e.doctor.fleet import container, deployment

_POLICY = "admissionregistration.k8s.io/v1"


def _quota(gpus: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus"},
        "spec": {"hard": {"requests.nvidia.com/gpu": str(gpus)}},
    }


def _limit_range() -> Object:
    limit = {"type": "Container", "max": {"cpu": "2", "memory": "64Gi"}}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "sizes"}, "spec": {"limits": [limit]}}


def _validating_policy() -> list[Object]:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    mine = {"matchLabels": {"policy.example.com/gpu-owners": "required"}}
    return [
        {
            "apiVersion": _POLICY,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "gpu-owners"},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [
                    {
                        "expression": "has(object.metadata.labels) && 'cost-center' in object.metadata.labels",
                        "message": "pods with GPUs must have the label cost-center",
                    }
                ],
            },
        },
        {
            "apiVersion": _POLICY,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "gpu-owners"},
            "spec": {
                "policyName": "gpu-owners",
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": mine},
            },
        },
    ]


def _webhook() -> Object:
    """Return a webhook whose service doesn't exist."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    client = {"service": {"name": "gpu-policy", "namespace": "serving", "path": "/validate", "port": 443}}
    return {
        "apiVersion": _POLICY,
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gpu-policy"},
        "webhooks": [
            {
                "name": "pods.gpu-policy.example.com",
                "clientConfig": client,
                "rules": [rule],
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "namespaceSelector": {"matchLabels": {"policy.example.com/webhook": "enabled"}},
            }
        ],
    }


def _autoscaler() -> Object:
    target = {"type": "Utilization", "averageUtilization": 60}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "minReplicas": 1,
            "maxReplicas": 4,
            "metrics": [metric],
        },
    }


_REFUSED = "FailedCreate: Error creating: "
ADMISSION_CAUSES = (
    Cause(
        name="a1-quota-refuses-a-replica",
        why="The ResourceQuota allows one GPU, and the Deployment has two replicas with one each.",
        first=("A1",),
        never=("S1", "P3", "Q5"),
        before=(_quota(1),),
        until=(_REFUSED + r".*exceeded quota: gpus", r"ReplicaFailure=True"),
        objects=(deployment("chat", trainer(), replicas=2),),
        pod="",
    ),
    Cause(
        name="a1-quota-refuses-a-job",
        why="The ResourceQuota allows two GPUs, and the pod of the Job requests three.",
        first=("A1",),
        never=("S1", "P3", "A11"),
        before=(_quota(2),),
        until=(_REFUSED + r".*exceeded quota: gpus",),
        objects=(job(trainer(3)),),
        pod="",
    ),
    Cause(
        name="a3-limit-range",
        why="The LimitRange allows 2 CPUs for a container, and the Job has a limit of 4.",
        first=("A3",),
        never=("A1", "P4", "S1"),
        before=(_limit_range(),),
        until=(_REFUSED + r".*maximum cpu usage per Container is 2, but limit is 4",),
        objects=(
            job(
                {
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.com/train:v3",
                            "resources": {"limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"}},
                        }
                    ]
                }
            ),
        ),
        pod="",
    ),
    Cause(
        name="a4-pod-security-of-a-device-plugin",
        why="A second plugin's DaemonSet is privileged, and its namespace enforces the level baseline.",
        first=("A4",),
        never=("G2", "G3", "A5"),
        labels={"pod-security.kubernetes.io/enforce": "baseline"},
        until=(_REFUSED + r'.*violates PodSecurity "baseline:latest"',),
        objects=(
            {
                "apiVersion": "apps/v1",
                "kind": "DaemonSet",
                "metadata": {"name": "dcgm-exporter"},
                "spec": {
                    "selector": {"matchLabels": {"app": "dcgm-exporter"}},
                    "template": {
                        "metadata": {"labels": {"app": "dcgm-exporter"}},
                        "spec": {
                            "nodeSelector": {"nvidia.com/gpu.present": "true"},
                            "tolerations": [{"operator": "Exists"}],
                            "containers": [
                                container("nvcr.io/nvidia/k8s/dcgm-exporter:4.4.2-4.7.1-ubuntu22.04")
                                | {"securityContext": {"privileged": True}}
                            ],
                        },
                    },
                },
            },
        ),
        pod="",
    ),
    Cause(
        name="a4-restricted-namespace",
        why="The namespace enforces the level restricted, and the pod of the Job may run as root.",
        first=("A4",),
        never=("A5", "A1"),
        labels={"pod-security.kubernetes.io/enforce": "restricted"},
        until=(_REFUSED + r'.*violates PodSecurity "restricted:latest"',),
        objects=(job(trainer()),),
        pod="",
    ),
    Cause(
        name="a5-admission-policy",
        why="A ValidatingAdmissionPolicy requires a label that the pod doesn't have.",
        first=("A5",),
        never=("A4", "A6", "A1"),
        labels={"policy.example.com/gpu-owners": "required"},
        before=tuple(_validating_policy()),
        until=(_REFUSED + r".*ValidatingAdmissionPolicy 'gpu-owners'.* denied request",),
        objects=(deployment("chat", trainer()),),
        pod="",
    ),
    Cause(
        name="a6-webhook-without-a-service",
        why="A validating webhook with failurePolicy Fail calls a service that was removed.",
        first=("A6",),
        never=("A5", "A4"),
        labels={"policy.example.com/webhook": "enabled"},
        before=(_webhook(),),
        until=(_REFUSED + r'.*failed calling webhook .* service "gpu-policy" not found',),
        objects=(deployment("chat", trainer()),),
        pod="",
    ),
    Cause(
        name="a9-missing-runtime-class",
        why="The Deployment names the RuntimeClass nvidia, which doesn't exist.",
        first=("A9",),
        never=("R3", "A5"),
        until=(_REFUSED + r'.*RuntimeClass "nvidia" not found',),
        objects=(deployment("chat", trainer(runtimeClassName="nvidia")),),
        pod="",
    ),
    Cause(
        name="a11-suspended-by-a-person",
        why="The Job is suspended, and no queue manages it.",
        first=("A11",),
        never=("Q1", "Q6", "A1"),
        until=(r"Suspended=True", r"Suspended: Job suspended"),
        objects=(job(trainer(), suspend=True),),
        pod="",
    ),
    Cause(
        name="a12-no-replicas",
        why="The Deployment has replicas 0.",
        first=("A12",),
        never=("A1", "S1"),
        until=(r"Progressing=True",),
        objects=(deployment("chat", trainer(), replicas=0),),
        pod="",
        owner="chat",
    ),
    Cause(
        name="h-1-no-metrics-server",
        why="The HorizontalPodAutoscaler scales by CPU, and no metrics server is installed.",
        first=("H-1",),
        never=("H-2", "A12", "S1"),
        until=(r"FailedGetResourceMetric", r"ScalingActive=False"),
        objects=(deployment("chat", trainer()), _autoscaler()),
        pod="",
        age_seconds=5.0,
    ),
)

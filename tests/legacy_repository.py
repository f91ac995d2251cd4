"""A repository with 40 findings, as a user has who tries the checker for the first time."""

from __future__ import annotations

from pathlib import Path

# Name, instance type, AMI type, GPUs of a pod, and tag of the image.
TEAMS = (
    ("search", "g5.12xlarge", "AL2023_x86_64_STANDARD", 1, "latest"),
    ("speech", "g6.xlarge", "AL2023_x86_64_NVIDIA", 4, "latest"),
    ("vision", "p4d.24xlarge", "AL2_x86_64_GPU", 8, "latest"),
    ("ranking", "g6.xlarge", "AL2023_x86_64_STANDARD", 1, "latest"),
    ("video", "g6.12xlarge", "AL2023_x86_64_STANDARD", 1, "latest"),
    ("maps", "g6.2xlarge", "AL2023_x86_64_NVIDIA", 1, "latest"),
    ("ads", "g5.xlarge", "AL2023_x86_64_NVIDIA", 1, "1.4.2"),
)
_GROUP = """\
  {name}:
    Type: AWS::EKS::Nodegroup
    Properties:
      ClusterName: !Ref Cluster
      NodeRole: arn:aws:iam::111122223333:role/nodes
      AmiType: {image}
      InstanceTypes: [{type}]
      ScalingConfig: {{MinSize: 0, DesiredSize: 0, MaxSize: 4}}
      Subnets: [subnet-0123456789abcdef0]
"""
_CLUSTER = """\
Resources:
  Cluster:
    Type: AWS::EKS::Cluster
    Properties: {Name: ml, Version: "1.36", RoleArn: "arn:aws:iam::111122223333:role/cluster"}
"""
_DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}, namespace: {name}}}
spec:
  replicas: 2
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: server
        image: registry.example.com/{name}:{tag}
        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}
"""


def write_legacy_repository(folder: Path) -> None:
    """Write a template, manifests, and files of other tools."""
    groups = [_GROUP.format(name=name.capitalize(), image=image, type=type) for name, type, image, _, _ in TEAMS]
    files = {"infra/cluster.yaml": _CLUSTER + "".join(groups), "infra/network.tf": 'module "vpc" {\n}\n'}
    files |= {f"apps/{name}.yaml": _DEPLOYMENT.format(name=name, gpus=gpus, tag=tag) for name, _, _, gpus, tag in TEAMS}
    files |= {"package.json": '{"name": "site"}\n', ".github/workflows/ci.yml": "on: push\n"}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)

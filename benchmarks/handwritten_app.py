"""The default GpuClusterStack written by hand for one purpose, without this library: what `synth.py` compares with.

L1 constructs with plain dicts for everything but the VPC, the flow log and the cluster with its kubectl provider,
where one L2 call makes many resources and is therefore the faster way.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import cast

import aws_cdk as cdk
import cdk8s
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk.lambda_layer_kubectl_v36 import KubectlV36Layer
from cdk8s_plus_28 import k8s

NAME = "GpuClusterStack"
POD_TRUST = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Principal": {"Service": "pods.eks.amazonaws.com"},
            "Action": ["sts:AssumeRole", "sts:TagSession"],
        }
    ],
}
EC2_TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}
USER_DATA = """Content-Type: multipart/mixed; boundary="b"
MIME-Version: 1.0

--b
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  instance:
    localStorage:
      strategy: RAID0
--b--
"""


def policy(name: str) -> dict[str, object]:
    return {"Fn::Join": ["", ["arn:", {"Ref": "AWS::Partition"}, f":iam::aws:policy/{name}"]]}


def launch_template(stack: cdk.Stack, id: str, size: int, user_data: str | None = None) -> ec2.CfnLaunchTemplate:
    tags = [{"key": "Name", "value": f"{NAME}-{id}"}]
    data: dict[str, object] = {
        "blockDeviceMappings": [
            {
                "deviceName": "/dev/xvda",
                "ebs": {
                    "volumeSize": size,
                    "volumeType": "gp3",
                    "iops": 3000,
                    "throughput": 125,
                    "encrypted": True,
                    "deleteOnTermination": True,
                },
            }
        ],
        "metadataOptions": {"httpEndpoint": "enabled", "httpTokens": "required", "httpPutResponseHopLimit": 1},
        "tagSpecifications": [{"resourceType": kind, "tags": tags} for kind in ("instance", "volume")],
    }
    if user_data:
        data["userData"] = base64.b64encode(user_data.encode()).decode()
    return ec2.CfnLaunchTemplate(stack, f"{id}Template", launch_template_data=data)


def gpu_group(stack: cdk.Stack, id: str, cluster_name: str, role_arn: str, subnets: list[str]) -> None:
    template = launch_template(stack, id, 100, USER_DATA)
    eks.CfnNodegroup(
        stack,
        id,
        cluster_name=cluster_name,
        node_role=role_arn,
        subnets=subnets,
        ami_type="AL2023_x86_64_NVIDIA",
        capacity_type="ON_DEMAND",
        instance_types=["g6.xlarge"],
        launch_template={"id": template.ref, "version": template.attr_latest_version_number},
        labels={
            "gpu-constructs.io/pool": id.lower(),
            "gpu-constructs.io/device-manager": "device-plugin",
            "k8s.amazonaws.com/accelerator": "nvidia-l4",
            "nvidia.com/gpu.present": "true",
        },
        taints=[{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}],
        tags={
            "k8s.io/cluster-autoscaler/node-template/resources/nvidia.com/gpu": "1",
            "k8s.io/cluster-autoscaler/node-template/resources/ephemeral-storage": "208Gi",
        },
        scaling_config={"minSize": 0, "maxSize": 4},
        update_config={"maxUnavailable": 1, "updateStrategy": "MINIMAL"},
        node_repair_config={"enabled": True},
    )


def main(groups: int) -> None:
    app = cdk.App()
    stack = cdk.Stack(app, NAME)
    log_group = logs.LogGroup(stack, "FlowLogs", retention=logs.RetentionDays.ONE_MONTH)
    vpc = ec2.Vpc(
        stack,
        "Vpc",
        ip_addresses=ec2.IpAddresses.cidr("10.0.0.0/16"),
        max_azs=2,
        nat_gateways=1,
        restrict_default_security_group=True,
        subnet_configuration=[
            ec2.SubnetConfiguration(name="Public", subnet_type=ec2.SubnetType.PUBLIC, cidr_mask=24),
            ec2.SubnetConfiguration(name="Private", subnet_type=ec2.SubnetType.PRIVATE_WITH_EGRESS, cidr_mask=19),
        ],
        gateway_endpoints={"S3": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)},
        flow_logs={
            "Rejected": ec2.FlowLogOptions(
                destination=ec2.FlowLogDestination.to_cloud_watch_logs(log_group),
                traffic_type=ec2.FlowLogTrafficType.REJECT,
            )
        },
    )
    private = vpc.private_subnets
    cluster = eks.Cluster(
        stack,
        "Cluster",
        cluster_name=NAME,
        version=eks.KubernetesVersion.of("1.36"),
        vpc=vpc,
        vpc_subnets=[ec2.SubnetSelection(subnets=private)],
        service_ipv4_cidr="172.20.0.0/16",
        endpoint_access=eks.EndpointAccess.PUBLIC_AND_PRIVATE,
        secrets_encryption_key=kms.Key(stack, "Key", enable_key_rotation=True),
        cluster_logging=list(eks.ClusterLoggingTypes),
        default_capacity_type=eks.DefaultCapacityType.NODEGROUP,
        default_capacity=0,
        bootstrap_self_managed_addons=False,
        bootstrap_cluster_creator_admin_permissions=False,
        kubectl_provider_options=eks.KubectlProviderOptions(kubectl_layer=KubectlV36Layer(stack, "Layer")),
    )
    # What applies manifests; the class lacks one property of its interface.
    applies = cast("eks.ICluster", cluster)
    cluster_name = cluster.cluster_name
    node_role = iam.CfnRole(
        stack,
        "NodeRole",
        assume_role_policy_document=EC2_TRUST,
        managed_policy_arns=[
            cdk.Token.as_string(policy(name))
            for name in ("AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly")
        ],
    )
    node_role_arn = node_role.attr_arn
    subnets = [subnet.subnet_id for subnet in private]
    system_template = launch_template(stack, "System", 50)
    system = eks.CfnNodegroup(
        stack,
        "System",
        cluster_name=cluster_name,
        node_role=node_role_arn,
        subnets=subnets,
        ami_type="AL2023_x86_64_STANDARD",
        instance_types=["m6i.large"],
        launch_template={"id": system_template.ref, "version": system_template.attr_latest_version_number},
        scaling_config={"minSize": 2, "maxSize": 4},
        update_config={"maxUnavailable": 1},
        node_repair_config={"enabled": True},
    )
    addons(stack, cluster_name, system, node_role)
    for number in range(groups):
        gpu_group(stack, f"Gpu{number}", cluster_name, node_role_arn, subnets)
    eks.KubernetesManifest(stack, "Plugin", cluster=applies, manifest=device_plugin())
    cluster_autoscaler(stack, applies, cluster_name)
    app.synth()


def addons(stack: cdk.Stack, cluster_name: str, system: eks.CfnNodegroup, node_role: iam.CfnRole) -> None:
    agent = eks.CfnAddon(
        stack,
        "Agent",
        addon_name="eks-pod-identity-agent",
        cluster_name=cluster_name,
        resolve_conflicts="OVERWRITE",
    )
    for name, account, managed in (
        ("vpc-cni", "aws-node", "AmazonEKS_CNI_Policy"),
        ("aws-ebs-csi-driver", "ebs-csi-controller-sa", "service-role/AmazonEBSCSIDriverPolicy"),
    ):
        role = iam.CfnRole(
            stack,
            f"{name}Role",
            assume_role_policy_document=POD_TRUST,
            managed_policy_arns=[cdk.Token.as_string(policy(managed))],
        )
        addon = eks.CfnAddon(
            stack,
            name,
            addon_name=name,
            cluster_name=cluster_name,
            resolve_conflicts="OVERWRITE",
            pod_identity_associations=[{"roleArn": role.attr_arn, "serviceAccount": account}],
        )
        addon.node.add_dependency(agent)
        if name == "vpc-cni":
            node_role.node.add_dependency(addon)
        else:
            addon.node.add_dependency(system)
    tolerations = json.dumps({"dcgmAgent": {"tolerations": [{"operator": "Exists"}]}})
    for name, values in (("kube-proxy", None), ("coredns", None), ("eks-node-monitoring-agent", tolerations)):
        addon = eks.CfnAddon(
            stack,
            name,
            addon_name=name,
            cluster_name=cluster_name,
            resolve_conflicts="OVERWRITE",
            configuration_values=values,
        )
        if name != "kube-proxy":
            addon.node.add_dependency(system)


def device_plugin() -> list[dict[str, object]]:
    chart = cdk8s.Chart(cdk8s.App(), "plugin")
    labels = {"app.kubernetes.io/name": "nvidia-device-plugin"}
    sockets = "/var/lib/kubelet/device-plugins"
    affinity = k8s.NodeAffinity(
        required_during_scheduling_ignored_during_execution=k8s.NodeSelector(
            node_selector_terms=[
                k8s.NodeSelectorTerm(
                    match_expressions=[
                        k8s.NodeSelectorRequirement(
                            key="gpu-constructs.io/device-manager", operator="In", values=["device-plugin"]
                        ),
                        k8s.NodeSelectorRequirement(
                            key="eks.amazonaws.com/compute-type", operator="NotIn", values=["auto"]
                        ),
                    ]
                )
            ]
        )
    )
    k8s.KubeDaemonSet(
        chart,
        "DaemonSet",
        metadata=k8s.ObjectMeta(name="nvidia-device-plugin", namespace="kube-system", labels=labels),
        spec=k8s.DaemonSetSpec(
            selector=k8s.LabelSelector(match_labels=labels),
            update_strategy=k8s.DaemonSetUpdateStrategy(type="RollingUpdate"),
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(labels=labels),
                spec=k8s.PodSpec(
                    priority_class_name="system-node-critical",
                    automount_service_account_token=False,
                    tolerations=[k8s.Toleration(operator="Exists")],
                    affinity=k8s.Affinity(node_affinity=affinity),
                    containers=[
                        k8s.Container(
                            name="nvidia-device-plugin",
                            image="nvcr.io/nvidia/k8s-device-plugin:v0.20.0",
                            env=[k8s.EnvVar(name="MOFED_ENABLED", value="false")],
                            resources=k8s.ResourceRequirements(
                                requests={
                                    "cpu": k8s.Quantity.from_string("10m"),
                                    "memory": k8s.Quantity.from_string("64Mi"),
                                }
                            ),
                            security_context=k8s.SecurityContext(
                                allow_privilege_escalation=False, capabilities=k8s.Capabilities(drop=["ALL"])
                            ),
                            volume_mounts=[k8s.VolumeMount(name="sockets", mount_path=sockets)],
                        )
                    ],
                    volumes=[
                        k8s.Volume(name="sockets", host_path=k8s.HostPathVolumeSource(path=sockets, type="Directory"))
                    ],
                ),
            ),
        ),
    )
    return list(chart.to_json())


def rule(groups: str, resources: str, verbs: str, names: str = "") -> k8s.PolicyRule:
    return k8s.PolicyRule(
        api_groups=[groups],
        resources=resources.split(),
        verbs=verbs.split(),
        resource_names=names.split() or None,
    )


def cluster_autoscaler(stack: cdk.Stack, cluster: eks.ICluster, cluster_name: str) -> None:
    me, read = "cluster-autoscaler", "watch list get"
    here = f"{stack.region}:{stack.account}"
    role = iam.CfnRole(
        stack,
        "AutoscalerRole",
        assume_role_policy_document=POD_TRUST,
        policies=[
            {
                "policyName": "ClusterAutoscaler",
                "policyDocument": {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Action": [
                                "autoscaling:DescribeAutoScalingGroups",
                                "autoscaling:DescribeLaunchConfigurations",
                                "autoscaling:DescribeScalingActivities",
                                "ec2:DescribeImages",
                                "ec2:DescribeInstanceTypes",
                                "ec2:DescribeLaunchTemplateVersions",
                                "ec2:GetInstanceTypesFromInstanceRequirements",
                            ],
                            "Resource": "*",
                        },
                        {
                            "Effect": "Allow",
                            "Action": "eks:DescribeNodegroup",
                            "Resource": f"arn:{stack.partition}:eks:{here}:nodegroup/{NAME}/*/*",
                        },
                        {
                            "Effect": "Allow",
                            "Action": [
                                "autoscaling:SetDesiredCapacity",
                                "autoscaling:TerminateInstanceInAutoScalingGroup",
                            ],
                            "Resource": f"arn:{stack.partition}:autoscaling:{here}:autoScalingGroup:*:autoScalingGroupName/*",
                            "Condition": {
                                "StringEquals": {
                                    "aws:ResourceTag/k8s.io/cluster-autoscaler/enabled": "true",
                                    f"aws:ResourceTag/k8s.io/cluster-autoscaler/{NAME}": "owned",
                                }
                            },
                        },
                    ],
                },
            }
        ],
    )
    association = eks.CfnPodIdentityAssociation(
        stack,
        "AutoscalerIdentity",
        cluster_name=cluster_name,
        namespace="kube-system",
        service_account=me,
        role_arn=role.attr_arn,
    )
    chart = cdk8s.Chart(cdk8s.App(), "autoscaler")
    labels = {"app.kubernetes.io/name": me}
    meta = k8s.ObjectMeta(name=me, namespace="kube-system", labels=labels)
    wide = k8s.ObjectMeta(name=me, labels=labels)
    subject = k8s.Subject(kind="ServiceAccount", name=me, namespace="kube-system")
    k8s.KubeServiceAccount(chart, "ServiceAccount", metadata=meta)
    k8s.KubeClusterRole(
        chart,
        "ClusterRole",
        metadata=wide,
        rules=[
            rule("", "events endpoints", "create patch"),
            rule("", "pods/eviction", "create"),
            rule("", "pods/status", "update"),
            rule("", "endpoints", "get update", me),
            rule("", "nodes", "watch list get update"),
            rule(
                "",
                "namespaces pods services replicationcontrollers persistentvolumeclaims persistentvolumes",
                read,
            ),
            rule("policy", "poddisruptionbudgets", "watch list"),
            rule("apps", "statefulsets replicasets daemonsets", read),
            rule("resource.k8s.io", "deviceclasses resourceslices resourceclaims", read),
            rule("storage.k8s.io", "storageclasses csinodes csidrivers csistoragecapacities volumeattachments", read),
            rule("batch", "jobs", "get list watch patch"),
            rule("coordination.k8s.io", "leases", "create"),
            rule("coordination.k8s.io", "leases", "get update", me),
        ],
    )
    group = "rbac.authorization.k8s.io"
    k8s.KubeClusterRoleBinding(
        chart,
        "ClusterRoleBinding",
        metadata=wide,
        role_ref=k8s.RoleRef(api_group=group, kind="ClusterRole", name=me),
        subjects=[subject],
    )
    k8s.KubeRole(
        chart,
        "Role",
        metadata=meta,
        rules=[
            rule("", "configmaps", "create list watch"),
            rule(
                "",
                "configmaps",
                "delete get update watch",
                "cluster-autoscaler-status cluster-autoscaler-priority-expander",
            ),
        ],
    )
    k8s.KubeRoleBinding(
        chart,
        "RoleBinding",
        metadata=meta,
        role_ref=k8s.RoleRef(api_group=group, kind="Role", name=me),
        subjects=[subject],
    )
    memory = k8s.Quantity.from_string("600Mi")
    k8s.KubeDeployment(
        chart,
        "Deployment",
        metadata=meta,
        spec=k8s.DeploymentSpec(
            replicas=1,
            selector=k8s.LabelSelector(match_labels=labels),
            template=k8s.PodTemplateSpec(
                metadata=k8s.ObjectMeta(
                    labels=labels, annotations={"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
                ),
                spec=k8s.PodSpec(
                    service_account_name=me,
                    priority_class_name="system-cluster-critical",
                    security_context=k8s.PodSecurityContext(
                        run_as_non_root=True,
                        run_as_user=65534,
                        fs_group=65534,
                        seccomp_profile=k8s.SeccompProfile(type="RuntimeDefault"),
                    ),
                    tolerations=[k8s.Toleration(key="CriticalAddonsOnly", operator="Exists")],
                    containers=[
                        k8s.Container(
                            name=me,
                            image="registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1",
                            command=[
                                "./cluster-autoscaler",
                                "--cloud-provider=aws",
                                "--namespace=kube-system",
                                "--node-group-auto-discovery=asg:tag=k8s.io/cluster-autoscaler/enabled,"
                                f"k8s.io/cluster-autoscaler/{NAME}",
                                "--expander=least-waste",
                                "--skip-nodes-with-local-storage=false",
                                "--max-node-provision-time=30m",
                            ],
                            env=[k8s.EnvVar(name="AWS_REGION", value=stack.region)],
                            liveness_probe=k8s.Probe(
                                http_get=k8s.HttpGetAction(path="/health-check", port=k8s.IntOrString.from_number(8085))
                            ),
                            resources=k8s.ResourceRequirements(
                                requests={"cpu": k8s.Quantity.from_string("100m"), "memory": memory},
                                limits={"memory": memory},
                            ),
                        )
                    ],
                ),
            ),
        ),
    )
    k8s.KubePodDisruptionBudget(
        chart,
        "PodDisruptionBudget",
        metadata=meta,
        spec=k8s.PodDisruptionBudgetSpec(
            max_unavailable=k8s.IntOrString.from_number(1), selector=k8s.LabelSelector(match_labels=labels)
        ),
    )
    applied = eks.KubernetesManifest(stack, "Autoscaler", cluster=cluster, manifest=chart.to_json())
    applied.node.add_dependency(association)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)

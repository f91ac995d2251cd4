"""Faults of IAM roles: their trust policies and their permissions."""

from __future__ import annotations

from tests.rehearsal.faults.assembly import CloudAssembly
from tests.rehearsal.faults.fault import fault

_EC2 = "ec2.amazonaws.com"
_EKS = "eks.amazonaws.com"
_POD_IDENTITY = "https://docs.aws.amazon.com/eks/latest/userguide/pod-id-role.html"
_NODE_ROLE = "https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html"
_KARPENTER = "https://karpenter.sh/docs/reference/cloudformation/"
_TRUST = r"trust|AssumeRole|sts:"


@fault(
    consequence="EKS Pod Identity gives Karpenter's pods no credentials, so no GPU node is ever launched.",
    cause=("karpenter", _TRUST),
    changes="AWS::IAM::Role",
    source=_POD_IDENTITY,
)
def karpenter_role_trusts_ec2(app: CloudAssembly) -> None:
    """Karpenter's role trusts only ec2.amazonaws.com."""
    trust = app.role_for("karpenter")["AssumeRolePolicyDocument"]
    trust["Statement"] = [{"Effect": "Allow", "Principal": {"Service": _EC2}, "Action": "sts:AssumeRole"}]


@fault(
    consequence="EKS Pod Identity can't tag the session, so AssumeRole fails and Karpenter has no credentials.",
    cause=("karpenter", "TagSession"),
    changes="AWS::IAM::Role",
    source=_POD_IDENTITY,
)
def karpenter_role_without_tag_session(app: CloudAssembly) -> None:
    """The trust policy of Karpenter's role doesn't allow sts:TagSession."""
    [statement] = app.role_for("karpenter")["AssumeRolePolicyDocument"]["Statement"]
    statement["Action"] = ["sts:AssumeRole"]


@fault(
    consequence="The session tag never matches, so Karpenter's pods get no credentials.",
    cause=("karpenter", "service.?account"),
    changes="AWS::IAM::Role",
    source="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-abac.html",
)
def karpenter_trust_of_another_account(app: CloudAssembly) -> None:
    """The trust policy of Karpenter's role requires the session tag of another service account."""
    [statement] = app.role_for("karpenter")["AssumeRolePolicyDocument"]["Statement"]
    statement["Condition"]["StringEquals"]["aws:RequestTag/kubernetes-service-account"] = "karpenter-controller"


@fault(
    consequence="RunInstances with the node role is denied, so Karpenter launches no node.",
    cause=("karpenter", "PassRole|pass role"),
    changes="AWS::IAM::ManagedPolicy",
    source=_KARPENTER,
)
def karpenter_without_pass_role(app: CloudAssembly) -> None:
    """Karpenter's role doesn't allow iam:PassRole."""
    app.deny("iam:PassRole")


@fault(
    consequence="Karpenter's controller can't look up its interruption queue and exits.",
    cause=("karpenter", r"sqs:|queue"),
    changes="AWS::IAM::ManagedPolicy",
    source=_KARPENTER,
)
def karpenter_without_queue_permissions(app: CloudAssembly) -> None:
    """Karpenter's role doesn't allow sqs:GetQueueUrl and sqs:ReceiveMessage."""
    app.deny("sqs:GetQueueUrl", "sqs:ReceiveMessage")


@fault(
    consequence="Karpenter's pods have no credentials and no GPU node is launched.",
    cause=("karpenter", r"association|service.?account"),
    changes="AWS::EKS::PodIdentityAssociation",
    source="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-association.html",
)
def karpenter_association_of_another_account(app: CloudAssembly) -> None:
    """The Pod Identity association of Karpenter's role names another service account."""
    app.one("AWS::EKS::PodIdentityAssociation", ServiceAccount="karpenter")["ServiceAccount"] = "karpenter-controller"


@fault(
    consequence="The size function is denied, so each managed node group and then the stack fails to create.",
    cause=(r"size|role", "DescribeStackResource"),
    changes="AWS::IAM::Role",
    source="https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResource.html",
)
def size_function_without_describe_stack_resource(app: CloudAssembly) -> None:
    """The role of the function that answers node group sizes doesn't allow cloudformation:DescribeStackResource."""
    app.deny("cloudformation:DescribeStackResource")


@fault(
    consequence="`aws eks update-kubeconfig` in the handler is denied, so the first object and then the stack fail.",
    cause=(r"kubectl|handler|role", "DescribeCluster"),
    changes="AWS::IAM::Policy",
    source="https://docs.aws.amazon.com/cli/latest/reference/eks/update-kubeconfig.html",
)
def kubectl_handler_without_describe_cluster(app: CloudAssembly) -> None:
    """The role of the kubectl handler doesn't allow eks:DescribeCluster."""
    group = app.containing("AWS::Lambda::Function", "onEvent handler for EKS kubectl")
    role = app.resources[group]["Properties"]["Role"]["Fn::GetAtt"][0]
    policy = app.one("AWS::IAM::Policy", Roles=[{"Ref": role}])["PolicyDocument"]
    [statement] = policy["Statement"]
    statement["Action"] = "eks:ListClusters"


@fault(
    consequence="The VPC CNI can't attach addresses, so nodes stay NotReady and no pod starts.",
    cause=(r"cni|aws-node", r"policy|polic|AssignPrivateIpAddresses|AmazonEKS_CNI_Policy"),
    changes="AWS::IAM::Role",
    source="https://docs.aws.amazon.com/eks/latest/userguide/cni-iam-role.html",
)
def cni_role_without_policy(app: CloudAssembly) -> None:
    """The role of the VPC CNI has no policy."""
    app.role_for("aws-node")["ManagedPolicyArns"] = []


@fault(
    consequence="The EBS CSI driver has no credentials, so no volume is created or attached.",
    cause=(r"ebs", _TRUST),
    changes="AWS::IAM::Role",
    source=_POD_IDENTITY,
)
def ebs_role_trusts_ec2(app: CloudAssembly) -> None:
    """The role of the EBS CSI driver trusts only ec2.amazonaws.com."""
    trust = app.role_for("ebs-csi-controller-sa")["AssumeRolePolicyDocument"]
    trust["Statement"] = [{"Effect": "Allow", "Principal": {"Service": _EC2}, "Action": "sts:AssumeRole"}]


@fault(
    consequence="Nodes can't describe themselves and can't pull images from ECR, so they never join the cluster.",
    cause=("role", r"polic|AmazonEKSWorkerNodePolicy"),
    changes="AWS::IAM::Role",
    source=_NODE_ROLE,
)
def node_roles_without_policies(app: CloudAssembly) -> None:
    """The node roles of the managed groups and of Karpenter have no policies."""
    for role in app.roles_for(_EC2):
        role["ManagedPolicyArns"] = []


@fault(
    consequence="EC2 can't assume the role of its instances. EKS rejects the node groups, and no node joins.",
    cause=("role", r"trust|AssumeRole"),
    changes="AWS::IAM::Role",
    source=_NODE_ROLE,
)
def node_roles_trust_eks(app: CloudAssembly) -> None:
    """The node roles trust eks.amazonaws.com instead of ec2.amazonaws.com."""
    for role in app.roles_for(_EC2):
        role["AssumeRolePolicyDocument"]["Statement"][0]["Principal"] = {"Service": _EKS}


@fault(
    consequence="The nodes' kubelets may not register, so Karpenter's instances never become nodes.",
    cause=(r"access.?entry|AccessEntry", r"STANDARD|EC2_LINUX|type"),
    changes="AWS::EKS::AccessEntry",
    source="https://docs.aws.amazon.com/eks/latest/userguide/access-entries.html",
)
def node_access_entry_of_type_standard(app: CloudAssembly) -> None:
    """The access entry of Karpenter's node role has the type STANDARD."""
    app.one("AWS::EKS::AccessEntry", Type="EC2_LINUX")["Type"] = "STANDARD"


@fault(
    consequence="No pod gets credentials from EKS Pod Identity: not the VPC CNI, the EBS CSI driver or Karpenter.",
    cause=(r"eks-pod-identity-agent",),
    changes="AWS::EKS::Addon",
    source="https://docs.aws.amazon.com/eks/latest/userguide/pod-id-agent-setup.html",
)
def pod_identity_agent_missing(app: CloudAssembly) -> None:
    """The cluster has no add-on eks-pod-identity-agent."""
    app.remove(app.find("AWS::EKS::Addon", AddonName="eks-pod-identity-agent"))

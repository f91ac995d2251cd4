"""Causes in which the launch of a node fails, or it never registers: ids K4, K18 with E1 to E13, K19 and K20."""

from __future__ import annotations

from tests.e2e.doctor.cause import job, trainer
from tests.e2e.doctor.karpenter_causes import GPU_POOL, SMALL, UNSCHEDULABLE, pool_requirements
from tests.e2e.doctor.karpenter_world import KarpenterCause, KarpenterWorld

# Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html and
# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html (2026-11)
_NO_CAPACITY = (
    "InsufficientInstanceCapacity",
    "We currently do not have sufficient {type} capacity in the Availability Zone you requested ({zone}). Our system "
    "will be working on provisioning additional capacity. You can currently get {type} capacity by not specifying an "
    "Availability Zone in your request or choosing us-east-1c, us-east-1d.",
)
_NO_QUOTA = (
    "VcpuLimitExceeded",
    "You have requested more vCPU capacity than your current vCPU limit of 0 allows for the instance bucket that the "
    "specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an "
    "adjustment to this limit.",
)
_NO_SPOT_QUOTA = ("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
_NOT_IN_ZONE = (
    "Unsupported",
    "Your requested instance type ({type}) is not supported in your requested Availability Zone ({zone}). Please retry "
    "your request by not specifying an Availability Zone or choosing us-east-1c, us-east-1d.",
)
_NO_ADDRESSES = (
    "InsufficientFreeAddressesInSubnet",
    "There are not enough free addresses in subnet 'subnet-0a1b2c3d4e5f60718' to satisfy the requested number of "
    "instances.",
)
_NO_SERVICE_LINKED_ROLE = (
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
)
_EC2_TEXTS = ("EC2 User Guide, Troubleshoot instance launch issues; EC2 API Reference, Error codes (2026-11)",)
_LAUNCH_FAILED = r"Launched=Unknown: (?!AwaitingReconciliation)"
_ICE = r"NodeClaim: InsufficientCapacityError: "


def _launch_cause(
    name: str, why: str, inner: str, error: tuple[str, str], kind: str, capacity: str = "on-demand"
) -> KarpenterCause:
    """Return a cause in which EC2 rejects the launches of a type that no other cause uses."""
    never = tuple(sorted({"E1", "E2", "E3", "E4", "E11", "E13", "K19", "K11", "K9"} - {inner}))
    return KarpenterCause(
        name=name,
        why=why,
        first=("K18", inner),
        also=(inner,),
        never=never,
        until=(_ICE + rf".*{error[0]}",),
        pools={"gpu": pool_requirements(kind, capacity=capacity)},
        objects=(job(trainer(**SMALL)),),
        # An error about Spot hides all Spot capacity for minutes.
        first_change=KarpenterWorld.restart_karpenter if capacity == "spot" else None,
        launch_error=error,
        age_seconds=15.0,
        sources=_EC2_TEXTS,
    )


# Karpenter hides a whole zone for minutes after E13, and all Spot capacity after E3 and E11. So they come last.
LAUNCH_CAUSES = (
    _launch_cause("k18-e1-no-capacity", "EC2 has no g5.2xlarge in any zone.", "E1", _NO_CAPACITY, "g5.2xlarge"),
    _launch_cause(
        "k18-e2-vcpu-quota", "The vCPU quota of the account for P instances is 0.", "E2", _NO_QUOTA, "p4d.24xlarge"
    ),
    _launch_cause(
        "k18-e4-type-not-in-the-zones",
        "The zones of the subnets don't offer g6e.xlarge.",
        "E4",
        _NOT_IN_ZONE,
        "g6e.xlarge",
    ),
    KarpenterCause(
        name="k19-unauthorized",
        why="A policy denies Karpenter's role ec2:CreateFleet after its NodePool became ready.",
        first=("K19", "E12"),
        also=(),
        never=("K18", "E1", "E2", "K20", "K3"),
        until=(_LAUNCH_FAILED,),
        pools={"gpu": pool_requirements("g4dn.2xlarge")},
        before=lambda world: world.deny("ec2:CreateFleet"),
        objects=(job(trainer(**SMALL)),),
        age_seconds=3.0,
    ),
    KarpenterCause(
        name="k4-role-may-not-create-fleets",
        why="A policy denies Karpenter's role ec2:CreateFleet, so the EC2NodeClass isn't valid.",
        first=("K4",),
        never=("K2", "K18", "E1", "K1"),
        until=(r"ValidationSucceeded=False: CreateFleetAuthCheckFailed", r"NodeClassReady=False", UNSCHEDULABLE),
        pools=GPU_POOL,
        first_change=lambda world: world.deny("ec2:CreateFleet"),
        ready=False,
        objects=(job(trainer(**SMALL)),),
        age_seconds=12.0,
    ),
    KarpenterCause(
        name="k19-image-is-gone",
        why="EC2 rejects the launch because the AMI was deregistered after Karpenter resolved it.",
        first=("K19", "E6"),
        never=("K18", "E1", "E2", "K20"),
        until=(_LAUNCH_FAILED,),
        pools={"gpu": pool_requirements("g4dn.4xlarge")},
        objects=(job(trainer(**SMALL)),),
        launch_error=("InvalidAMIID.NotFound", "The image id '[ami-0a1b2c3d4e5f60718]' does not exist"),
        sources=_EC2_TEXTS,
        age_seconds=3.0,
    ),
    _launch_cause("k18-e13-subnet-is-full", "The subnets have no free address.", "E13", _NO_ADDRESSES, "g5.xlarge"),
    _launch_cause(
        "k18-e3-spot-quota",
        "The spot quota of the account is used up.",
        "E3",
        _NO_SPOT_QUOTA,
        "g4dn.xlarge",
        capacity="spot",
    ),
    _launch_cause(
        "k18-e11-no-service-linked-role",
        "The service-linked role of EC2 Spot doesn't exist, and Karpenter's role may not create it.",
        "E11",
        _NO_SERVICE_LINKED_ROLE,
        "g5.4xlarge",
        capacity="spot",
    ),
    KarpenterCause(
        name="k20-never-registers",
        why="The instance runs, and it never becomes a node.",
        first=("K20",),
        never=("K17", "K18", "K23", "K2"),
        confidence="likely",
        no_nodes=True,
        until=(r"karpenter: Pod: Nominated", r"Registered=Unknown: NodeNotFound"),
        pools=GPU_POOL,
        objects=(job(trainer(**SMALL)),),
        age_seconds=330.0,
    ),
)

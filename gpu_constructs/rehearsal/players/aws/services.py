"""All services that are played, put together."""

from __future__ import annotations

from collections.abc import Callable

from gpu_constructs.rehearsal.players.aws.api.operations import Play, operations_of
from gpu_constructs.rehearsal.players.aws.calls import Call
from gpu_constructs.rehearsal.players.aws.data_repositories import DataRepositories
from gpu_constructs.rehearsal.players.aws.ec2.capacity import Capacity
from gpu_constructs.rehearsal.players.aws.ec2.catalogue import Catalogue
from gpu_constructs.rehearsal.players.aws.ec2.fleets import Fleets
from gpu_constructs.rehearsal.players.aws.ec2.images import Images
from gpu_constructs.rehearsal.players.aws.ec2.instances import Instances
from gpu_constructs.rehearsal.players.aws.ec2.launches import Launches
from gpu_constructs.rehearsal.players.aws.ec2.notices import Notices
from gpu_constructs.rehearsal.players.aws.ec2.placement_groups import PlacementGroups
from gpu_constructs.rehearsal.players.aws.ec2.prices import Prices
from gpu_constructs.rehearsal.players.aws.ec2.reservations import Reservations
from gpu_constructs.rehearsal.players.aws.ec2.sizes import Sizes
from gpu_constructs.rehearsal.players.aws.eks.access import Access
from gpu_constructs.rehearsal.players.aws.eks.addons import Addons
from gpu_constructs.rehearsal.players.aws.eks.clusters import Clusters
from gpu_constructs.rehearsal.players.aws.eks.identities import Identities
from gpu_constructs.rehearsal.players.aws.eks.nodegroups import Nodegroups
from gpu_constructs.rehearsal.players.aws.functions import Functions
from gpu_constructs.rehearsal.players.aws.instance_profiles import InstanceProfiles
from gpu_constructs.rehearsal.players.aws.managed_policies import ManagedPolicies
from gpu_constructs.rehearsal.players.aws.principals import Principals
from gpu_constructs.rehearsal.players.aws.region import Region
from gpu_constructs.rehearsal.players.aws.registries import Registries
from gpu_constructs.rehearsal.players.aws.roles import Roles
from gpu_constructs.rehearsal.players.aws.scaling.groups import Groups
from gpu_constructs.rehearsal.players.aws.schedules import Schedules
from gpu_constructs.rehearsal.players.aws.stacks import Stacks
from gpu_constructs.rehearsal.players.credentials import Credentials


class Services:
    """Everybody who plays a part of AWS, each knowing those whom they need.

    Args:
        region: Where they are.
        principals: Whose keys are known.
        capacity: What EC2 has left to sell.
        write: Writes a call down.
    """

    def __init__(
        self, region: Region, principals: Principals, capacity: Capacity, write: Callable[[Call], None]
    ) -> None:
        self.functions, self.stacks = Functions(), Stacks()
        self.roles = Roles(region, principals, write)
        self.schedules = Schedules(region, self.roles)
        self.notices, self.reservations = Notices(region, write), Reservations(region)
        self.launches = Launches(region, capacity, self.reservations, self.notices)
        self.groups = Groups(region, self.launches)
        self.clusters = Clusters(region)
        self.identities, images = Identities(self.clusters), Images(region)
        access = Access(region, self.clusters, principals)
        self._others = (
            access,
            images,
            Addons(self.clusters, self.identities),
            Catalogue(region),
            DataRepositories(region),
            Fleets(region, self.launches, Sizes(region)),
            InstanceProfiles(region),
            Instances(region, self.launches),
            ManagedPolicies(region),
            Nodegroups(region, self.clusters, access, images, self.launches, self.groups),
            PlacementGroups(region),
            Prices(),
            Registries(),
        )

    def played(self) -> dict[tuple[str, str], Play]:
        """Return who answers what moto lacks, by service and operation."""
        players = (
            self.functions,
            self.stacks,
            self.roles,
            self.reservations,
            self.groups,
            self.clusters,
            self.identities,
        )
        return {key: play for player in (*players, *self._others) for key, play in operations_of(player).items()}

    def pod_credentials(self, cluster: str, namespace: str, account: str, pod: str) -> Credentials | None:
        """Return the credentials that a pod gets by Pod Identity; nothing when its service account has no role.

        Raises:
            AwsRefusal: The role does not trust pods, or not these.
        """
        found = self.clusters.find(cluster)
        association = self.identities.of(found, namespace, account)
        if association is None:
            return None
        tags = self.identities.session_tags(found, namespace, account, pod)
        role = str(association["roleArn"])
        return self.roles.assume(role, kind="Service", principal="pods.eks.amazonaws.com", tags=tags)

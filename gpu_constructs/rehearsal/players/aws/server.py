"""AWS at one address: moto's server in this process, what it lacks, and who called what."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from threading import Event, Thread
from traceback import format_exc
from types import TracebackType
from typing import Any

from moto.backends import get_backend
from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import make_server

from gpu_constructs.rehearsal.players.aws.api.validation import add_to
from gpu_constructs.rehearsal.players.aws.calls import Call
from gpu_constructs.rehearsal.players.aws.ec2.capacity import Capacity
from gpu_constructs.rehearsal.players.aws.ec2.existing import have_network
from gpu_constructs.rehearsal.players.aws.ec2.notices import INTERRUPTION, REBALANCE
from gpu_constructs.rehearsal.players.aws.ec2.reservations import Reservation
from gpu_constructs.rehearsal.players.aws.front import Front
from gpu_constructs.rehearsal.players.aws.functions import Invoke
from gpu_constructs.rehearsal.players.aws.permissions.judge import Judge
from gpu_constructs.rehearsal.players.aws.permissions.statements import Statement, statements_of
from gpu_constructs.rehearsal.players.aws.principals import Principals
from gpu_constructs.rehearsal.players.aws.region import Region
from gpu_constructs.rehearsal.players.aws.services import Services
from gpu_constructs.rehearsal.players.aws.stacks import Describe
from gpu_constructs.rehearsal.players.credentials import Credentials

LOOPBACK = "127.0.0.1"
TICK_SECONDS = 1.0
# Of stacks that say none. AWS's own documents have it for examples.
ACCOUNT = "123456789012"


class _Silent(MotoRequestHandler):
    """Answers without a line for each request: `Aws.calls` tells them."""

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Say nothing."""


class Aws:
    """One region of one account, that lives as long as its ``with`` block. moto keeps one world a process: so do we.

    Args:
        region: Region of everything.
        account: Account of everything: twelve digits.

    Attributes:
        account: The same.
        calls: Every call, in order.
        capacity: What EC2 has left to sell.
        endpoint: Address that answers for every service.
    """

    endpoint: str

    def __init__(self, *, region: str, account: str = ACCOUNT) -> None:
        self.region, self.account = region, account
        self.calls: list[Call] = []
        self.capacity = Capacity()
        self._principals = Principals(self.account)
        self._running = ExitStack()

    def __enter__(self) -> Aws:
        """Start the server."""
        port = _free_port()
        self.endpoint = f"http://{LOOPBACK}:{port}"
        self._region = Region(name=self.region, account=self.account, endpoint=self.endpoint)
        # To append is one step of a list, whoever else appends.
        self._services = Services(self._region, self._principals, self.capacity, self.calls.append)
        front = Front(self._services.played(), self._principals, Judge(self._region), self.calls.append)
        server = make_server(LOOPBACK, port, front, threaded=True, request_handler=_Silent)
        self._running.callback(_forget, self.account)
        self._running.callback(server.server_close)
        over = Event()
        serve = partial(server.serve_forever, poll_interval=0.02)
        for target, end in ((serve, server.shutdown), (partial(self._tick, over), over.set)):
            thread = Thread(target=target, daemon=True)
            thread.start()
            self._running.callback(thread.join)
            self._running.callback(end)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it, and forget all that was made."""
        self._running.close()

    @property
    def administrator(self) -> str:
        """ARN of the role that deploys, which EKS calls the creator of a cluster."""
        return self._principals.administrator

    @property
    def functions(self) -> Invoke | None:
        """What runs a function of Lambda: called with its name and the payload, returns the answer."""
        return self._services.functions.invoke

    @functions.setter
    def functions(self, invoke: Invoke) -> None:
        self._services.functions.invoke = invoke

    @property
    def stacks(self) -> Describe | None:
        """What tells of a stack: called with its name or ARN, returns a ``Stack`` of DescribeStacks."""
        return self._services.stacks.describe

    @stacks.setter
    def stacks(self, describe: Describe) -> None:
        self._services.stacks.describe = describe

    def credentials(self, role: str = "", *, tags: dict[str, str] | None = None) -> Credentials:
        """Return an access key that is known as the role's, whatever its trust policy says.

        Args:
            role: ARN; empty for the administrator.
            tags: Session tags.
        """
        return self._principals.credentials(role, tags=tags)

    def assume(self, role: str, *, service: str) -> Credentials:
        """Return credentials of a role for a service that its trust policy lets in.

        Args:
            role: ARN.
            service: ``lambda.amazonaws.com``.

        Raises:
            AwsRefusal: It does not.
        """
        return self._services.roles.assume(role, kind="Service", principal=service)

    def pod_credentials(self, cluster: str, *, namespace: str, service_account: str, pod: str) -> Credentials | None:
        """Return the credentials that a pod gets by Pod Identity; nothing when its service account has no role.

        Args:
            cluster: Name of the cluster.
            namespace: Namespace of the pod.
            service_account: Its service account.
            pod: Its name.

        Raises:
            AwsRefusal: The role does not trust pods, or not these.
        """
        return self._services.pod_credentials(cluster, namespace, service_account, pod)

    def role_of(self, access_key: str) -> str:
        """Return the ARN of the role whose key this is; empty for the administrator.

        Raises:
            AwsRefusal: Nobody has it.
        """
        return self._principals.role_of(access_key)

    def statements(self, role: str) -> list[Statement]:
        """Return all that the policies of a role say, used or not."""
        return statements_of(self.account, role)

    def client(self, service: str, *, role: str = "", credentials: Credentials | None = None) -> Any:
        """Return a client of the SDK that checks what it sends by all that the SDK's model says.

        Args:
            service: Name of the client, ``ec2``.
            role: ARN of the role that it acts as; empty for the administrator.
            credentials: Whose it is instead, e.g. a pod's.
        """
        client = self._region.client(service, credentials or self.credentials(role))
        add_to(client)
        return client

    def serve_cluster(self, name: str, *, endpoint: str, certificate_authority: bytes) -> None:
        """Say where the API server of a cluster is: from now on it is active.

        Args:
            name: Name of the cluster, made already or yet to be made.
            endpoint: ``https://...``.
            certificate_authority: PEM that its certificate is checked with.
        """
        self._services.clusters.serve(name, endpoint, certificate_authority)

    def have_network(self, *, vpc: str, in_zones: Sequence[str]) -> None:
        """Have a VPC of somebody else, before anything is made.

        Args:
            vpc: Its id.
            in_zones: Ids of its subnets, each in the next Availability Zone.
        """
        have_network(self._region, vpc=vpc, in_zones=in_zones)

    def reserve(
        self, identity: str, *, instance_type: str, zone: str, count: int, kind: str = "default", state: str = "active"
    ) -> Reservation:
        """Have capacity that was bought before, and return it; its state is changed by who holds it.

        Args:
            identity: ``cr-...``.
            instance_type: What is reserved.
            zone: Where.
            count: How many.
            kind: ``default`` or ``capacity-block``.
            state: ``scheduled`` before it begins, ``active``, or ``expired``.
        """
        reservation = Reservation(
            id=identity, instance_type=instance_type, zone=zone, count=count, kind=kind, state=state
        )
        self._services.reservations.add(reservation)
        return reservation

    def interrupt(self, instance: str) -> None:
        """Warn of the interruption of a spot instance, which EC2 ends two minutes later: so does `terminate`.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
        """
        self._services.notices.tell(INTERRUPTION, instance, {"instance-action": "terminate"})

    def recommend_rebalance(self, instance: str) -> None:
        """Tell that a spot instance is at elevated risk of interruption.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
        """
        self._services.notices.tell(REBALANCE, instance, {})

    def terminate(self, instance: str) -> None:
        """End an instance, as EC2 itself does."""
        self._services.launches.terminate([instance])

    def fire(self, schedule: str, *, group: str = "default") -> Any:
        """Have the time of a schedule of EventBridge come, and return what its call answers.

        Args:
            schedule: Its name.
            group: Its group.

        Raises:
            AwsRefusal: Its role does not let the scheduler in.
            ClientError: The call was refused.
        """
        return self._services.schedules.fire(schedule, group=group)

    def _tick(self, over: Event) -> None:
        """Have Auto Scaling do what it does by itself, until it is over."""
        while not over.wait(TICK_SECONDS):
            try:
                self._services.groups.settle()
            except Exception:
                # Nobody asked, so nobody would be told.
                broken = Call(principal="autoscaling.amazonaws.com", service="autoscaling", action="autoscaling:Settle")
                self.calls.append(broken.refused("InternalFailure", format_exc()))


def _free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


def _forget(account: str) -> None:
    """Have moto forget what was made in an account."""
    for name in ("ec2", "events", "iam", "kms", "logs", "s3", "scheduler", "sqs", "ssm"):
        backend: Any = get_backend(name)
        backend[account].clear()

"""What EC2 has left to sell, by type, zone and purchase."""

from __future__ import annotations

from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal


class Capacity:
    """Everything is to be had, until somebody takes the last one."""

    def __init__(self) -> None:
        self._exhausted: set[tuple[str, str, str]] = set()

    def exhaust(self, instance_type: str, zone: str, *, lifecycle: str = "on-demand") -> None:
        """Have a zone be out of a type.

        Args:
            instance_type: ``p5.48xlarge``.
            zone: ``us-east-1a``.
            lifecycle: ``on-demand`` or ``spot``.
        """
        self._exhausted.add((instance_type, zone, lifecycle))

    def restore(self, instance_type: str, zone: str, *, lifecycle: str = "on-demand") -> None:
        """Have it again."""
        self._exhausted.discard((instance_type, zone, lifecycle))

    def restore_all(self) -> None:
        """Have everything again."""
        self._exhausted.clear()

    def check(self, instance_type: str, zone: str, lifecycle: str) -> None:
        """Refuse to sell what is not there, in EC2's words.

        Source: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/troubleshooting-launch.html

        Raises:
            AwsRefusal: There is none.
        """
        if (instance_type, zone, lifecycle) in self._exhausted:
            raise AwsRefusal(
                "InsufficientInstanceCapacity",
                f"We currently do not have sufficient {instance_type} capacity in the Availability Zone you requested "
                f"({zone}). Our system will be working on provisioning additional capacity.",
            )

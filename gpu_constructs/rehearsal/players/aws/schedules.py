"""EventBridge Scheduler, as far as a schedule calls an API when its time has come, which the stage says.

Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html
"""

from __future__ import annotations

import json
from typing import Any

from moto.core.utils import get_service_model

from gpu_constructs.rehearsal.players.aws.api.refusals import Unplayed
from gpu_constructs.rehearsal.players.aws.region import Region
from gpu_constructs.rehearsal.players.aws.roles import Roles

_SCHEDULER = "scheduler.amazonaws.com"
_UNIVERSAL = "arn:aws:scheduler:::aws-sdk:"


class Schedules:
    """The schedules of a region.

    Args:
        region: Where they are.
        roles: Who gives them their roles.
    """

    def __init__(self, region: Region, roles: Roles) -> None:
        self._region, self._roles = region, roles

    def fire(self, name: str, *, group: str = "default") -> Any:
        """Have the time of a schedule come, and return what its call answers.

        Args:
            name: Name of the schedule.
            group: Its group.

        Raises:
            AwsRefusal: Its role does not let the scheduler in.
            ClientError: The call was refused.
        """
        target = self._region.service("scheduler").get_schedule(Name=name, GroupName=group)["Target"]
        if not target["Arn"].startswith(_UNIVERSAL):
            raise Unplayed(f"the target {target['Arn']} of a schedule")
        service, _, action = target["Arn"].removeprefix(_UNIVERSAL).partition(":")
        # Source: https://docs.aws.amazon.com/scheduler/latest/UserGuide/cross-service-confused-deputy-prevention.html
        source = {
            "aws:SourceAccount": self._region.account,
            "aws:SourceArn": self._region.arn("scheduler", f"schedule-group/{group}"),
        }
        credentials = self._roles.assume(
            target["RoleArn"], kind="Service", principal="scheduler.amazonaws.com", source=source
        )
        operation = action[0].upper() + action[1:]
        shape = get_service_model(service).operation_model(operation).input_shape
        client = self._region.client(service, credentials)
        method = {value: key for key, value in client.meta.method_to_api_mapping.items()}[operation]
        return getattr(client, method)(**_renamed(json.loads(target.get("Input") or "{}"), shape))


def _renamed(value: Any, shape: Any) -> Any:
    """Return what a schedule says under the names of the SDK's model; a schedule has all of them begin in capitals."""
    if shape.type_name == "structure":
        names = {name.lower(): name for name in shape.members}
        return {names[key.lower()]: _renamed(one, shape.members[names[key.lower()]]) for key, one in value.items()}
    if shape.type_name == "list":
        return [_renamed(one, shape.member) for one in value]
    return value

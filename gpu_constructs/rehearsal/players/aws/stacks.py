"""CloudFormation, as far as others ask how a stack is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpu_constructs.rehearsal.players.aws.api.operations import plays
from gpu_constructs.rehearsal.players.aws.api.refusals import AwsRefusal, Unplayed
from gpu_constructs.rehearsal.players.aws.api.requests import Request

Describe = Callable[[str], Mapping[str, Any] | None]
PhysicalId = Callable[[str, str], str | None]


class Stacks:
    """The stacks of an account.

    Attributes:
        describe: What tells of one, by its name or ARN, by the names of the API; nothing when there is none.
        physical_id: Returns the physical id of a resource by the ARN of its stack and its logical id; nothing when
            there is none. Without it no stack has a resource, as while a stack is created nothing it asks about is
            there.
    """

    def __init__(self) -> None:
        self.describe: Describe | None = None
        self.physical_id: PhysicalId | None = None

    @plays("cloudformation", "DescribeStacks")
    def described(self, request: Request) -> Mapping[str, Any]:
        """Return one stack.

        Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStacks.html
        """
        name = request.parameters.get("StackName")
        if self.describe is None or not name:
            raise Unplayed("DescribeStacks without a stack, or before one is made,")
        found = self.describe(str(name))
        if found is None:
            raise AwsRefusal("ValidationError", f"Stack with id {name} does not exist")
        return {"Stacks": [found]}

    @plays("cloudformation", "DescribeStackResource")
    def described_resource(self, request: Request) -> Mapping[str, Any]:
        """Return one resource of a stack.

        Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/APIReference/API_DescribeStackResource.html
        """
        stack, name = (str(request.parameters[each]) for each in ("StackName", "LogicalResourceId"))
        found = self.physical_id(stack, name) if self.physical_id is not None else None
        if found is None:
            raise AwsRefusal("ValidationError", f"Resource {name} does not exist for stack {stack}")
        return {"StackResourceDetail": {"LogicalResourceId": name, "PhysicalResourceId": found}}

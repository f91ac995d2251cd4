"""What intrinsic functions may ask while a stack is created: it grows with every resource."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from gpu_rehearsal.players.cloudformation.creation import Made
from gpu_rehearsal.players.cloudformation.events import StackIdentity
from gpu_rehearsal.players.cloudformation.intrinsics import NO_VALUE, evaluate
from gpu_rehearsal.players.cloudformation.template import Template, region_partition


class Known:
    """What is known of a stack.

    Args:
        template: Its conditions and mappings.
        stack: How it is named.
        region: Where it is.
        account: Whose it is.
        parameters: Value of each parameter.
        zones: Returns the names of a region's Availability Zones.
        exports: What other stacks export, by name.
        outputs: Outputs of the other stacks of the region, by stack and key.
    """

    def __init__(
        self,
        template: Template,
        *,
        stack: StackIdentity,
        region: str,
        account: str,
        parameters: Mapping[str, Any],
        zones: Callable[[str], list[str]],
        exports: Mapping[str, str],
        outputs: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._template, self._region, self._zones, self._exports = template, region, zones, exports
        self._outputs = outputs
        self.names = {**pseudo_parameters(stack, region, account), **parameters}
        self._made: dict[str, Made] = {}
        self._lock = threading.Lock()

    def add(self, logical_id: str, made: Made) -> None:
        """Know a resource from now on."""
        with self._lock:
            self._made[logical_id] = made

    def ref(self, name: str) -> Any:
        """Return what ``Ref`` gives.

        Raises:
            LookupError: Nothing has that name.
        """
        return self.names[name] if name in self.names else self._find_resource(name).ref

    def attribute(self, logical_id: str, name: str) -> Any:
        """Return an attribute of a resource.

        Raises:
            LookupError: The resource is not made, or has no such attribute here.
        """
        found = self._find_resource(logical_id)
        if name not in found.attributes:
            raise LookupError(f"{logical_id} has no attribute {name!r} here, but {sorted(found.attributes)}")
        return found.attributes[name]

    def condition(self, name: str) -> bool:
        """Whether a condition of the template holds."""
        return bool(evaluate(self._template.conditions[name], self))

    def mapping(self, name: str) -> Mapping[str, Mapping[str, Any]]:
        """Return a mapping of the template."""
        found: Mapping[str, Mapping[str, Any]] = self._template.mappings[name]
        return found

    def zones(self, region: str) -> list[str]:
        """Return the names of a region's Availability Zones."""
        return self._zones(region or self._region)

    def imported(self, name: str) -> Any:
        """Return what another stack exports.

        Raises:
            LookupError: No stack exports it.
        """
        if name not in self._exports:
            raise LookupError(f"No export named {name} found; create the stack that exports it first")
        return self._exports[name]

    def output(self, stack: str, name: str, region: str) -> Any:
        """Return the value of another stack's output.

        Raises:
            LookupError: There is no such stack here, or it has no such output.
            ValueError: It is in another region.
        """
        if region not in ("", self._region):
            raise ValueError(f"Fn::GetStackOutput: region must be {self._region!r}, got {region!r}")
        if name not in self._outputs.get(stack, {}):
            raise LookupError(f"No output {name} of stack {stack} found; create that stack first")
        return self._outputs[stack][name]

    def _find_resource(self, logical_id: str) -> Made:
        with self._lock:
            if logical_id not in self._made:
                raise LookupError(f"{logical_id} is neither a parameter nor a resource that exists")
            return self._made[logical_id]


def pseudo_parameters(stack: StackIdentity, region: str, account: str) -> dict[str, Any]:
    """Return what AWS says of a stack by itself.

    Source: https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/pseudo-parameter-reference.html (2026-11)
    """
    partition = region_partition(region)
    return {
        "AWS::AccountId": account,
        "AWS::NoValue": NO_VALUE,
        "AWS::NotificationARNs": [],
        "AWS::Partition": partition,
        "AWS::Region": region,
        "AWS::StackId": stack.id,
        "AWS::StackName": stack.name,
        "AWS::URLSuffix": "amazonaws.com.cn" if partition == "aws-cn" else "amazonaws.com",
    }

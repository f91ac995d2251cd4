"""Values of a chart that are known when every construct has been defined."""

from __future__ import annotations

import aws_cdk as cdk

from gpu_constructs.installing.delivery import late_values


def test_late_values_are_those_of_the_end_in_one_order(stack: cdk.Stack) -> None:
    gates: dict[str, bool] = {}
    told = late_values(gates)

    gates.update(staticCapacity=True, nodeOverlay=True)

    assert stack.resolve({"gates": told}) == {"gates": {"nodeOverlay": True, "staticCapacity": True}}


def test_no_values_are_nothing(stack: cdk.Stack) -> None:
    assert stack.resolve({"gates": late_values({})}) == {}

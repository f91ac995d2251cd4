"""The update scenario compares ended pods with the review, and the failure scenario chooses resources to fail."""

from __future__ import annotations

import pytest

from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.report import Outcome
from gpu_rehearsal.scenarios.deletion import resources_to_fail
from gpu_rehearsal.scenarios.deployment import Announced, Pod, compare
from tools.changes_played import CHANGES
from tools.write_changes import rows

DONE = Event(logical_id="Chat", type="Custom::It", status="UPDATE_COMPLETE", phase="update")
CHAT = Pod(name="default/chat", parts=frozenset({"chat", "gpu"}))


def failed(reason: str) -> Event:
    return Event(logical_id="Chat", type="Custom::It", status="UPDATE_FAILED", reason=reason, phase="update")


@pytest.mark.parametrize(
    ("events", "ended", "announced", "outcome", "text"),
    [
        ([DONE], [], Announced(), Outcome.HELD, "1 resources changed, no pod ended"),
        ([DONE], [CHAT], Announced(ends=frozenset({"chat"})), Outcome.HELD, "1 resources changed, default/chat ended"),
        ([DONE], [CHAT], Announced(ends=frozenset({"gpu"})), Outcome.HELD, "1 resources changed, default/chat ended"),
        ([DONE], [CHAT], Announced(ends=frozenset({"talk"})), Outcome.FAILED, "pods end that review doesn't announce"),
        ([failed("no")], [], Announced(), Outcome.FAILED, "it fails, which review doesn't announce: Chat: no"),
        ([failed("no")], [], Announced(fails=("it",)), Outcome.HELD, "fails as announced: Chat: no"),
        ([DONE], [], Announced(fails=("it",)), Outcome.FAILED, "it works, but review announces that it fails: it"),
        ([failed("nothing here updates it")], [], Announced(), Outcome.NOT_PLAYED, "nothing here updates it"),
    ],
)
def test_an_update_is_compared_with_what_is_announced(
    events: list[Event], ended: list[Pod], announced: Announced, outcome: Outcome, text: str
) -> None:
    found, message = compare(events, ended, announced)

    assert found is outcome
    assert text in message


def test_nodes_that_drift_may_be_replaced_later() -> None:
    assert compare([DONE], [CHAT], Announced(), drifts=frozenset({"gpu"}))[0] is Outcome.HELD


def test_pods_run_after_an_update() -> None:
    found = compare([DONE], [], Announced(), unready=["default/chat: no node"])

    assert found == (Outcome.FAILED, "pods don't run afterwards: default/chat: no node")


def test_one_resource_of_each_handler_and_each_release_fails() -> None:
    handler, other = {"Fn::GetAtt": ["Kubectl", "Arn"]}, {"Fn::GetAtt": ["Sizes", "Arn"]}
    release = "Custom::AWSCDK-EKS-HelmChart"
    template = {
        "Resources": {
            "Last": {"Type": "Custom::It", "Properties": {"ServiceToken": handler}, "DependsOn": ["First"]},
            "First": {"Type": "Custom::It", "Properties": {"ServiceToken": handler}},
            "B": {"Type": release, "Properties": {"ServiceToken": handler}, "DependsOn": "A"},
            "A": {"Type": release, "Properties": {"ServiceToken": handler}},
            "Size": {"Type": "Custom::Size", "Properties": {"ServiceToken": other}},
            "Kubectl": {"Type": "AWS::Lambda::Function"},
            "Sizes": {"Type": "AWS::Lambda::Function"},
        }
    }

    assert set(resources_to_fail(template)) == {"Last", "A", "B", "Size"}
    assert list(resources_to_fail(template))[-2:] == ["B", "Last"]


def test_changes_that_are_played_are_rows_of_the_table() -> None:
    table = {name: {one for each in found for one in each.options} for name, found in rows().items()}

    assert [f"{name}.{option}" for name, option, _ in CHANGES if option not in table[name]] == []
    assert len(CHANGES) >= 40

"""A stack is updated, rolled back and deleted on moto's server, in the order of CloudFormation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from gpu_facts.schemas import replacement_properties
from gpu_rehearsal.cloudformation.changes import Event
from gpu_rehearsal.cloudformation.stack import Stack
from tests.rehearsal.cloudformation.accounts import MotoAccount, moto_account
from tests.rehearsal.cloudformation.test_stack_is_created import ROLE

# Appends each request to the file `Log`, waits for `Wait` seconds, fails for the request types in `Fail` and answers
# with the id `Id`.
RECORDER = """
import json, time, urllib.request

def handler(event, context):
    properties, kind = event["ResourceProperties"], event["RequestType"]
    with open(properties["Log"], "a") as log:
        log.write(json.dumps(event) + "\\n")
    time.sleep(float(properties.get("Wait", "0")))
    failed = kind in properties.get("Fail", "").split(",")
    answer = {key: event[key] for key in ("StackId", "RequestId", "LogicalResourceId")}
    kept = properties.get("Id") or event.get("PhysicalResourceId") or event["LogicalResourceId"].lower()
    id = event["PhysicalResourceId"] if kind == "Delete" else kept
    answer |= {"Status": "FAILED" if failed else "SUCCESS", "PhysicalResourceId": id, "Reason": "as asked"}
    put = urllib.request.Request(event["ResponseURL"], json.dumps(answer).encode(), {"Content-Type": ""}, method="PUT")
    urllib.request.urlopen(put, timeout=10)
"""


@pytest.fixture(scope="module")
def aws() -> Iterator[MotoAccount]:
    with moto_account() as account:
        yield account


class World:
    """One stack whose custom resources record their requests."""

    def __init__(self, aws: MotoAccount, folder: Path) -> None:
        self.aws, self._folder, self._log = aws, folder, folder / "requests.jsonl"
        self.options: dict[str, Any] = {}

    def thing(self, **properties: Any) -> dict[str, Any]:
        """Return a custom resource; `attributes` are added to the resource, such as a DeletionPolicy."""
        attributes = properties.pop("attributes", {})
        token = {"Fn::GetAtt": ["Function", "Arn"]}
        return {
            "Type": "Custom::Thing",
            "Properties": {"ServiceToken": token, "Log": str(self._log), **properties},
            **attributes,
        }

    def template(self, **resources: Any) -> dict[str, Any]:
        """Return a template with the function of the custom resources."""
        function = {
            "Code": {"ZipFile": RECORDER},
            "Handler": "index.handler",
            "Role": {"Fn::GetAtt": ["Role", "Arn"]},
            "Runtime": "python3.13",
            "Timeout": 60,
        }
        own = {"Role": ROLE, "Function": {"Type": "AWS::Lambda::Function", "Properties": function}}
        return {"Resources": {**own, **resources}}

    def stack(self, **resources: Any) -> Stack:
        """Return a stack of these resources that isn't created yet."""
        self.physical = Stack(
            self.template(**resources),
            name=self._folder.name,
            assembly=self._folder,
            aws=self.aws,
            folder=self._folder,
            replaces=replacement_properties,
            **self.options,
        )
        return self.physical

    def created(self, **resources: Any) -> Stack:
        """Return a created stack, and forget the requests of its creation."""
        stack = self.stack(**resources)
        events = stack.create()
        assert stack.status == "CREATE_COMPLETE", events
        self._log.unlink(missing_ok=True)
        return stack

    def update(self, **resources: Any) -> list[Event]:
        """Update the stack to these resources."""
        return self.physical.update(self.template(**resources), assembly=self._folder)

    def requests(self) -> list[tuple[str, str, str]]:
        """Return type, logical id and physical id of each request."""
        return [
            (each["RequestType"], each["LogicalResourceId"], each.get("PhysicalResourceId", ""))
            for each in self.events()
        ]

    def has_asked(self, kind: str) -> bool:
        """Return whether a request of this type was sent; the log may be incomplete."""
        return self._log.exists() and f'"RequestType": "{kind}"' in self._log.read_text()

    def events(self) -> list[dict[str, Any]]:
        """Return each request."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []


@pytest.fixture
def world(aws: MotoAccount, tmp_path: Path) -> World:
    return World(aws, tmp_path)


def statuses(events: list[Event], *, phase: str = "") -> list[tuple[str, str]]:
    """Return logical id and status of events, in their order."""
    return [(each.logical_id, each.status) for each in events if not phase or each.phase == phase]


def parameter(value: str, **of: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}, **of}


def queue(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::SQS::Queue", "Properties": properties}


def needs(resource: dict[str, Any], *names: str) -> dict[str, Any]:
    return {**resource, "DependsOn": list(names)}


def exists(world: World, name: str) -> bool:
    try:
        world.aws.client("ssm").get_parameter(Name=name)
    except ClientError:
        return False
    return True


def test_a_failed_creation_is_rolled_back_in_inverted_order(world: World) -> None:
    stack = world.stack(
        First=world.thing(),
        Second=needs(world.thing(Fail="Create", Id="half"), "First"),
        Third=needs(world.thing(), "Second"),
    )

    events = stack.create(rollback=True)

    assert statuses(events, phase="create")[-2:] == [("Second", "CREATE_FAILED"), ("Third", "NOT_BEGUN")]
    back = [("Second", "DELETE_COMPLETE"), ("First", "DELETE_COMPLETE")]
    assert statuses(events, phase="rollback")[:2] == back
    assert world.requests()[2:] == [("Delete", "Second", "half"), ("Delete", "First", "first")]
    assert (stack.status, stack.resources) == ("ROLLBACK_COMPLETE", {})


def test_a_rollback_of_a_creation_keeps_what_is_retained(world: World) -> None:
    stack = world.stack(
        Kept=parameter("a", DeletionPolicy="Retain"),
        Gone=parameter("a", DeletionPolicy="RetainExceptOnCreate"),
        Last=needs(world.thing(Fail="Create"), "Kept", "Gone"),
    )
    kept, gone = (f"{stack.id.split('/')[1]}-{name}" for name in ("Kept", "Gone"))

    events = dict(statuses(stack.create(rollback=True), phase="rollback"))

    assert (events["Kept"], events["Gone"]) == ("DELETE_SKIPPED", "DELETE_COMPLETE")
    names = [each["Name"] for each in world.aws.client("ssm").describe_parameters()["Parameters"]]
    assert [
        name.startswith((kept, gone)) and name.split("-")[-2] for name in names if name.startswith((kept, gone))
    ] == ["Kept"]


def test_without_rollback_the_failed_resource_is_deleted_with_the_stack(world: World) -> None:
    stack = world.stack(Thing=world.thing(Fail="Create", Id="half"))
    stack.create()
    assert stack.status == "CREATE_FAILED"

    stack.delete()

    assert world.requests()[1:] == [("Delete", "Thing", "half")]
    assert stack.status == "DELETE_COMPLETE"


def test_a_rollback_that_fails_keeps_what_the_failed_resource_depends_on(world: World) -> None:
    stack = world.stack(
        Stays=world.thing(),
        Fails=needs(world.thing(Fail="Delete"), "Stays"),
        Last=needs(world.thing(Fail="Create"), "Fails"),
        Free=world.thing(),
    )

    stack.create(rollback=True)

    assert stack.status == "ROLLBACK_FAILED"
    assert sorted(stack.resources) == ["Fails", "Function", "Role", "Stays"]


def test_only_changed_resources_are_updated(world: World) -> None:
    stack = world.created(Same=world.thing(Size=1), Grows=world.thing(Size=1), Value=parameter("a"))
    value = stack.resources["Value"].physical.ref

    events = world.update(Same=world.thing(Size=1), Grows=world.thing(Size=2), Value=parameter("b"))

    assert sorted(statuses(events)) == [("Grows", "UPDATE_COMPLETE"), ("Value", "UPDATE_COMPLETE")]
    [request] = world.events()
    assert (request["RequestType"], request["PhysicalResourceId"]) == ("Update", "grows")
    assert (request["ResourceProperties"]["Size"], request["OldResourceProperties"]["Size"]) == ("2", "1")
    assert world.aws.client("ssm").get_parameter(Name=value)["Parameter"]["Value"] == "b"
    assert stack.status == "UPDATE_COMPLETE"


def test_a_create_only_property_replaces_the_resource_and_what_refers_to_it_changes(world: World) -> None:
    both = {"Refers": world.thing(Queue={"Ref": "Queue"})}
    stack = world.created(Queue=queue(), **both)
    old = stack.resources["Queue"].physical.ref

    events = world.update(Queue=queue(FifoQueue=True, QueueName=f"{stack.id[-8:]}.fifo"), **both)

    assert statuses(events) == [
        ("Queue", "UPDATE_COMPLETE"),
        ("Refers", "UPDATE_COMPLETE"),
        ("Queue", "DELETE_COMPLETE"),
    ]
    assert (events[2].phase, events[2].physical_id) == ("cleanup", old)
    new = stack.resources["Queue"].physical.ref
    assert world.events()[0]["ResourceProperties"]["Queue"] == new != old


def test_an_update_replace_policy_keeps_the_old_resource(world: World) -> None:
    kept = {"UpdateReplacePolicy": "Retain"}
    stack = world.created(Value=parameter("a", **kept))
    old = stack.resources["Value"].physical.ref
    named = {"Type": "String", "Value": "a", "Name": f"{old}-other"}

    events = world.update(Value={**parameter("a", **kept), "Properties": named})

    assert statuses(events) == [("Value", "UPDATE_COMPLETE"), ("Value", "DELETE_SKIPPED")]
    assert exists(world, old)
    assert exists(world, f"{old}-other")


def test_a_replacement_has_another_generated_name(world: World) -> None:
    group = {"Type": "AWS::EC2::SecurityGroup", "Properties": {"GroupDescription": "a", "VpcId": {"Ref": "Vpc"}}}
    vpc = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
    stack = world.created(Vpc=vpc, Group=group)
    old = stack.resources["Group"].physical.ref

    events = world.update(
        Vpc=vpc,
        Group={**group, "Properties": {**group["Properties"], "GroupDescription": "b"}},  # type: ignore[dict-item]
    )

    assert statuses(events) == [("Group", "UPDATE_COMPLETE"), ("Group", "DELETE_COMPLETE")]
    found = world.aws.client("ec2").describe_security_groups()["SecurityGroups"]
    ids = {each["GroupId"] for each in found}
    assert old not in ids
    assert stack.resources["Group"].physical.ref in ids


def test_cleanup_deletes_removed_resources_in_inverted_old_order(world: World) -> None:
    world.created(
        First=world.thing(),
        Middle=needs(world.thing(), "First"),
        Last=needs(world.thing(), "Middle"),
        Kept=needs(world.thing(attributes={"DeletionPolicy": "Retain"}), "Last"),
    )

    events = world.update(Middle=world.thing(), New=world.thing())

    assert world.requests() == [("Create", "New", ""), ("Delete", "Last", "last"), ("Delete", "First", "first")]
    assert ("Kept", "DELETE_SKIPPED") in statuses(events, phase="cleanup")
    assert sorted(world.physical.resources) == ["Function", "Middle", "New", "Role"]


def test_a_failed_cleanup_leaves_the_update_complete(world: World) -> None:
    stack = world.created(Thing=world.thing(Fail="Delete"))

    events = world.update()

    assert statuses(events) == [("Thing", "DELETE_FAILED")]
    assert (stack.status, "Thing" in stack.resources) == ("UPDATE_COMPLETE", False)


def test_another_physical_id_deletes_the_old_one(world: World) -> None:
    world.created(Thing=world.thing(Id="one"))

    world.update(Thing=world.thing(Id="two"))

    assert world.requests() == [("Update", "Thing", "one"), ("Delete", "Thing", "one")]
    assert world.physical.resources["Thing"].physical.ref == "two"


def test_a_failed_update_is_rolled_back(world: World) -> None:
    stack = world.created(
        Value=parameter("a"), Queue=queue(), Grows=needs(world.thing(Size=1), "Value"), Refers=world.thing(Size=1)
    )
    value, url = (stack.resources[name].physical.ref for name in ("Value", "Queue"))
    fifo = queue(FifoQueue=True, QueueName=f"{stack.id[-8:]}.fifo")

    events = world.update(
        Value=parameter("b"),
        Queue=fifo,
        Grows=needs(world.thing(Size=2), "Value", "Queue"),
        New=needs(world.thing(), "Grows"),
        Refers=needs(world.thing(Size=2, Fail="Update"), "New"),
    )

    assert statuses(events, phase="update")[-1] == ("Refers", "UPDATE_FAILED")
    back = statuses(events, phase="rollback")
    assert sorted(back) == [
        ("Grows", "UPDATE_COMPLETE"),
        ("New", "DELETE_COMPLETE"),
        ("Queue", "DELETE_COMPLETE"),
        ("Refers", "UPDATE_COMPLETE"),
        ("Value", "UPDATE_COMPLETE"),
    ]
    assert back.index(("Value", "UPDATE_COMPLETE")) < back.index(("Grows", "UPDATE_COMPLETE"))
    assert back[-2:] == [("New", "DELETE_COMPLETE"), ("Queue", "DELETE_COMPLETE")]
    assert world.aws.client("ssm").get_parameter(Name=value)["Parameter"]["Value"] == "a"
    assert stack.resources["Queue"].physical.ref == url
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert "New" not in stack.resources
    again = [each for each in world.events() if each["LogicalResourceId"] == "Refers"]
    assert [each["ResourceProperties"]["Size"] for each in again] == ["2", "1"]
    assert again[1]["OldResourceProperties"]["Size"] == "2"


def test_a_rollback_deletes_the_new_id_of_a_custom_resource(world: World) -> None:
    world.created(Thing=world.thing(Id="one"), Other=world.thing())

    world.update(Thing=world.thing(Id="two"), Other=needs(world.thing(Fail="Update"), "Thing"))

    of_it = [each for each in world.requests() if each[1] == "Thing"]
    assert of_it == [("Update", "Thing", "one"), ("Update", "Thing", "two"), ("Delete", "Thing", "two")]
    assert world.physical.resources["Thing"].physical.ref == "one"


def test_a_rollback_that_cannot_restore_a_resource_fails_and_keeps_new_ones(world: World) -> None:
    stack = world.created(Thing=world.thing(Fail="Update"))

    events = world.update(New=world.thing(), Thing=needs(world.thing(Fail="Update", Size=2), "New"))

    assert statuses(events) == [("New", "CREATE_COMPLETE"), ("Thing", "UPDATE_FAILED"), ("Thing", "UPDATE_FAILED")]
    assert (stack.status, "New" in stack.resources) == ("UPDATE_ROLLBACK_FAILED", True)
    with pytest.raises(ValueError, match=r"is in UPDATE_ROLLBACK_FAILED state and can not be updated"):
        world.update()


def test_a_property_that_nothing_updates_is_a_failure_that_is_rolled_back(world: World) -> None:
    stack = world.created(Value=parameter("a"), Topic=queue())

    events = world.update(Value=parameter("b"), Topic=needs(queue(Nonsense="1"), "Value"))

    [failed] = [each for each in events if each.failed]
    assert "Nonsense" in failed.reason
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"


def test_a_type_that_nothing_updates_is_a_failure_that_is_rolled_back(world: World) -> None:
    profile = {"Type": "AWS::IAM::InstanceProfile", "Properties": {"Roles": [{"Ref": "Role"}]}}
    stack = world.created(Profile=profile, Other=ROLE)

    [event] = world.update(Profile={**profile, "Properties": {"Roles": [{"Ref": "Other"}]}}, Other=ROLE)

    assert (event.status, event.reason) == (
        "UPDATE_FAILED",
        "CreationFailed: nothing here updates ['Roles'] of AWS::IAM::InstanceProfile",
    )
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"


def test_a_new_type_under_an_old_id_is_rejected(world: World) -> None:
    world.created(Value=parameter("a"))

    with pytest.raises(ValueError, match=r"Update of resource type is not permitted\..*\[Value\]"):
        world.update(Value=queue())


def test_another_function_of_a_custom_resource_is_rejected(world: World) -> None:
    stack = world.created(Thing=world.thing())
    own = world.template()["Resources"]
    other = {**own["Function"], "DependsOn": "Function"}
    token = {"ServiceToken": {"Fn::GetAtt": ["Other", "Arn"]}}

    events = world.update(Other=other, Thing=world.thing(**token))

    assert [each.reason for each in events if each.failed] == [
        "CreationFailed: Thing: Modifying service token is not allowed."
    ]
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"


def test_a_rollback_runs_the_old_code_of_a_function(world: World) -> None:
    template = world.template(Thing=world.thing(Size=1))
    stack = world.created(Thing=world.thing(Size=1))
    function = template["Resources"]["Function"]["Properties"]
    broken = {"Type": "AWS::Lambda::Function", "Properties": {**function, "Code": {"ZipFile": "def handler(*_): 1"}}}
    changed = {**template["Resources"], "Function": broken, "Thing": world.thing(Size=2, ServiceTimeout=20)}

    events = stack.update({"Resources": changed}, assembly=Path(__file__).parent)

    assert statuses(events) == [
        ("Function", "UPDATE_COMPLETE"),
        ("Thing", "UPDATE_FAILED"),
        ("Function", "UPDATE_COMPLETE"),
        ("Thing", "UPDATE_COMPLETE"),
    ]
    assert world.requests() == [("Update", "Thing", "thing")]


def test_deletion_is_in_inverted_order(world: World) -> None:
    stack = world.created(
        First=world.thing(),
        Second=needs(world.thing(), "First"),
        Kept=needs(world.thing(attributes={"DeletionPolicy": "RetainExceptOnCreate"}), "Second"),
    )

    events = stack.delete()

    assert statuses(events) == [
        ("Kept", "DELETE_SKIPPED"),
        ("Second", "DELETE_COMPLETE"),
        ("First", "DELETE_COMPLETE"),
        ("Function", "DELETE_COMPLETE"),
        ("Role", "DELETE_COMPLETE"),
    ]
    assert (stack.status, stack.resources) == ("DELETE_COMPLETE", {})


def test_a_failed_deletion_keeps_what_it_depends_on_and_can_be_repeated(world: World) -> None:
    stack = world.created(Stays=world.thing(), Fails=needs(world.thing(Fail="Delete"), "Stays"), Free=parameter("a"))

    events = dict(statuses(stack.delete()))

    assert events == {"Fails": "DELETE_FAILED", "Free": "DELETE_COMPLETE"}
    assert stack.status == "DELETE_FAILED"
    assert sorted(stack.resources) == ["Fails", "Function", "Role", "Stays"]
    assert dict(statuses(stack.delete())) == {"Fails": "DELETE_FAILED"}


def test_what_is_gone_already_counts_as_deleted(world: World) -> None:
    stack = world.created(Value=parameter("a"))
    world.aws.client("ssm").delete_parameter(Name=stack.resources["Value"].physical.ref)

    stack.delete()

    assert stack.status == "DELETE_COMPLETE"


def test_outputs_follow_an_update_and_survive_a_rollback(world: World) -> None:
    outputs = {"Value": {"Value": {"Fn::GetAtt": ["Value", "Value"]}}}
    stack = world.created(Value=parameter("a"))
    update: Callable[[Mapping[str, Any]], Any] = lambda more: stack.update(  # noqa: E731
        {**world.template(**more), "Outputs": outputs}, assembly=Path(__file__).parent
    )

    update({"Value": parameter("b")})
    assert stack.outputs == {"Value": "b"}
    update({"Value": parameter("c"), "Thing": needs(world.thing(Fail="Create"), "Value")})
    assert (stack.outputs, stack.status) == ({"Value": "b"}, "UPDATE_ROLLBACK_COMPLETE")


def tagged(team: str, **others: str) -> dict[str, Any]:
    """Return a resource of each kind of API for tags."""
    tags = [{"Key": key, "Value": value} for key, value in {"team": team, **others}.items()]
    pattern = {"source": ["aws.ec2"]}
    return {
        "Address": {"Type": "AWS::EC2::EIP", "Properties": {"Domain": "vpc", "Tags": tags}},
        "Group": {"Type": "AWS::Logs::LogGroup", "Properties": {"Tags": tags}},
        "Key": {"Type": "AWS::KMS::Key", "Properties": {"Tags": tags}},
        "Queue": queue(Tags=tags),
        "Rule": {"Type": "AWS::Events::Rule", "Properties": {"EventPattern": pattern, "Tags": tags}},
        "Tagged": {**ROLE, "Properties": {**ROLE["Properties"], "Tags": tags}},  # type: ignore[dict-item]
        "Launch": {
            "Type": "AWS::EC2::LaunchTemplate",
            "Properties": {
                "LaunchTemplateData": {"InstanceType": "m6i.large"},
                "TagSpecifications": [{"ResourceType": "launch-template", "Tags": tags}],
            },
        },
    }


def test_tags_change_in_place(world: World) -> None:
    stack = world.created(**tagged("a", gone="yes"))

    events = world.update(**tagged("b"))

    assert sorted(statuses(events)) == [(name, "UPDATE_COMPLETE") for name in sorted(tagged(""))]
    ids = {name: each.physical for name, each in stack.resources.items()}
    client = world.aws.client
    allocated = ids["Address"].attributes["AllocationId"]
    expected = [{"Key": "team", "Value": "b"}]
    assert client("ec2").describe_addresses(AllocationIds=[allocated])["Addresses"][0]["Tags"] == expected
    # moto describes launch templates with the tags of their creation.
    of_template = [{"Name": "resource-id", "Values": [ids["Launch"].ref]}]
    found = client("ec2").describe_tags(Filters=of_template)["Tags"]
    assert [(each["Key"], each["Value"]) for each in found] == [("team", "b")]
    logs = client("logs").list_tags_for_resource(resourceArn=ids["Group"].attributes["Arn"].removesuffix(":*"))
    assert logs["tags"] == {"team": "b"}
    of_key = client("kms").list_resource_tags(KeyId=ids["Key"].ref)["Tags"]
    assert of_key == [{"TagKey": "team", "TagValue": "b"}]
    assert client("sqs").list_queue_tags(QueueUrl=ids["Queue"].ref)["Tags"] == {"team": "b"}
    assert client("events").list_tags_for_resource(ResourceARN=ids["Rule"].attributes["Arn"])["Tags"] == expected
    assert client("iam").list_role_tags(RoleName=ids["Tagged"].ref)["Tags"] == expected


def test_an_update_that_is_given_up_still_rolls_back(world: World) -> None:
    why = "pod kube-system/karpenter crashed 2 times"
    world.options["stopped"] = lambda: why if world.has_asked("Update") else ""
    stack = world.created(One=world.thing(Version="1"))

    events = world.update(One=world.thing(Version="2", Wait="60"))

    assert [(each.logical_id, each.phase, each.status) for each in events] == [
        ("One", "update", "UPDATE_FAILED"),
        ("One", "rollback", "UPDATE_COMPLETE"),
    ]
    assert events[0].reason == f"CreationFailed: One: {why}"
    assert stack.status == "UPDATE_ROLLBACK_COMPLETE"
    assert [each["ResourceProperties"]["Version"] for each in world.events()] == ["2", "1"]


def test_a_resource_that_an_excused_error_skips_stays_unchanged(world: World) -> None:
    world.options["excuse"] = lambda error: "its chart is not here" if "as asked" in error else ""
    stack = world.created(One=world.thing(), Two=world.thing(Fail="Create"))

    events = world.update(One=world.thing(Fail="Update"))

    assert [(each.logical_id, each.status) for each in events] == [("One", "NOT_PLAYED")]
    assert events[0].reason == "its chart is not here"
    assert list(stack.resources) == ["Role", "Function", "One"]
    assert "Fail" not in stack.resources["One"].properties

"""The script, the permissions and the live answer read the same lists and make the same calls."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
import yaml

from gpu_facts.doctor_reads import CALLS, RESOURCES, Call
from gpu_preflight.doctor.collector import Collector
from gpu_preflight.doctor.commands import policy, script
from gpu_preflight.doctor.connection import Refused
from gpu_preflight.doctor.dump import AWS_ANSWERS, read_dump

# Writes its arguments to a file, a warning to standard error, and an answer for each list.
_PROGRAM = """#!/bin/sh
echo "$(basename $0) $*" >> "$CALLS_FILE"
echo "Warning: old" >&2
case "$*" in
  *"--query nodegroups"*) echo "gpu system" ;;
  *"--query AutoScalingGroups"*) echo "a/b" ;;
  *"--query cluster"*) echo "vpc-1" ;;
  *podgroups*) exit 1 ;;
  *"get pods "*) echo '{"apiVersion": "v1", "kind": "List", "items": []}' ;;
  *) echo '{}' ;;
esac
"""


def test_the_script_makes_each_call_and_keeps_no_warning_as_an_error(tmp_path: Path) -> None:
    for name in ("kubectl", "aws"):
        (tmp_path / name).write_text(_PROGRAM)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "dump.sh").write_text(script())
    log = tmp_path / "calls"
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS_FILE": str(log)}
    subprocess.run(["sh", "dump.sh", "prod"], cwd=tmp_path, env=environment, check=True)
    lines = [each for each in log.read_text().splitlines() if "--query" not in each]
    asked = [" ".join(each.split()[1:3]) for each in lines if each.startswith("aws")]
    assert set(asked) == {each.command for each in CALLS}
    assert "aws ec2 describe-subnets --filters Name=vpc-id,Values=vpc-1 --output json" in lines
    assert "aws eks describe-nodegroup --cluster-name prod --nodegroup-name system --output json" in lines
    files = {each.name for each in (tmp_path / "dump").iterdir()}
    assert "aws-activities-a_b.json" in files
    assert {each for each in files if each.endswith(".err")} == {"podgroups.scheduling.run.ai.err"}
    assert [each.what for each in read_dump([str(tmp_path / "dump")]).refused] == ["podgroups.scheduling.run.ai"]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_each_call_is_one_of_aws_and_a_cause_may_read_its_answer(call: Call) -> None:
    session = pytest.importorskip("botocore.session").Session()
    service, operation = call.command.split()
    model = session.get_service_model(service)
    names = {"".join(word.title() for word in operation.split("-")).lower(): operation}
    [found] = [each for each in model.operation_names if each.lower() in names]
    shape = model.operation_model(found)
    assert set(call.parameters) <= set(shape.input_shape.members)
    assert call.command in AWS_ANSWERS.values()
    assert {key for key, command in AWS_ANSWERS.items() if command == call.command} <= set(shape.output_shape.members)


def test_the_policy_of_iam_allows_each_call_and_nothing_else() -> None:
    [statement] = json.loads(policy("iam"))["Statement"]
    services = {"service-quotas": "servicequotas"}
    calls = [each.command.split() for each in CALLS]
    wanted = {f"{services.get(one, one)}:{two.title().replace('-', '')}" for one, two in calls}
    assert statement["Action"] == sorted(wanted)


def test_the_role_of_the_cluster_allows_each_request_and_nothing_else() -> None:
    class Api:
        time = None

        def __init__(self) -> None:
            self.paths: list[str] = []

        def get(self, path: str, parameters: object) -> object:
            self.paths.append(path)
            if path == "/apis":
                raise Refused("Forbidden", 403)
            return {"items": []}

    api = Api()
    Collector(api, "default").collect("train")
    requests = set()
    for path in api.paths[1:]:
        parts = path.strip("/").split("/")
        group, rest = (parts[1], parts[3:]) if parts[0] == "apis" else ("", parts[2:])
        rest = rest[2:] if rest[0] == "namespaces" and len(rest) > 2 else rest
        requests.add((group, rest[0], "get" if len(rest) > 1 else "list", rest[1] if rest[0] == "configmaps" else ""))
    rules = yaml.safe_load(policy("rbac"))["rules"]
    allowed = {
        (group, resource, verb, name)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
    assert requests == allowed
    assert len(allowed) == len(RESOURCES) + 4

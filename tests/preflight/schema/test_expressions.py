"""Rules in CEL are evaluated if their library is installed, and otherwise the answer names it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_facts.schemas import find_schema
from gpu_preflight.judging.check import check
from gpu_preflight.reading.inputs import read_input
from gpu_preflight.reading.objects import Object, Origin
from gpu_preflight.reading.unknown import Unknown
from gpu_preflight.report.markdown import render as markdown
from gpu_preflight.report.view import check_view
from gpu_preflight.rules.schemas import SAID_ELSEWHERE
from gpu_preflight.schema import fields
from gpu_preflight.schema.fields import INSTALL, broken_rules, can_ask
from tests.preflight.schema.test_file import parts

KINDS = {"NodePool": "karpenter.sh/v1/NodePool", "EC2NodeClass": "karpenter.k8s.aws/v1/EC2NodeClass"}
# There is none for Python 3.10.
with_cel = pytest.mark.skipif(not can_ask(), reason=f"no library for CEL: {INSTALL}")


def overlay(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": {"name": "a"}, "spec": spec}


def broken(content: dict[str, Any]) -> list[str]:
    return [text for _, text in broken_rules(Object(content, Origin("file", "path")))]


@with_cel
def test_a_rule_is_broken() -> None:
    assert broken(overlay(price="1", priceAdjustment="-1%")) == ["cannot set both 'price' and 'priceAdjustment'"]
    assert broken(overlay(price="1")) == []


@with_cel
def test_an_operator_without_the_values_that_its_rule_reads() -> None:
    assert broken(overlay(requirements=[{"key": "a", "operator": "In"}]))
    assert broken(overlay(requirements=[{"key": "a", "operator": "Exists"}])) == []


def test_what_is_known_at_deployment_breaks_no_rule() -> None:
    unknown = [{"key": "a", "operator": Unknown("${Operator}"), "values": []}]

    assert broken(overlay(requirements=unknown)) == []
    assert broken(overlay(requirements=[{"key": "a", "operator": "Gt", "values": ["${COUNT}"]}])) == []


def test_a_number_that_nothing_holds() -> None:
    assert broken(overlay(weight=10**40)) == []


def rules_of(kind: str) -> Iterator[list[str]]:
    for part in parts(find_schema(kind)):
        yield from part["rules"] if isinstance(part.get("rules"), list) else ()


@pytest.mark.parametrize("kind", SAID_ELSEWHERE)
def test_what_other_rules_say_is_a_rule_of_the_definition(kind: str) -> None:
    assert set(SAID_ELSEWHERE[kind]) <= {message for _, message in rules_of(KINDS[kind])}


@with_cel
@pytest.mark.parametrize("kind", KINDS.values())
def test_the_library_understands_every_rule(kind: str) -> None:
    import cel

    assert [rule for rule, _ in rules_of(kind) if not cel.compile(rule)] == []


def test_the_answer_says_once_that_they_were_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.json").write_text(json.dumps(overlay(price="1", priceAdjustment="-1%")))
    monkeypatch.setattr(fields, "find_spec", lambda name: None)

    report = check(read_input([str(tmp_path)]))

    assert [each.rule.id for each in report.findings if each.rule.id == "GPU305"] == []
    [said] = report.unasked
    assert said.endswith(INSTALL)
    assert markdown(check_view(report)).count("Not checked: ") == 1


def test_nothing_is_said_where_there_is_nothing_to_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}))
    monkeypatch.setattr(fields, "find_spec", lambda name: None)

    assert check(read_input([str(tmp_path)])).unasked == ()

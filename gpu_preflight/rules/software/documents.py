"""Documents that say something twice, and templates that refer to nothing."""

from __future__ import annotations

from collections.abc import Iterator

from gpu_facts.refusals import did_you_mean
from gpu_preflight.case import Case
from gpu_preflight.reading.objects import Repeated
from gpu_preflight.rules.rule import Problem, rule

_YAML = "https://yaml.org/spec/1.2.2/#3213-node-comparison"
# Asked of kubectl 1.37.1 and helm 4.3.1 (2026-11).
_AS_JSON = "https://github.com/kubernetes-sigs/yaml/blob/v1.6.0/yaml.go"
# More of them help nobody.
_MOST = 20
_OF_AN_OBJECT = ("apiVersion", "kind", "metadata", "spec", "data")


def _twice(case: Case) -> list[Repeated]:
    return [each for each in case.cluster.repeated if not each.key.read_as]


def _is_kind(each: Repeated) -> bool:
    return each.key.outermost and each.key.name == "kind"


@rule("GPU344", "error", source=_YAML)
def several_objects_in_one_yaml_document(case: Case) -> Iterator[Problem]:
    """Several objects in one YAML document.

    A mapping has each key once: kubectl takes the last of them, and all but one of the objects are never made.

    Fix: Put a line of three dashes between the objects.
    """
    for each in filter(_is_kind, _twice(case)):
        key = each.key
        yield Problem(
            each, f"one object ends above line {key.again}, and no line of three dashes parts it from the next"
        )


@rule("GPU345", "warning", source=_YAML)
def key_that_stands_twice_in_a_mapping(case: Case) -> Iterator[Problem]:
    """Key that stands twice in a mapping.

    The last value counts, and the first one is lost without a word.

    Fix: Merge the two, or remove the one that is not meant.
    """
    objects = {each.origin.file for each in _twice(case) if _is_kind(each)}
    for each in _twice(case):
        key = each.key
        several = each.origin.file in objects and key.outermost and key.name in _OF_AN_OBJECT
        if not several:
            yield Problem(
                each, f"{key.name} of line {key.line} stands again in line {key.again}, and the last one counts"
            )


@rule("GPU443", "warning", source=_AS_JSON)
def key_that_is_read_as_another(case: Case) -> Iterator[Problem]:
    """Key that is read as another.

    kubectl, helm and eksctl read a word such as y, no or 0777 without quotes as a truth or a number, and make a text of
    that: what asks for the key as it is written finds nothing, without a word.

    Fix: Write the key in quotes.
    """
    for each in case.cluster.repeated:
        if each.key.read_as:
            text = f"key {each.key.name} of line {each.key.line} is read as {each.key.read_as!r}; write it in quotes"
            yield Problem(each, text)


@rule("GPU348", "error", source="https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/troubleshooting.html")
def reference_to_what_the_template_does_not_have(case: Case) -> Iterator[Problem]:
    """Reference to what the template does not have.

    CloudFormation refuses the whole template: "Unresolved resource dependencies".

    Fix: Write the logical id of a resource of this template, or the name of a parameter.
    """
    for each in case.cluster.dangling[:_MOST]:
        hint = did_you_mean(each.name, each.known)
        yield Problem(each, f"{each.origin.path} refers to {each.name}, which the template does not have{hint}")

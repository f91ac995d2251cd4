"""An overlay is the last word on a pod: it merges as Kubernetes patches do, and breaks no template."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gpu_constructs.workloads.gpu_pod import parse_overlay, with_overlay

POD: dict[str, Any] = {
    "containers": [
        {
            "name": "train",
            "image": "example.com/train:1",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "ports": [{"containerPort": 8000, "name": "http"}],
            "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "12Gi"}},
            "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
        }
    ],
    "nodeSelector": {"gpu-constructs.io/pool": "l4"},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}}],
}


def over(overlay: dict[str, Any]) -> dict[str, Any]:
    return with_overlay("pod", POD, parse_overlay("pod", overlay))


def container(overlay: dict[str, Any]) -> dict[str, Any]:
    [found] = over({"containers": [{"name": "train"} | overlay]})["containers"]
    return dict(found)


def test_nothing_changes_nothing() -> None:
    assert over({}) == POD


@pytest.mark.parametrize("wrong", [{"spec": {"hostNetwork": True}}, {"template": {}}, {"metadata": {"labels": {}}}])
def test_fields_around_the_spec_are_refused(wrong: dict[str, Any]) -> None:
    [field] = wrong

    with pytest.raises(
        ValueError, match=f"^pod: overlay must have fields of a pod's spec, got '{field}'; leave '{field}' out, because"
    ):
        parse_overlay("pod", wrong | {"hostNetwork": True})


def test_mappings_merge() -> None:
    made = over({"nodeSelector": {"disk": "fast"}, "hostNetwork": True})

    assert made["nodeSelector"] == {"gpu-constructs.io/pool": "l4", "disk": "fast"}
    assert made["hostNetwork"] is True


def test_none_takes_a_field_away() -> None:
    assert "nodeSelector" not in over({"nodeSelector": None})
    assert container({"resources": {"limits": {"memory": None}}})["resources"]["limits"] == {"nvidia.com/gpu": "1"}


def test_a_container_merges_by_name_and_keeps_the_rest() -> None:
    made = container({"terminationMessagePolicy": "FallbackToLogsOnError"})

    assert made == POD["containers"][0] | {"terminationMessagePolicy": "FallbackToLogsOnError"}


def test_another_container_is_added() -> None:
    made = over({"containers": [{"name": "proxy", "image": "example.com/proxy:1"}]})

    assert [each["name"] for each in made["containers"]] == ["train", "proxy"]


def test_a_list_that_is_not_there_is_made() -> None:
    assert over({"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]})["hostAliases"]
    assert over({"initContainers": [{"name": "load", "image": "example.com/load:1"}]})["initContainers"]


@pytest.mark.parametrize(
    ("overlay", "field", "keys"),
    [
        ({"env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}, "env", ["A1", "B3", "C4"]),
        ({"ports": [{"containerPort": 8000, "name": "web"}]}, "ports", ["8000web"]),
        ({"volumeMounts": [{"mountPath": "/dev/shm", "name": "mine"}]}, "volumeMounts", ["/dev/shmmine"]),
    ],
)
def test_lists_of_a_container_merge_by_their_keys(overlay: dict[str, Any], field: str, keys: list[str]) -> None:
    said = [
        f"{each.get('mountPath', each.get('containerPort', ''))}{each['name']}{each.get('value', '')}"
        for each in container(overlay)[field]
    ]

    assert said == keys


def test_a_variable_or_volume_becomes_what_is_said_last() -> None:
    source = {"secretKeyRef": {"name": "a", "key": "b"}}

    assert container({"env": [{"name": "A", "valueFrom": source}]})["env"][0] == {"name": "A", "valueFrom": source}
    assert over({"volumes": [{"name": "shm", "ephemeral": {}}]})["volumes"] == [{"name": "shm", "ephemeral": {}}]


def test_a_volume_of_the_same_kind_merges() -> None:
    made = over({"volumes": [{"name": "shm", "emptyDir": {"sizeLimit": "8Gi"}}]})

    assert made["volumes"] == [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}]


def test_other_lists_are_replaced() -> None:
    assert over({"tolerations": [{"operator": "Exists"}]})["tolerations"] == [{"operator": "Exists"}]


def test_the_pod_that_was_is_left_as_it_was() -> None:
    before = repr(POD)

    container({"env": [{"name": "A", "value": "9"}], "resources": None})

    assert repr(POD) == before


@pytest.mark.parametrize(
    ("overlay", "error", "message"),
    [
        ([], TypeError, "pod: overlay must be a mapping of fields of a pod's spec, got []"),
        ({"a": {"b": [{1, 2}]}}, TypeError, "pod: overlay.a.b[0] must consist of mappings with names"),
        ({"a": {1: "b"}}, TypeError, "pod: overlay.a must consist of mappings with names"),
        ({"a": float("inf")}, TypeError, "pod: overlay.a must consist of mappings with names, lists, strings, finite"),
        ({"containers": None}, ValueError, "pod: overlay must not remove the containers, got None"),
        ({"containers": {"name": "train"}}, ValueError, "pod: overlay.containers must be a list, got {"),
        ({"containers": [{"image": "a:1"}]}, ValueError, "pod: overlay.containers must have name in each item"),
        ({"containers": ["train"]}, ValueError, "pod: overlay.containers must have name in each item"),
        (
            {"containers": [{"name": "train", "volumeMounts": [{"name": "a"}]}]},
            ValueError,
            "pod: overlay.containers[0].volumeMounts must have mountPath in each item",
        ),
        (
            {"containers": [{"name": "trian", "tty": True}]},
            ValueError,
            "pod: overlay must name one of the containers, train, or give a new one its image, got 'trian'; did you "
            "mean 'train'?",
        ),
        (
            {"initContainers": [{"name": "load"}]},
            ValueError,
            "pod: overlay must name one of the initContainers, none, or give a new one its image, got 'load'",
        ),
    ],
)
def test_refuses_an_overlay_that_breaks_the_template(overlay: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        over(overlay)


def test_refuses_a_token_and_does_not_repeat_it() -> None:
    token = "hf_" + "aB" * 17
    env = [{"name": "HF_TOKEN", "value": token}]

    with pytest.raises(
        ValueError,
        match=r"^pod: overlay\.containers\[0\]\.env\[0\]\.value must contain no secret "
        r".*and write a secretKeyRef \[GPU413\]$",
    ) as refused:
        over({"containers": [{"name": "train", "env": env}]})
    assert token not in str(refused.value)

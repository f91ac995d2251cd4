"""The dataclasses with a short start-up time behave as those of the standard library."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from gpu_facts.light import dataclass


@dataclass(frozen=True, slots=True)
class Disk:
    """A dataclass with every kind of default."""

    size: int
    kind: str = "gp3"
    tags: dict[str, str] = dataclasses.field(default_factory=dict, compare=False)
    title: str = dataclasses.field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", f"{self.kind} {self.size}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Named(Disk):
    """A dataclass with a base."""

    name: str
    note: str | None = None


def test_defaults_are_as_declared_and_a_factory_makes_one_for_each_instance() -> None:
    first, second = Disk(1), Disk(2, "io2")

    assert (first.kind, second.kind, first.title, second.title) == ("gp3", "io2", "gp3 1", "io2 2")
    assert first.tags == {}
    assert first.tags is not second.tags


def test_only_compared_fields_decide_equality_and_hash() -> None:
    assert Disk(1, tags={"a": "b"}) == Disk(1)
    assert hash(Disk(1, tags={"a": "b"})) == hash(Disk(1))
    assert Disk(1) != Disk(2)
    assert Disk(1) != Named(1, name="a")


def test_fields_of_a_base_come_first_and_keep_their_position() -> None:
    made = Named(1, "io2", name="a")

    assert (made.size, made.kind, made.name, made.note, made.title) == (1, "io2", "a", None, "io2 1")
    assert [each.name for each in dataclasses.fields(Named)] == ["size", "kind", "tags", "title", "name", "note"]


@pytest.mark.parametrize(
    ("arguments", "names", "message"),
    [
        ((), {}, r"Disk.__init__\(\) missing 1 required positional argument: 'size'"),
        ((1,), {"titel": ""}, r"Disk.__init__\(\) got an unexpected keyword argument 'titel'"),
        ((1,), {"title": ""}, r"Disk.__init__\(\) got an unexpected keyword argument 'title'"),
    ],
)
def test_wrong_arguments_are_a_type_error_that_names_the_class(
    arguments: tuple[Any, ...], names: dict[str, Any], message: str
) -> None:
    with pytest.raises(TypeError, match=message):
        Disk(*arguments, **names)


def test_functions_of_the_standard_library_work_before_and_after_the_first_instance() -> None:
    @dataclass(frozen=True)
    class Fresh:
        a: int
        b: tuple[int, ...] = ()

    assert dataclasses.is_dataclass(Fresh)
    assert [each.name for each in dataclasses.fields(Fresh)] == ["a", "b"]
    assert dataclasses.replace(Fresh(1), b=(2,)) == Fresh(1, (2,))
    assert dataclasses.asdict(Fresh(1)) == {"a": 1, "b": ()}
    assert repr(Fresh(1)).endswith("Fresh(a=1, b=())")
    match Fresh(3):
        case Fresh(a, _):
            assert a == 3


def test_a_subclass_may_call_the_first_init_of_its_base() -> None:
    @dataclass(frozen=True)
    class Base:
        a: int

    class Fixed(Base):
        def __init__(self) -> None:
            super().__init__(7)

    assert Fixed().a == 7


def test_a_class_has_only_the_values_of_its_fields_as_attributes() -> None:
    @dataclass
    class Late:
        size: int = dataclasses.field(default=5)
        tags: list[str] = dataclasses.field(default_factory=list)
        title: str = dataclasses.field(init=False)

    assert Late.size == 5
    assert not hasattr(Late(), "title")
    assert not hasattr(Late, "tags")
    assert [each.default_factory for each in dataclasses.fields(Late)][1] is list


def test_fields_and_bases_that_only_the_standard_library_supports_are_refused() -> None:
    @dataclasses.dataclass
    class Standard:
        a: int

    with pytest.raises(TypeError, match=r"Made: bases must be dataclasses of this module, got Standard"):
        dataclass(type("Made", (Standard,), {}))
    refused: list[Any] = [dataclasses.field(kw_only=True), dataclasses.field(init=False, default_factory=list)]
    for given in refused:
        with pytest.raises(TypeError, match="Made: field b must not set kw_only, or a factory without init"):
            dataclass(type("Made", (), {"__annotations__": {"b": "int"}, "b": given}))


def test_annotation_that_is_not_text_is_refused_because_its_kind_would_not_be_read() -> None:
    with pytest.raises(TypeError, match="annotation of a must be a type as text, got"):
        dataclass(type("Odd", (), {"__annotations__": {"a": int}}))

"""Wrong, unnamed and missing arguments are refused with the nearest right name, everywhere."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import pydoc
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
import jsii
import pytest
from aws_cdk import aws_eks_v2 as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

import gpu_constructs
from gpu_constructs.metrics import PrometheusStack
from gpu_facts.named_arguments import named_arguments, named_call

FOLDERS = (
    "autoscaling",
    "cluster",
    "devices",
    "exposure",
    "identity",
    "metrics",
    "nodes",
    "pod_scaling",
    "pools",
    "queueing",
    "storage",
    "teams",
    "workloads",
)


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A figure.

    Attributes:
        size_gib: How large it is, e.g. ``20``. More is dearer.
        colour: How it looks.
    """

    size_gib: int
    colour: str = "green"

    def __post_init__(self) -> None:
        if self.size_gib < 0:
            raise TypeError("figure: size_gib must be positive")


@named_arguments
@dataclass(frozen=True, slots=True)
class Share:
    """Something with one argument, which needs no name."""

    replicas: int


@named_arguments
@dataclass(frozen=True, slots=True)
class Nothing:
    """Something without arguments."""


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Long:
    """Something with a long name."""

    driver_branch: int


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Something that needs two."""

    left: int
    right: int
    note: str = ""


@named_arguments
@dataclass(frozen=True, kw_only=True, slots=True)
class Range:
    """A range, which needs both ends."""

    least: int
    most: int

    def __post_init__(self) -> None:
        if self.least < 0:
            raise ValueError("range: least must be at least 0, got a number below")
        if str(self.least) != str(self.most):
            raise ValueError(f"range: least must be most, got {self.least} and {self.most}")


@named_arguments
@jsii.implements(iam.IGrantable)
class Thing(Construct):
    """A construct."""

    def __init__(self, scope: Construct, id: str, *, figure: Figure, max_nodes: int = 1) -> None:
        super().__init__(scope, id)
        self.figure, self.max_nodes = figure, max_nodes


class Special(Thing):
    """A construct that isn't in this library."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, figure=Figure(size_gib=3))


@pytest.mark.parametrize(
    ("cls", "args", "kwargs", "message"),
    [
        (
            Figure,
            (),
            {"size_gb": 1},
            "Figure: argument must be one of size_gib, colour, got 'size_gb'; did you mean 'size_gib'?",
        ),
        (Figure, (), {"size_gib": 1, "zzz": 2}, "Figure: argument must be one of size_gib, colour, got 'zzz'"),
        (Figure, (70,), {}, "Figure: arguments must be named, got 70; write Figure(size_gib=70)"),
        (
            Figure,
            (("a", "b"), object()),
            {},
            "Figure: arguments must be named, got ('a', 'b'), <object>; "
            "write Figure(size_gib=('a', 'b'), colour=<object>)",
        ),
        (
            Figure,
            ("red",),
            {"size_gib": 1},
            "Figure: arguments must be named, got 'red'; write Figure(colour='red')",
        ),
        (Figure, (), {}, "Figure: size_gib must be given, got none; it means: How large it is, e.g. 20"),
        (Pair, (), {}, "Pair: left and right must be given, got none"),
        (Pair, (), {"left": 1}, "Pair: right must be given, got none"),
        (
            Range,
            (),
            {"least": -1},
            "Range: least must be at least 0, got a number below; most must be given, got none",
        ),
        (Range, (), {"least": 1}, "Range: most must be given, got none"),
        (Range, (), {"most": 1}, "Range: least must be given, got none"),
        (Pair, (1, 2, "", 4), {}, "Pair: number of arguments must be at most 3, got 4"),
        (Share, (4, 5), {}, "Share: number of arguments must be at most 1, got 2"),
        (Share, (4,), {"replicas": 5}, "Share: replicas must be given once, got 4 and 5"),
        (Share, (), {"replica": 4}, "Share: argument must be one of replicas, got 'replica'; did you mean 'replicas'?"),
        (
            Long,
            (),
            {"driver": 1},
            "Long: argument must be one of driver_branch, got 'driver'; did you mean 'driver_branch'?",
        ),
        (
            Long,
            (),
            {"branch_of_driver": 1},
            "Long: argument must be one of driver_branch, got 'branch_of_driver'; write driver_branch=...",
        ),
        (Nothing, (), {"a": 1}, "Nothing: number of arguments must be 0, got 'a'"),
        (
            dataclasses.replace,
            (Pair(left=1, right=2),),
            {"rihgt": 3},
            "Pair: argument must be one of left, right, note, got 'rihgt'; did you mean 'right'?",
        ),
    ],
)
def test_a_call_of_a_value_says_what_is_wrong(cls: Any, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(TypeError) as refused:
        cls(*args, **kwargs)

    assert str(refused.value) == message
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        (
            ("L4",),
            {"figure": Figure(size_gib=1), "max_node": 2},
            "Test/L4: argument must be one of figure, max_nodes, got 'max_node'; did you mean 'max_nodes'?",
        ),
        (
            (),
            {"id": "L4", "max_node": 2},
            "Test/L4: argument must be one of figure, max_nodes, got 'max_node'; did you mean 'max_nodes'?",
        ),
        (
            ("L4", Figure(size_gib=1)),
            {},
            "Test/L4: arguments must be named, got <Figure>; write Thing(scope, id, figure=<Figure>)",
        ),
        (("L4",), {}, "Test/L4: figure must be given, got none"),
        (
            (),
            {"figure": Figure(size_gib=1)},
            "Thing: scope and id must be given, got none; write Thing(stack, 'Id', ...)",
        ),
        (("A",), {"id": "B", "figure": Figure(size_gib=1)}, "Test/A: id must be given once, got 'A' and 'B'"),
    ],
)
def test_a_call_of_a_construct_says_where_and_what_is_wrong(
    stack: cdk.Stack, args: Any, kwargs: Any, message: str
) -> None:
    with pytest.raises(TypeError) as refused:
        Thing(stack, *args, **kwargs)

    assert str(refused.value) == message
    assert [each.node.id for each in stack.node.children] == []


def test_what_is_no_construct_has_no_path() -> None:
    anything: Any = Thing

    with pytest.raises(TypeError, match=r"^Thing: argument must be one of figure, max_nodes, got 'max_node'"):
        anything("L4", max_node=1)


def test_a_construct_of_the_app_has_no_slash_before_its_id() -> None:
    with pytest.raises(TypeError, match=r"^L4: figure must be given"):
        Thing(cdk.App(analytics_reporting=False), "L4")  # type: ignore[call-arg]


def test_constructs_are_made_and_inherited(stack: cdk.Stack) -> None:
    thing = Special(stack, "Mine")

    assert (thing.node.path, thing.figure, thing.max_nodes) == ("Test/Mine", Figure(size_gib=3), 1)


def test_a_class_without_arguments_of_its_own_is_called_by_its_name(stack: cdk.Stack) -> None:
    class Other(Thing):
        """A construct with the arguments of another."""

    with pytest.raises(TypeError, match=r"^Other: scope and id must be given, got none; write Other\("):
        Other()  # type: ignore[call-arg]

    anything: Any = Special
    with pytest.raises(TypeError, match=r"Special.__init__\(\) got an unexpected keyword argument 'figure'"):
        anything(stack, "Mine", figure=1)


def test_errors_of_a_class_itself_are_left_as_they_are() -> None:
    with pytest.raises(TypeError, match=r"^figure: size_gib must be positive$") as refused:
        Figure(size_gib=-1)

    assert not refused.value.__suppress_context__


def test_values_stay_values() -> None:
    figure = Figure(size_gib=1)

    assert pickle.loads(pickle.dumps(figure)) == figure
    assert {figure: 1}[Figure(size_gib=1)] == 1
    assert dataclasses.replace(figure, colour="red") == Figure(size_gib=1, colour="red")
    assert not hasattr(figure, "__dict__")


@pytest.mark.parametrize(
    ("cls", "names"), [(Figure, ["size_gib", "colour"]), (Thing, ["scope", "id", "figure", "max_nodes"])]
)
def test_the_signature_and_help_are_those_of_the_class(cls: type[Any], names: list[str]) -> None:
    assert list(inspect.signature(cls.__init__).parameters)[1:] == names
    assert f"{names[-1]}:" in pydoc.render_doc(cls.__init__)


@named_call
def find(*, most: int, least: int = 0) -> int:
    """Find.

    Args:
        most: So many.
        least: Not fewer.
    """
    return int(most) - least


@named_call
def made(scope: Construct, id: str, *, zones: int = 2) -> str:
    """Make."""
    return f"{scope.node.path}/{id}: {zones}"


def test_functions_say_it_too(stack: cdk.Stack) -> None:
    anything: Any = find

    assert (find(most=3), find(most=3, least=1), made(stack, "Vpc")) == (3, 2, "Test/Vpc: 2")
    with pytest.raises(TypeError, match=r"^find: argument must be one of most, least, got 'mots'; did you mean 'most'"):
        anything(mots=1)
    with pytest.raises(TypeError, match=r"^find: arguments must be named, got 3; write find\(most=3\)$"):
        anything(3)
    with pytest.raises(TypeError, match=r"^find: most must be given, got none; it means: So many$"):
        anything()
    with pytest.raises(TypeError, match=r"^int\(\) argument must be"):
        anything(most=[])
    with pytest.raises(TypeError, match=r"^Test/Vpc: argument must be one of zones, got 'max_azs'$"):
        made(stack, "Vpc", max_azs=3)  # type: ignore[call-arg]


def test_a_method_of_a_construct_says_where(stack: cdk.Stack, cluster: eks.ICluster) -> None:
    metrics: Any = PrometheusStack(stack, "Metrics", cluster=cluster)

    with pytest.raises(
        TypeError, match=r"^Test/Metrics.scrape: argument must be one of deployment, path, got 'pth'; did you"
    ):
        metrics.scrape(None, pth="/")
    with pytest.raises(
        TypeError, match=r"^Test/Metrics.scrape: arguments must be named, got '/'; write scrape\(deployment, path="
    ):
        metrics.scrape(None, "/")
    with pytest.raises(TypeError, match=r"^Test/Metrics.scrape: deployment must be given, got none; it means: "):
        metrics.scrape()


def public_functions() -> Iterator[Any]:
    """The functions that packages export, and methods of their exported classes, that have arguments with names."""
    for package in ("gpu_constructs", *(f"gpu_constructs.{each}" for each in FOLDERS), "gpu_facts.hardware"):
        module = importlib.import_module(package)
        exported = [getattr(module, name) for name in module.__all__]
        yield from (each for each in exported if inspect.isfunction(each))
        for each in exported:
            yield from method_of(each) if inspect.isclass(each) and issubclass(each, Construct) else ()


def method_of(cls: type[Any]) -> Iterator[Any]:
    """The public methods that a construct defines itself."""
    yield from (each for name, each in vars(cls).items() if inspect.isfunction(each) and not name.startswith("_"))


def test_every_public_function_with_names_says_what_is_wrong() -> None:
    named = {
        each.__qualname__: each
        for each in public_functions()
        if any(one.kind is one.KEYWORD_ONLY for one in inspect.signature(each).parameters.values())
    }

    assert {"GpuCluster.add_pool", "PrometheusStack.scrape", "find_instance_types", "gpu_vpc"} <= set(named)
    assert [name for name, each in named.items() if each.__code__.co_filename != named_call.__code__.co_filename] == []


def is_protocol(cls: type[Any]) -> bool:
    """Whether a class is only a protocol."""
    return getattr(cls, "_is_protocol", False)


def public_classes() -> Iterator[type[Any]]:
    for folder in FOLDERS:
        package = importlib.import_module(f"gpu_constructs.{folder}")
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, each in vars(importlib.import_module(module.name)).items():
                ours = inspect.isclass(each) and each.__module__ == module.name and not name.startswith("_")
                if ours and each.__init__.__module__.startswith("gpu_constructs.") and not is_protocol(each):
                    yield each


def test_every_folder_of_constructs_is_walked() -> None:
    folders = {each.name for each in pkgutil.iter_modules(gpu_constructs.__path__) if each.ispkg}

    assert folders - {"installing"} == set(FOLDERS)


@pytest.mark.parametrize("cls", list(public_classes()), ids=lambda each: each.__name__)
def test_every_construct_and_value_says_what_is_wrong(cls: type[Any]) -> None:
    with pytest.raises(TypeError, match=f"^{cls.__name__}: .*got 'no_such_argument'"):
        cls(no_such_argument=1)

"""Says when something tries to load the CDK: a plugin of pytest for the base install, which has none (`make light`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

CDK = frozenset({"jsii", "aws_cdk", "constructs", "cdk8s", "cdk8s_plus_28"})


class Watch(MetaPathFinder):
    """Records each wanted module, also where an ``ImportError`` is caught, and finds nothing."""

    def __init__(self) -> None:
        self.wanted: list[str] = []

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Note a module of the CDK."""
        if name.partition(".")[0] in CDK:
            self.wanted.append(name)
        return None


@pytest.fixture(scope="session")
def watch() -> Iterator[Watch]:
    """Watch every import from the first test on."""
    watch = Watch()
    sys.meta_path.insert(0, watch)
    yield watch
    sys.meta_path.remove(watch)


@pytest.fixture(autouse=True)
def _no_cdk(watch: Watch) -> Iterator[None]:
    yield
    assert CDK & sys.modules.keys() == set()
    assert watch.wanted == []

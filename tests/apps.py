"""Apps as their users write them, run in this process, which has loaded the CDK already."""

from __future__ import annotations

import json
import os
import re
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Any
from unittest import mock

import aws_cdk as cdk
from constructs import Construct

_NO_COPIES = {"aws:cdk:disable-asset-staging": True}
_ACCOUNT, _REGION = "111122223333", "us-east-1"


def programs_of(page: str) -> list[str]:
    """Return the programs in Python of a page."""
    return re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


def run_program(program: str, output: Path, *, looks_up: Sequence[str] = ()) -> Path:
    """Run a program that makes an app, and return the folder that its templates are written into.

    Args:
        program: The program.
        output: The folder.
        looks_up: The lookups that the CDK CLI then does in the account for constructs of CDK itself.
    """
    with _app_of_its_own(output, output, looks_up):
        exec(compile(program, "app.py", "exec"), {"__name__": "__main__"})
    return output


def run_file(file: Path, output: Path) -> Path:
    """Run the program of a file, in its folder, and return the folder that its templates are written into."""
    with _app_of_its_own(file.parent, output):
        runpy.run_path(str(file), run_name="__main__")
    return output


@contextmanager
def _app_of_its_own(folder: Path, output: Path, looks_up: Sequence[str] = ()) -> Iterator[None]:
    """Run a program as if in a separate process, for stacks in an account and a region, without credentials.

    Raises:
        AssertionError: The CDK CLI would look up something else in the account, which takes credentials.
    """
    before, here = set(sys.modules), Path.cwd()
    os.chdir(folder)
    try:
        with (
            mock.patch.object(cdk, "App", partial(cdk.App, outdir=str(output), context=_NO_COPIES)),
            mock.patch.object(cdk.Stack, "__init__", _in_an_account(cdk.Stack.__init__)),
            mock.patch.object(sys, "path", [str(folder), *sys.path]),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
        found = lookups(output)
        assert found == list(looks_up), f"the CDK CLI would look up {found}, which takes credentials"
    finally:
        os.chdir(here)
        for name in set(sys.modules) - before:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def lookups(output: Path) -> list[str]:
    """Return the keys of the lookups that the CDK CLI would do in an account before it completes an assembly."""
    manifests = [json.loads(each.read_text()) for each in output.glob("**/manifest.json")]
    return [missing["key"] for each in manifests for missing in each.get("missing", ())]


def _in_an_account(make: Callable[..., None]) -> Callable[..., None]:
    """Fill in the account and the region of a stack that names none: CDK looks something up only if it has both."""

    @wraps(make)
    def made(stack: cdk.Stack, scope: Construct, id: str, *, env: Any = None, **more: Any) -> None:
        account, region = (
            next((found for each in (env, cdk.Stage.of(scope)) if (found := getattr(each, name, None))), default)
            for name, default in (("account", _ACCOUNT), ("region", _REGION))
        )
        make(stack, scope, id, env=cdk.Environment(account=account, region=region), **more)

    return made

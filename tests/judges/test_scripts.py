"""Every shell script that nodes run, and the gate's own, by ShellCheck. Containers are started without a shell."""

from __future__ import annotations

import pytest

from gpu_constructs.nodes.user_data import al2023_scripts
from tests.conftest import ROOT
from tests.emitted import Template
from tests.hosts import SURROUNDED
from tests.judges.booting import SCRIPT, parts
from tests.judges.shellcheck import complaints


def test_every_script_of_a_node_is_clean(emitted: dict[str, Template]) -> None:
    scripts = parts(emitted, SCRIPT)

    assert scripts
    assert {name: said for script, name in scripts.items() if (said := complaints(script))} == {}


def test_the_script_of_a_host_is_clean() -> None:
    [script] = al2023_scripts(SURROUNDED)

    assert complaints(script) == ""


def test_the_gate_is_clean() -> None:
    assert complaints((ROOT / ".ci" / "run").read_text()) == ""


@pytest.mark.parametrize("script", ["rm -rf $1/$2", "if [ $a == b ]; then echo; fi", "cd /x; echo `ls`"])
def test_the_judge_complains(script: str) -> None:
    assert complaints(f"#!/bin/sh\n{script}\n", shell="sh")

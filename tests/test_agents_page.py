"""The page for agents and the skill match the commands that they describe."""

from __future__ import annotations

import json
import re
import shlex

import click
import yaml

from gpu_preflight.command_line.cli import cli
from gpu_preflight.command_line.mcp_server import COMMANDS, MAX_CHARACTERS, MAX_SECONDS
from tests.conftest import ROOT

PAGE = (ROOT / "docs/how-to/agents.md").read_text()
SKILL = ROOT / "skills/gpu-constructs/SKILL.md"


def test_the_page_names_tools_limits_and_a_command_that_exists() -> None:
    [block] = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    server = json.loads(block)["mcpServers"]["gpu-constructs"]

    assert cli.commands[server["args"][0]].make_context("mcp", server["args"][1:]).params["root"] == "."
    assert all(f"`{name}`" in PAGE for name in COMMANDS)
    assert f"{MAX_CHARACTERS:,} characters" in PAGE
    assert f"{MAX_SECONDS:.0f} seconds" in PAGE


def test_the_skill_has_the_fields_of_the_format() -> None:
    """Source: https://agentskills.io/specification (2026-11)."""
    _, head, body = SKILL.read_text().split("---\n", 2)
    fields = yaml.safe_load(head)

    assert fields["name"] == SKILL.parent.name
    assert 0 < len(fields["description"]) <= 1024
    assert len(body.splitlines()) < 500


def test_commands_of_the_skill_have_these_arguments() -> None:
    lines = [each for each in re.findall(r"`gpu-constructs ([^`]+)`", SKILL.read_text()) if not each.startswith("mcp")]

    assert len(lines) == 7
    for line in lines:
        name, *arguments = shlex.split(line)
        context = click.Context(cli.commands[name])
        cli.commands[name].parse_args(context, arguments)

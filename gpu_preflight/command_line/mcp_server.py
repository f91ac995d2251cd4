"""A server of the Model Context Protocol: the commands as tools of an agent, on standard input and output.

Each tool is a command. Its parameters are the command's options, except options that write. A separate process
answers each call, confined to the root folder, so one answer can't affect the next one.

Source: https://modelcontextprotocol.io/specification/2025-11-25/server/tools
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from inspect import cleandoc
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import anyio.to_thread
import click
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from gpu_facts._version import __version__
from gpu_facts.refusals import did_you_mean

COMMANDS = ("check", "explain", "review", "doctor", "instances", "rules")
# They write files, describe the terminal or show the settings of a person.
LEFT_OUT = frozenset(
    (
        *("also", "color", "config", "help", "html", "output", "show_settings", "write_baseline"),
        # Options that need a network, which the process of a tool doesn't have.
        *("with_aws", "context", "live", "print_commands", "print_policy", "record"),
    )
)
# About 10,000 tokens. A client may cut what is longer without a word.
MAX_CHARACTERS = 40_000
MAX_SECONDS = 120.0
_VERSIONS = {
    "old": "The deployed version: a path below the root folder.",
    "new": "The planned version: a path below the root folder.",
}
_FORMATS = ("markdown", "json", "text")
_INSTRUCTIONS = (
    "Checks GPU clusters on EKS before they are deployed: whether each GPU pod of a CDK assembly, CloudFormation "
    "template or Kubernetes manifest would run, and why not. Start with check, then explain a workload. "
    "Doctor explains from a dump of a running cluster why GPU pods don't run. "
    "Each result is yes, no or unknown. Unknown means that the input doesn't hold the answer."
)
_MEANINGS = {
    0: "Exit code 0: no certain error.",
    1: "Exit code 1: a certain error, a workload or pod that doesn't run, or a threshold that was exceeded.",
}


def parameters(command: click.Command) -> dict[str, click.Parameter]:
    """Return the parameters of a command that a tool has, by the names of its arguments."""
    return {_name(each): each for each in command.params if each.name not in LEFT_OUT}


def _name(parameter: click.Parameter) -> str:
    """Return the name of an argument, such as ``as_of`` for ``--as-of``."""
    return max(parameter.opts, key=len).lstrip("-").replace("-", "_")


def input_schema(command: click.Command) -> dict[str, Any]:
    """Return the JSON schema of a tool's arguments."""
    own = {name: _parameter_schema(each) for name, each in parameters(command).items()}
    offset = {"type": "integer", "minimum": 0, "description": "Where to continue a long answer, in characters."}
    return {
        "type": "object",
        "properties": {**own, "offset": offset},
        "required": [_name(each) for each in command.params if each.required],
        "additionalProperties": False,
    }


def _parameter_schema(parameter: click.Parameter) -> dict[str, Any]:
    if parameter.name == "form":
        return {"enum": list(_FORMATS), "description": "Format of the answer. Default: markdown."}
    if isinstance(parameter, click.Option) and parameter.is_flag:
        schema: dict[str, Any] = {"type": "boolean"}
    elif isinstance(parameter.type, click.Choice):
        schema = {"enum": list(parameter.type.choices)}
    else:
        schema = {"type": "string"}
    if parameter.multiple or parameter.nargs == -1:
        schema = {"type": "array", "items": schema}
    return {**schema, "description": _description(parameter)}


def _description(parameter: click.Parameter) -> str:
    if isinstance(parameter, click.Option):
        form = parameter.metavar or parameter.type.name
        return " ".join(filter(None, (parameter.help, f"Form: {form}." if "=" in form else "")))
    if parameter.name in _VERSIONS:
        return _VERSIONS[parameter.name]
    return (
        "A path below the root folder."
        if parameter.type.name == "FILE"
        else "Id of the rule, such as GPU010. Default: a list of all rules."
    )


def tools(group: click.Group) -> list[types.Tool]:
    """Return the commands as tools."""
    hints = types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
    return [
        types.Tool(
            name=name,
            description=cleandoc(group.commands[name].help or ""),
            input_schema=input_schema(group.commands[name]),
            annotations=hints,
        )
        for name in COMMANDS
    ]


def command_line(command: click.Command, arguments: Mapping[str, Any], root: Path) -> list[str]:
    """Return the arguments of a tool as arguments of the command.

    Args:
        command: The command.
        arguments: Values by name.
        root: Folder that has each path.

    Raises:
        ValueError: The tool doesn't have such an argument, or a path isn't below the folder.
    """
    known = parameters(command)
    for name in arguments:
        if name not in known:
            allowed = (*known, "offset")
            hint = did_you_mean(name, allowed)
            raise ValueError(f"{command.name}: argument must be one of {', '.join(allowed)}, got {name!r}{hint}")
    options: list[str] = []
    paths: list[str] = []
    # Paths in the order of the command, whatever the order of the arguments is.
    for name in known:
        value = arguments.get(name)
        option = max(known[name].opts, key=len)
        for each in value if isinstance(value, list) else [] if value in (None, False) else [value]:
            _check_text(str(each), name)
            if known[name].type.name == "FILE":
                _check_path(str(each), root)
            if isinstance(known[name], click.Argument):
                paths.append(str(each))
            else:
                options.append(option if each is True else f"{option}={each}")
    dumps = [*paths, *([str(arguments["replay"])] if arguments.get("replay") else [])]
    if command.name == "doctor" and not any((root / each).exists() for each in dumps):
        raise ValueError(
            f"doctor: paths must name a dump below {root}, got {dumps}; a tool can't read a running cluster, and "
            "'gpu-constructs doctor --print-commands' prints a script that writes a dump"
        )
    return [str(command.name), *options, "--", *paths]


def _check_path(path: str, root: Path) -> None:
    if path == "-":
        raise ValueError("a path must be a file or folder, got '-'; the protocol uses standard input")
    try:
        is_below = (root / path).resolve().is_relative_to(root)
    except (RuntimeError, OSError) as error:
        raise ValueError(f"a path must be a file or folder, got {path!r}: {error}") from None
    if not is_below:
        raise ValueError(f"a path must be below {root}, got {path!r}; start the server with --root to read another one")


def _check_text(text: str, name: str) -> None:
    if "\0" in text or text != text.encode(errors="replace").decode():
        raise ValueError(f"argument {name!r} must be text that a command line can have, got {text!r}")


def _continuation(text: str, offset: int) -> str:
    """Return how to get the rest of an answer; empty if it is complete."""
    end = offset + MAX_CHARACTERS
    if end >= len(text):
        return ""
    return f"Characters {offset} to {end} of {len(text)}. Ask again with offset={end}, or with fewer paths."


async def answer(group: click.Group, root: Path, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
    """Return the answer of a command as two texts: the report, and the meaning of its exit code or the next offset."""
    if name not in COMMANDS:
        return _failed(f"tool must be one of {', '.join(COMMANDS)}, got {name!r}{did_you_mean(name, COMMANDS)}")
    given = {"format": "markdown", **arguments}
    offset = given.pop("offset", 0)
    if type(offset) is not int or offset < 0:
        return _failed(f"{name}: offset must be an integer of at least 0, got {offset!r}")
    try:
        line = command_line(group.commands[name], given, root)
        done = await anyio.to_thread.run_sync(_run, root, line)
    except subprocess.TimeoutExpired:
        return _failed(f"{name}: must end within {MAX_SECONDS:g} seconds, and was stopped; name fewer paths")
    except (ValueError, OSError) as error:
        return _failed(str(error))
    errors = done.stderr.decode(errors="replace").strip()
    if done.returncode not in _MEANINGS:
        return _failed(errors or f"{name}: ended with code {done.returncode}")
    text = done.stdout.decode(errors="replace")
    about = (_MEANINGS[done.returncode], errors[:MAX_CHARACTERS], _continuation(text, offset))
    texts = (text[offset : offset + MAX_CHARACTERS], "\n".join(filter(None, about)))
    return types.CallToolResult(content=[types.TextContent(type="text", text=each) for each in texts])


def _run(root: Path, line: list[str]) -> subprocess.CompletedProcess[bytes]:
    """Run a confined command line.

    Raises:
        subprocess.TimeoutExpired: It took too long, and was killed.
    """
    with TemporaryDirectory() as scratch:
        run = [sys.executable, "-m", "gpu_preflight.command_line.confinement", str(root), scratch, *line]
        return subprocess.run(
            run, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, timeout=MAX_SECONDS, check=False
        )


def _failed(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=message)], is_error=True)


def server(group: click.Group, root: Path) -> Server[Any]:
    """Return the server.

    Args:
        group: The command line.
        root: Folder that it may read.
    """

    async def list_tools(_context: Any, _parameters: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools(group))

    async def call_tool(_context: Any, call: types.CallToolRequestParams) -> types.CallToolResult:
        return await answer(group, root, call.name, call.arguments or {})

    return Server(
        "gpu-constructs",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve(group: click.Group, root: Path) -> None:
    """Serve the protocol on standard input and output until the input ends."""

    async def run() -> None:
        own = server(group, root)
        async with stdio_server() as (read, write):
            await own.run(read, write, own.create_initialization_options())

    anyio.run(run)

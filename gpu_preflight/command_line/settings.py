"""Settings in a file: ``[tool.gpu-constructs]`` in pyproject.toml, or the same keys in gpu-constructs.toml.

The nearest file applies, from the current folder upwards. A key has the name of the option whose default it is, so the
command line wins. Paths are relative to the folder of the file.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, cast

import click
from click.core import ParameterSource

OWN_FILE, SHARED_FILE = "gpu-constructs.toml", "pyproject.toml"
_TABLE = "[tool.gpu-constructs]"
# Keys, each with the kind of its value.
_KINDS = {
    "paths": "a list of paths",
    "clusters": "a list of names",
    "parameters": "a table of values",
    "assume": "a list of names",
    "select": "a list of rule ids",
    "ignore": "a table with a reason for each rule",
    "ignore-at": "a list of tables",
    "baseline": "a path",
    "fail-on": "a word",
    "strict": "true or false",
    "max-usd-per-month": "a number",
    "max-added-usd-per-month": "a number",
    "max-added-gpus": "a number",
    "fail-on-replace": "true or false",
}
KEYS = tuple(_KINDS)
# Options of other names than their keys.
_OPTIONS = {"clusters": "--cluster", "parameters": "--parameter"}
_KEYS_OF_IGNORE = ("rule", "reason", "path", "file")
_META = "gpu_preflight.settings"
_BOTH = "--config must not be given with --no-config, got both; leave one out"


class IgnoredAt(NamedTuple):
    """A table of ``ignore-at``: where findings of a rule are accepted, and why."""

    rule: str
    reason: str
    path: str = "*"
    file: str = "*"


class Settings(NamedTuple):
    """The content of a settings file.

    Attributes:
        file: Its path; empty without a file.
        values: Values of options by key; paths are relative to the current folder.
        ignored: Rules that are ignored, each with its reason and place.
    """

    file: str = ""
    values: Mapping[str, Any] = MappingProxyType({})
    ignored: tuple[IgnoredAt, ...] = ()


def find_settings(folder: Path) -> Settings:
    """Return the nearest settings from a folder upwards; gpu-constructs.toml wins over pyproject.toml in one folder.

    Raises:
        click.UsageError: The file isn't TOML, or has an unknown key or a wrong value.
    """
    for place in (folder, *folder.parents):
        for file in (place / OWN_FILE, place / SHARED_FILE):
            text = _text_found(file, is_above=place != folder)
            # Most projects have no settings: their file isn't parsed.
            if text is not None and (file.name == OWN_FILE or _TABLE.strip("[]") in re.sub("[\"']", "", text)):
                table = _table(file, text)
                if table is not None:
                    return _settings(file, table)
    return Settings()


def _text_found(file: Path, *, is_above: bool) -> str | None:
    """Return the text of a settings file; ``None`` without one. An unreadable file in a folder above doesn't apply."""
    if not file.is_file() or (is_above and not _is_readable(file)):
        return None
    return _text(file)


def _is_readable(file: Path) -> bool:
    try:
        with file.open("rb"):
            return True
    except PermissionError:
        return False


def read_settings(file: Path) -> Settings:
    """Read a settings file.

    Raises:
        click.UsageError: It can't be read, isn't TOML, has no settings, an unknown key or a wrong value.
    """
    table = _table(file, _text(file))
    if table is None:
        raise click.UsageError(f"{_shown(file)}: must have a table {_TABLE}, got none")
    return _settings(file, table)


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "bytes that are not UTF-8"
        fix = f"name a {OWN_FILE} or a {SHARED_FILE}"
        raise click.UsageError(f"{_shown(file)}: must be a readable settings file, got {why}; {fix}") from None


def _table(file: Path, text: str) -> Mapping[str, Any] | None:
    """Return the settings of a file; ``None`` for a pyproject.toml without them."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # TOMLDecodeError is a ValueError, as is the one about too many digits of a number.
        raise click.UsageError(f"{_shown(file)}: must be TOML, got {error}") from None
    tool = content.get("tool")
    if isinstance(tool, dict) and isinstance(tool.get("gpu-constructs"), dict):
        return cast("Mapping[str, Any]", tool["gpu-constructs"])
    return None if file.name == SHARED_FILE else content


def _shown(file: Path) -> str:
    """Return a path as messages show it."""
    return os.path.relpath(file) if file.name in (OWN_FILE, SHARED_FILE) else str(file)


def _settings(file: Path, table: Mapping[str, Any]) -> Settings:
    from gpu_facts.refusals import did_you_mean

    name = _shown(file)
    values: dict[str, Any] = {}
    ignored: list[IgnoredAt] = []
    for key, value in table.items():
        if key not in _KINDS:
            raise click.UsageError(
                f"{name}: settings must be {', '.join(KEYS)}, got {key!r}{did_you_mean(key, KEYS, closeness=0.5)}"
            )
        if not _is_kind(value, _KINDS[key]):
            raise click.UsageError(f"{name}: {key} must be {_KINDS[key]}, got {value!r}")
        if key == "ignore":
            ignored += [_ignored(name, key, {"rule": rule, "reason": reason}) for rule, reason in value.items()]
        elif key == "ignore-at":
            ignored += [_ignored(name, f"{key}[{number}]", each) for number, each in enumerate(value)]
        else:
            values[key] = _value(key, value, file.parent)
    return Settings(name, values, tuple(ignored))


def _is_kind(value: Any, kind: str) -> bool:
    if kind == "true or false":
        return isinstance(value, bool)
    if kind == "a number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in ("a path", "a word"):
        return isinstance(value, str) and bool(value)
    if kind.startswith("a table"):
        return isinstance(value, dict)
    if kind == "a list of tables":
        return isinstance(value, list) and all(isinstance(each, dict) for each in value)
    return isinstance(value, list) and all(isinstance(each, str) and each for each in value)


def _value(key: str, value: Any, folder: Path) -> Any:
    """Return a value as the option takes it."""
    if key == "paths":
        return [_path(each, folder) for each in value]
    if key == "baseline":
        return _path(value, folder)
    if key == "parameters":
        return [f"{name}={str(each).lower() if isinstance(each, bool) else each}" for name, each in value.items()]
    return ",".join(value) if key in ("assume", "select") else value


def _path(text: str, folder: Path) -> str:
    return os.path.relpath(folder / text) if text != "-" else text


def _ignored(name: str, key: str, raw: Mapping[str, Any]) -> IgnoredAt:
    from gpu_facts.refusals import did_you_mean
    from gpu_preflight.judging.acknowledgements import rejection
    from gpu_preflight.rule import rule_id

    if wrong := next((each for each in raw if each not in _KEYS_OF_IGNORE), None):
        keys, hint = ", ".join(_KEYS_OF_IGNORE), did_you_mean(wrong, _KEYS_OF_IGNORE)
        raise click.UsageError(f"{name}: {key}: keys must be {keys}, got {wrong!r}{hint}")
    if wrong := next((each for each in raw if not isinstance(raw[each], str)), None):
        raise click.UsageError(f"{name}: {key}: {wrong} must be a text, got {raw[wrong]!r}")
    if why := rejection(rule_id(raw.get("rule", "")), raw.get("reason")):
        raise click.UsageError(f"{name}: {key}: {why.replace('id must', 'rule must', 1)}")
    place = {each: raw[each] for each in ("path", "file") if raw.get(each)}
    if key != "ignore" and not place:
        raise click.UsageError(f"{name}: {key}: must have a path or a file, got none; move the rule to [ignore]")
    return IgnoredAt(rule_id(raw["rule"]), raw["reason"].strip(), **place)


class ConfiguredCommand(click.Command):
    """A command whose options have their defaults in a settings file."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Add the options that choose and show the settings."""
        super().__init__(*arguments, **options)
        self.params += [
            click.Option(
                ["--config"],
                metavar="FILE",
                is_eager=True,
                expose_value=False,
                callback=_use_settings,
                help="Read settings from FILE. Default: the nearest gpu-constructs.toml or pyproject.toml.",
            ),
            click.Option(
                ["--no-config"],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=_use_none,
                help="Read no settings file.",
            ),
            click.Option(["--show-settings"], is_flag=True, help="Print each setting with its origin, and end."),
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; an error in a setting names the file and the key."""
        try:
            rest = super().parse_args(ctx, args)
            # A parameter on the command line replaces one of the same name, and no others.
            listed = current_settings(ctx).values.get("parameters", ())
            if not is_setting(ctx, "parameters") and "parameters" in ctx.params:
                known = tuple(tuple(each.split("=", 1)) for each in listed)
                ctx.params["parameters"] = tuple(dict((*known, *ctx.params["parameters"])).items())
            return rest
        except click.BadParameter as error:
            name = error.param.name if error.param else None
            if name is None or ctx.get_parameter_source(name) is not ParameterSource.DEFAULT_MAP:
                raise
            key = next(key for key, param in _params(self) if param.name == name)
            raise click.UsageError(f"{current_settings(ctx).file}: {key}: {error.message}") from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command, or print its settings."""
        if ctx.params.pop("show_settings"):
            click.echo("\n".join(_lines(self, ctx)))
            return 0
        return super().invoke(ctx)


def current_settings(ctx: click.Context) -> Settings:
    """Return the settings of the command that runs."""
    return cast("Settings", ctx.meta.get(_META) or Settings())


def is_setting(ctx: click.Context, name: str) -> bool:
    """Whether the value of a parameter is from the settings file."""
    return ctx.get_parameter_source(name) is ParameterSource.DEFAULT_MAP


def is_parameter_setting(name: str, value: str) -> bool:
    """Whether a template parameter has its value from the settings file."""
    context = click.get_current_context(silent=True)
    return context is not None and f"{name}={value}" in current_settings(context).values.get("parameters", ())


def _use_settings(ctx: click.Context, _param: click.Parameter, file: str | None) -> None:
    if ctx.resilient_parsing or (file is None and _META in ctx.meta):
        return
    if _META in ctx.meta:
        raise click.UsageError(_BOTH)
    settings = find_settings(Path.cwd()) if file is None else read_settings(Path(file))
    ctx.meta[_META] = settings
    ctx.default_map = {
        param.name: settings.values[key] for key, param in _params(ctx.command) if param.name and key in settings.values
    }


def _use_none(ctx: click.Context, _param: click.Parameter, is_given: bool) -> None:
    # A flag that is given is processed before an option that isn't.
    if is_given and _META in ctx.meta:
        raise click.UsageError(_BOTH)
    if is_given:
        ctx.meta[_META] = Settings()


def _params(command: click.Command) -> Iterator[tuple[str, click.Parameter]]:
    """Yield each key of settings that a command has, with its parameter."""
    for key in KEYS:
        option = _OPTIONS.get(key, f"--{key}")
        for param in command.params:
            if option in param.opts or (key == "paths" and param.name == "paths"):
                yield key, param


def _lines(command: click.Command, ctx: click.Context) -> Iterator[str]:
    """Yield each setting of a command as TOML, with its origin as a comment."""
    import json

    settings = current_settings(ctx)
    origins = {
        ParameterSource.COMMANDLINE: "command line",
        ParameterSource.DEFAULT_MAP: settings.file,
        ParameterSource.ENVIRONMENT: "environment",
    }
    yield f"# settings file: {settings.file or 'none'}"
    for key, param in _params(command):
        if key == "ignore":
            continue
        value = ctx.params[param.name or ""]
        origin = origins.get(cast("ParameterSource", ctx.get_parameter_source(param.name or "")), "default")
        written = _toml(dict(value) if key == "parameters" else value)
        yield f"{key} = {written}  # {origin}" if value is not None else f"# {key} isn't set"
    for name, reason in ctx.params.get("ignored", ()):
        yield f"ignore.{name} = {json.dumps(reason)}  # command line"
    for each in settings.ignored:
        shown = {"rule": each.rule, "path": each.path, "file": each.file, "reason": each.reason}
        table = ", ".join(f"{key} = {json.dumps(value)}" for key, value in shown.items() if value != "*")
        everywhere = each.path == each.file == "*"
        written = f"ignore.{each.rule} = {json.dumps(each.reason)}" if everywhere else f"ignore-at = [{{{table}}}]"
        yield f"{written}  # {settings.file}"


def _toml(value: Any) -> str:
    import json

    if isinstance(value, (set, frozenset)):
        value = sorted(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {json.dumps(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)

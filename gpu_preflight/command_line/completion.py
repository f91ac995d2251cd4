"""Shell completion: the script of each shell, and the names that it completes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

SHELLS = ("bash", "zsh", "fish")
_PROGRAM, _VARIABLE = "gpu-constructs", "_GPU_CONSTRUCTS_COMPLETE"


def completion_script(command: click.Command, shell: str) -> str:
    """Return the script by which a shell completes a command."""
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    return found(command, {}, _PROGRAM, _VARIABLE).source()


def complete_rule(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return rule ids with their titles."""
    from gpu_preflight.rules import rules

    return _items({id: each.title for id, each in rules().items()}, incomplete)


def complete_family(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return EC2 families with GPUs."""
    from gpu_facts.hardware.catalogue import catalogue

    return _items({each.family: each.gpu_model for each in catalogue().values()}, incomplete)


def complete_gpu(_context: click.Context, _option: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return GPU models as EC2 names them."""
    from gpu_facts.hardware.catalogue import catalogue

    return _items(dict.fromkeys((each.gpu_model for each in catalogue().values()), ""), incomplete)


def complete_file(incomplete: str) -> list[CompletionItem]:
    """Have the shell complete a path."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def _items(names: Mapping[str, str], incomplete: str) -> list[CompletionItem]:
    """Return the names that begin like this, each with a help text, which some shells show."""
    from click.shell_completion import CompletionItem

    begun = incomplete.lower()
    return [CompletionItem(name, help=names[name]) for name in sorted(names) if name.lower().startswith(begun)]

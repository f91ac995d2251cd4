"""Values of a manifest that another program fills in before the API server sees it.

Sources: https://www.gnu.org/software/gettext/manual/html_node/envsubst-Invocation.html,
https://helm.sh/docs/chart_template_guide/, https://fluxcd.io/flux/components/kustomize/kustomizations/#post-build-variable-substitution
(2026-11)
"""

from __future__ import annotations

import re
from typing import Any

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.marks import Marks
from gpu_preflight.reading.unknown import Unknown

# ${NAME}, $NAME, $(NAME) and {{ ... }}.
_PLACEHOLDER = regex(r"\$\{[^{}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$\([A-Za-z_.][A-Za-z0-9_.]*\)|\{\{[^{}]*\}\}")
# A line that is nothing but an action of a template: what stands under it may be there or not.
_BLOCK = regex(r"^[ \t]*(?:-[ \t]*)?\{\{.*\}\}[ \t]*(?:#.*)?$", re.MULTILINE)
_ACTION = regex(r"\{\{[^{}\n]*\}\}")
# Texts of programs, which a shell, Prometheus or a kubelet reads, and that have such signs of their own.
_PROGRAMS = (
    "annotations",
    "args",
    "binaryData",
    "command",
    "data",
    "env",
    "exec",
    "expr",
    "query",
    "script",
    "stringData",
    "userData",
)


def with_placeholders(content: Any) -> Any:
    """Return an object in which each value that is filled in later is `Unknown`."""
    if isinstance(content, dict):
        return {key: value if key in _PROGRAMS else with_placeholders(value) for key, value in content.items()}
    if isinstance(content, list):
        return [with_placeholders(each) for each in content]
    if isinstance(content, str) and "\n" not in content and _PLACEHOLDER.search(content):
        return Unknown(content)
    return content


def has_actions(text: str) -> bool:
    """Whether a text has actions of a template."""
    return bool(_ACTION.search(text))


def is_block_template(text: str) -> bool:
    """Whether a text has actions of a template on lines of their own, so that only rendering tells what is there."""
    return bool(_BLOCK.search(text))


def marked(text: str) -> tuple[str, Marks]:
    """Return a template's text with each action as a mark, which YAML takes for a word, and the marks."""
    marks = Marks(text)
    return _ACTION.sub(lambda found: marks.mark(found.group()), text), marks

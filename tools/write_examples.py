"""Write docs/reference/examples.md from the files under examples/."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "examples.md"
# In the order in which a reader meets them.
EXAMPLES = (
    "quickstart",
    "existing_cluster",
    "shared_notebooks",
    "llm_service",
    "model_from_s3",
    "mounted_bucket",
    "auto_mode",
    "multi_node_serving",
    "mig_on_p5",
    "dra_pool",
    "multi_node_training",
    "teams",
    "training_on_lustre",
    "reference_stacks",
    "fleet",
)
HEAD = """# Examples

Each example is a complete app for `cdk synth --app "python app.py"`. No example has been deployed. `make examples`
writes this page from the files.
"""


def document() -> str:
    """Return the page."""
    return "\n".join([HEAD, *(section(name) for name in EXAMPLES)])


def section(name: str) -> str:
    """Return an example with the first line of its docstring as introduction."""
    source = (ROOT / "examples" / name / "app.py").read_text()
    tree = ast.parse(source)
    docstring = tree.body[0]
    code = "\n".join(source.splitlines()[docstring.end_lineno :]).strip()
    title = name.replace("_", " ").capitalize()
    return f"## {title}\n\n{ast.get_docstring(tree)}\n\n```python\n{code}\n```\n"


if __name__ == "__main__":
    DOCUMENT.write_text(document())

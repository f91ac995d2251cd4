"""Show what the working tree changes in a stack against another revision: `cdk diff --template`, offline.

`python tools/diff_against.py main -- -c autoscaler=karpenter`
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PINS = ("requirements.txt", "constraints.txt")
ENVIRONMENTS = ROOT / ".cache" / "environments"


def main() -> None:
    """Synthesize both revisions and compare them."""
    arguments = parse()
    commit = git("rev-parse", "--verify", "--quiet", f"{arguments.base}^{{commit}}")
    if commit is None:
        sys.exit(f"diff: BASE must be a revision of this repository, got {arguments.base!r}")
    with TemporaryDirectory(prefix="gpu-constructs-diff-") as folder:
        old = Path(folder) / "old"
        git("worktree", "add", "--detach", "--quiet", str(old), commit)
        try:
            compare(arguments, old, Path(folder))
        finally:
            git("worktree", "remove", "--force", str(old))


def parse() -> argparse.Namespace:
    """Parse the command line. Arguments after ``--`` are passed to ``cdk synth`` of both revisions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="git revision to compare with")
    parser.add_argument("--stack", default="GpuClusterStack")
    # argparse (3.11) parses a "--" at the end as an argument.
    given = sys.argv[1:]
    end = given.index("--") if "--" in given else len(given)
    return parser.parse_args(given[:end], argparse.Namespace(options=given[end + 1 :]))


def compare(arguments: argparse.Namespace, old: Path, folder: Path) -> None:
    """Print the difference between the checkout ``old`` and the working tree."""
    if not (old / "app.py").exists() or not (old / "cdk.json").exists():
        print(f"{arguments.base} has no app: everything in {arguments.stack} is new.")
        return
    synthesize(old, find_environment(old), folder / "before", arguments)
    synthesize(ROOT, Path(sys.executable).parent, folder / "after", arguments)
    template = folder / "before" / f"{arguments.stack}.template.json"
    if not template.exists():
        print(f"{arguments.base} has no stack {arguments.stack}: everything in it is new.")
        return
    command = ["cdk", "diff", arguments.stack, "--app", str(folder / "after"), "--template", str(template)]
    raise SystemExit(subprocess.run(command, cwd=ROOT, check=False).returncode)


def find_environment(checkout: Path) -> Path:
    """Return the bin folder of an environment with the pins of a checkout: the current one if they are equal."""
    pins = [(checkout / name).read_bytes() if (checkout / name).exists() else b"" for name in PINS]
    if pins == [(ROOT / name).read_bytes() for name in PINS]:
        return Path(sys.executable).parent
    environment = ENVIRONMENTS / hashlib.sha256(b"\0".join(pins)).hexdigest()[:16]
    ready = environment / ".ready"
    if not ready.exists():
        print(f"Installing the pins of {checkout.name} revision ...", file=sys.stderr)
        venv.create(environment, with_pip=True, clear=True)
        install: list[str | Path] = [environment / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
        subprocess.run([*install, "-r", "requirements.txt"], cwd=checkout, check=True)
        ready.touch()
    return environment / "bin"


def synthesize(checkout: Path, binaries: Path, output: Path, arguments: argparse.Namespace) -> None:
    """Run the real ``cdk synth`` of a checkout in an environment."""
    path = f"{binaries}{os.pathsep}{os.environ['PATH']}"
    command = [str(binaries / "cdk"), "synth", arguments.stack, "--quiet", "--output", str(output), *arguments.options]
    done = subprocess.run(command, cwd=checkout, env=os.environ | {"PATH": path}, check=False)
    if done.returncode:
        sys.exit(f"diff: cdk synth failed in {'the working tree' if checkout == ROOT else arguments.base}")


def git(*arguments: str) -> str | None:
    """Run git and return its output, or ``None`` if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


if __name__ == "__main__":
    main()

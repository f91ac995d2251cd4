"""The SDK for JavaScript that Lambda's Node runtimes bring, installed once for every checkout of a user.

Lambda says no more than that the runtime has version 3 of it.
Source: https://docs.aws.amazon.com/lambda/latest/dg/lambda-nodejs.html#nodejs-sdk-included (2026-11)
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

# What the CDK's handlers of custom resources require (aws-cdk-lib 2.275), as of 2026-11-22.
PACKAGES = {
    "@aws-sdk/client-ec2": "3.1169.0",
    "@aws-sdk/client-lambda": "3.1162.0",
    "@aws-sdk/client-sfn": "3.1162.0",
}
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-constructs" / "rehearsal" / "node"


def are_installed(folder: Path = CACHE) -> bool:
    """Whether a folder holds every package at its version."""
    return all(_version(folder, name) == version for name, version in PACKAGES.items())


def install(folder: Path = CACHE) -> None:
    """Install every package with npm.

    Raises:
        CalledProcessError: npm failed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pinned = [f"{name}@{version}" for name, version in PACKAGES.items()]
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(["npm", "install", *options, "--prefix", str(folder), *pinned], check=True)


def modules(folder: Path = CACHE) -> Path:
    """Return the folder for NODE_PATH.

    Raises:
        LookupError: The packages are not installed.
    """
    if not are_installed(folder):
        raise LookupError(f"{folder}: must hold {', '.join(PACKAGES)}; run 'python tools/build_rehearsal.py'")
    return folder / "node_modules"


def _version(folder: Path, name: str) -> str:
    manifest = folder / "node_modules" / name / "package.json"
    return str(json.loads(manifest.read_text())["version"]) if manifest.exists() else ""

"""Install the Node packages of a rehearsal: the AWS SDK that Lambda's Node runtimes contain.

`python tools/build_rehearsal.py` installs missing packages. `--check` only reports whether packages are missing.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

from gpu_rehearsal.cloudformation import assets


def install() -> None:
    """Install every package of Node with npm.

    Raises:
        CalledProcessError: npm failed.
    """
    folder = assets.CACHE
    folder.mkdir(parents=True, exist_ok=True)
    pinned = [f"{name}@{version}" for name, version in assets.PACKAGES.items()]
    options = ["--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    subprocess.run(["npm", "install", *options, "--prefix", str(folder), *pinned], check=True)


def main() -> None:
    """Install missing packages, or report the command that installs them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="install nothing; fail if a package is missing")
    check = parser.parse_args().check
    if not assets.are_installed():
        if check:
            sys.exit(f"rehearsal: no {', '.join(assets.PACKAGES)}: run 'python tools/build_rehearsal.py'")
        install()
    print(f"rehearsal: packages of Node are in {assets.node_modules()}")


if __name__ == "__main__":
    main()

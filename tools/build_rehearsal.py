"""Install what a rehearsal runs beside the control plane: the SDK that Lambda's Node runtimes bring.

`python tools/build_rehearsal.py` installs what is missing; `--check` only says whether anything is.
"""

from __future__ import annotations

import argparse
import sys

from gpu_constructs.rehearsal.players.cloudformation.functions import node_packages


def main() -> None:
    """Install what is missing, or say what to do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="install nothing; fail where something is missing")
    check = parser.parse_args().check
    if not node_packages.are_installed():
        if check:
            sys.exit(f"rehearsal: no {', '.join(node_packages.PACKAGES)}: run 'python tools/build_rehearsal.py'")
        node_packages.install()
    print(f"rehearsal: packages of Node are in {node_packages.modules()}")


if __name__ == "__main__":
    main()

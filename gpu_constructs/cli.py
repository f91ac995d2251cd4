"""The console script. Its name is taken now; the preflight commands come with the preflight."""

from __future__ import annotations

import argparse

from gpu_constructs import __version__


def main() -> None:
    """Print the version or the help."""
    parser = argparse.ArgumentParser(
        prog="gpu-constructs", description="GPU clusters on EKS as code. This release has no commands yet."
    )
    parser.add_argument("--version", action="version", version=__version__)
    parser.parse_args()
    parser.print_help()


if __name__ == "__main__":
    main()

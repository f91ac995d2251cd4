"""``python -m gpu_constructs`` is the command line."""

from gpu_preflight.command_line.cli import main

main()

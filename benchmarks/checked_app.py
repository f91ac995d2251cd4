"""What `library_app.py` synthesizes, judged by preflight while it does: what `synth.py` times."""

from __future__ import annotations

import sys

from benchmarks.library_app import main

if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, check=True)

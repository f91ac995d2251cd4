"""Tests, in the same folders as the code under test."""

import gc
import sys

# Until `pytest_collection_finish`: collected tests last, and looking for garbage in them takes time.
if "pytest" in sys.modules:
    gc.disable()
# jsonschema imports its grammar of IRIs in each process, which takes two seconds. No test checks that format.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]

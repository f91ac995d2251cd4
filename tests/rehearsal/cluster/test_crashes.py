"""A container that ends by itself is counted, so that a crash loop is known at its second crash."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from gpu_rehearsal.cluster.container import Container, Launch, Running, last_error

CRASHES = "import sys; print('panic: no queue'); sys.exit(2)"


def test_every_crash_is_counted_and_its_log_is_kept(tmp_path: Path) -> None:
    launch = Launch(command=[sys.executable, "-c", CRASHES], environment={}, ready="", port=1)

    container = Container(lambda: Running("controller", launch, tmp_path), pace=0.001)
    seen = {container.ends}
    while container.ends < 2:
        container.keep()
        seen.add(container.ends)
        time.sleep(0.01)

    assert seen == {0, 1, 2}
    assert container.state().state["waiting"]["reason"] == "CrashLoopBackOff"
    assert last_error(container.log) == "panic: no queue"

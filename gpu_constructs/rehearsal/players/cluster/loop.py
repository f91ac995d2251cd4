"""Something that is done again and again beside the rest, as controllers and kubelets do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from urllib3.exceptions import HTTPError

from gpu_constructs.rehearsal.players.cluster.client import Refused

POLL_SECONDS = 0.2


class Loop:
    """A step that is repeated in a thread of its own.

    Attributes:
        refusals: What the API server said no to, each once; the step was tried again.

    Args:
        name: Whose step it is.
        step: The step.
        seconds: Time between two steps.
    """

    def __init__(self, name: str, step: Callable[[], None], *, seconds: float = POLL_SECONDS) -> None:
        self.refusals: dict[str, None] = {}
        self._step, self._seconds = step, seconds
        self._stopping, self._failure = threading.Event(), list[BaseException]()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after the step that goes on.

        Raises:
            RuntimeError: A step failed: nothing was done after it.
        """
        self._stopping.set()
        self._thread.join()
        self.check()

    def check(self) -> None:
        """Say so where it has failed.

        Raises:
            RuntimeError: A step failed.
        """
        if self._failure:
            raise RuntimeError(f"{self._thread.name} failed: {self._failure[0]}") from self._failure[0]

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds):
            try:
                self._step()
            except (Refused, HTTPError) as refused:
                # Another was faster, or the server ends: the next step sees what is there then.
                self.refusals[str(refused)] = None
            except BaseException as error:
                self._failure.append(error)
                return

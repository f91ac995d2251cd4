"""Many things at once, each after those it waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter

from gpu_constructs.rehearsal.players.cloudformation.events import Event
from gpu_constructs.rehearsal.players.cloudformation.templates.order import Order


def create_all(order: Order, create: Callable[[str], Event], *, at_once: int) -> list[Event]:
    """Create everything, and return the events in the order in which they ended.

    After a failure nothing new is begun; what is on its way ends.

    Args:
        order: Logical ids that each waits for.
        create: Creates one and returns how it ended.
        at_once: How many may be on their way.
    """
    sorter = TopologicalSorter(order)
    sorter.prepare()
    events: list[Event] = []
    running: set[Future[Event]] = set()
    with ThreadPoolExecutor(at_once) as pool:
        while sorter.is_active():
            if not _failed(events):
                running |= {pool.submit(create, each) for each in sorted(sorter.get_ready())}
            if not running:
                break
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for each in ended:
                events.append(each.result())
                sorter.done(events[-1].logical_id)
    return events


def _failed(events: Iterable[Event]) -> bool:
    return any(each.status == "CREATE_FAILED" for each in events)

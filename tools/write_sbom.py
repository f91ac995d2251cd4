"""Write the software bill of materials of the wheel and its dependencies into dist/, as CycloneDX JSON.

It describes the wheel with exactly the packages of requirements-command.txt. cyclonedx-py writes it and validates it
against CycloneDX's schema. Extras are not in it: constraints.txt has their pins.
"""

from __future__ import annotations

import email
import json
import subprocess
import tempfile
import zipfile
from pathlib import Path

from tools.build_distribution import DIST, ROOT, environment


def main() -> None:
    """Write it."""
    [wheel] = DIST.glob("*.whl")
    file = DIST / f"{'-'.join(wheel.name.split('-')[:2])}.cdx.json"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        python = environment(place / "venv", ROOT / "requirements-command.txt")
        (place / "pyproject.toml").write_text(project_table(wheel))
        described = ("--pyproject", str(place / "pyproject.toml"), "--mc-type", "library")
        written = ("--output-reproducible", "--validate", "--output-format", "JSON", "--output-file", str(file))
        subprocess.run(["cyclonedx-py", "environment", *described, *written, python], check=True)
    print(f"Wrote {file.relative_to(ROOT)}")


def project_table(wheel: Path) -> str:
    """Return the table of a project as the wheel describes itself: pyproject.toml has no version, which a hook adds."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [each for each in archive.namelist() if each.endswith(".dist-info/METADATA")]
        metadata = email.message_from_bytes(archive.read(name))
    requirements = [each for each in metadata.get_all("Requires-Dist", ()) if "extra ==" not in each]
    values = {
        "name": metadata["Name"],
        "version": metadata["Version"],
        "description": metadata["Summary"],
        "license": metadata["License-Expression"],
        "dependencies": requirements,
    }
    # A string or a list of strings is written in TOML as in JSON.
    return "[project]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in values.items())


if __name__ == "__main__":
    main()

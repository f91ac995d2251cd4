"""Rehearses the stacks of an assembly: ``python -m gpu_rehearsal cdk.out``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpu_facts.refusals import did_you_mean
from gpu_rehearsal.assemblies import read
from gpu_rehearsal.cluster.control_plane import read_minor_version
from gpu_rehearsal.play import play_and_write
from gpu_rehearsal.stage import Props, run

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("assembly", type=_FOLDER)
@click.option(
    "--programs",
    type=_FOLDER,
    required=True,
    multiple=True,
    help="Folder with etcd and the binaries of Kubernetes; one for each minor version.",
)
@click.option("--karpenter", multiple=True, metavar="VERSION=FILE", help="Karpenter's controller binary of a version.")
@click.option("--charts", type=_FOLDER, help="Folder of packed charts.")
@click.option(
    "--definitions",
    type=_FOLDER,
    help="Folder with CustomResourceDefinitions of charts that aren't in the folder of charts.",
)
@click.option("--region", default="us-east-1", show_default=True, help="Region of stacks without one.")
@click.option("--stack", multiple=True, help="Play only these stacks. Default: all. They must share a cluster.")
@click.option(
    "--require",
    multiple=True,
    metavar="NAME",
    help="Exit with code 3 unless this was tried: a scenario, for example 'Scale', or the beginning of a promise, for "
    "example 'pool gpu'. Default: every scenario in the report.",
)
@click.option(
    "--tolerate", multiple=True, metavar="KEY", help="A taint that your pods tolerate, in addition to the GPU taint."
)
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the report and its times.")
def main(
    assembly: Path,
    programs: tuple[Path, ...],
    karpenter: tuple[str, ...],
    charts: Path | None,
    definitions: Path | None,
    region: str,
    stack: tuple[str, ...],
    require: tuple[str, ...],
    tolerate: tuple[str, ...],
    out: Path | None,
) -> None:
    """Play the stacks of an assembly, and report the result of each promise.

    The exit code is 1 if a promise failed, and 3 if a scenario of the report or a name in --require wasn't tried.
    """
    needed = [(assembly, "manifest.json", "pass the folder that cdk synth wrote, such as cdk.out")]
    needed += [(each, "kube-apiserver", "make e2e-tools writes ~/.cache/gpu-constructs/e2e") for each in programs]
    for folder, file, fix in needed:
        if not (folder / file).is_file():
            raise click.UsageError(f"{folder}: must hold {file}, got none; {fix}")
    props = Props(
        control_planes={read_minor_version(each): each for each in programs},
        karpenter=_karpenters(karpenter),
        charts=charts,
        definitions=definitions,
    )
    every = read(assembly, region=region)
    names = [each.stack for each in every]
    if not names:
        raise click.UsageError(
            f"{assembly}: must hold a stack, got none; pass the folder that cdk synth wrote, such as cdk.out"
        )
    for each in stack:
        if each not in names:
            hint = did_you_mean(each, names)
            raise click.UsageError(f"--stack must be one of {', '.join(names)}, got {each!r}{hint}")
    stacks = [each for each in every if not stack or each.stack in stack]
    report = play_and_write(stacks, props, out=out, tolerate=tolerate)
    scenarios = list(dict.fromkeys(line.scenario for line in report.lines))
    for each in report.not_tried(require):
        hint = "" if each in scenarios else did_you_mean(each, scenarios)
        click.echo(f"rehearsal: not tried: {each}{hint}", err=True)
    sys.exit(report.exit_code(require))


def _karpenters(options: tuple[str, ...]) -> dict[str, Path]:
    found = dict(option.partition("=")[::2] for option in options)
    for version, path in found.items():
        if not Path(path).is_file():
            raise click.UsageError(f"--karpenter must be VERSION=FILE of an existing program, got '{version}={path}'")
    return {version: Path(path) for version, path in found.items()}


def _main() -> None:
    """Run the command. A wrong argument becomes one line on standard error."""
    try:
        main(standalone_mode=False)
    except click.Abort:
        sys.exit(130)
    except click.ClickException as error:
        click.echo(f"rehearsal: {error.format_message()}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    run(_main)

"""Plays the stacks of an assembly: ``python -m gpu_constructs.rehearsal cdk.out``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpu_constructs.rehearsal.assemblies import read
from gpu_constructs.rehearsal.play import play
from gpu_constructs.rehearsal.players.cluster.control_plane import minor_of
from gpu_constructs.rehearsal.stage import Props

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("assembly", type=_FOLDER)
@click.option(
    "--programs",
    type=_FOLDER,
    required=True,
    multiple=True,
    help="Folder with etcd and Kubernetes' own programs; one for each minor version.",
)
@click.option("--karpenter", multiple=True, metavar="VERSION=FILE", help="Karpenter's controller of a version.")
@click.option("--charts", type=_FOLDER, help="Folder of packed charts.")
@click.option("--definitions", type=_FOLDER, help="Folder of definitions of charts that are not there.")
@click.option("--region", default="us-east-1", show_default=True, help="Region of stacks that say none.")
@click.option("--stack", multiple=True, help="Play only these; by default all, which must share a cluster.")
@click.option("--long", is_flag=True, help="Play hardship too: limits, capacity, interruption; minutes for each pool.")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for the report and its times.")
def main(
    assembly: Path,
    programs: tuple[Path, ...],
    karpenter: tuple[str, ...],
    charts: Path | None,
    definitions: Path | None,
    region: str,
    stack: tuple[str, ...],
    long: bool,
    out: Path | None,
) -> None:
    """Play the stacks of an assembly, and say what became of their promises."""
    stacks = [each for each in read(assembly, region=region) if not stack or each.stack in stack]
    if not stacks:
        raise click.ClickException(f"no stack in {assembly}" + (f" is called {', '.join(stack)}" if stack else ""))
    props = Props(
        control_planes={minor_of(each): each for each in programs},
        karpenter=_karpenters(karpenter),
        charts=charts,
        definitions=definitions,
    )
    report = play(stacks, props, long=long)
    click.echo(report.text(), nl=False)
    if out is not None:
        report.write(out)
    sys.exit(1 if report.failed else 0)


def _karpenters(said: tuple[str, ...]) -> dict[str, Path]:
    found = dict(each.partition("=")[::2] for each in said)
    for version, path in found.items():
        if not Path(path).is_file():
            raise click.BadParameter(f"must be VERSION=FILE of a program that is there, got '{version}={path}'")
    return {version: Path(path) for version, path in found.items()}


if __name__ == "__main__":
    main()

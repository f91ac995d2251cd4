"""The console script: checks assemblies, templates and manifests before they are deployed.

Each command imports its modules when it runs, so help appears at once and nothing loads the CDK.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gpu_facts._version import __version__
from gpu_preflight.command_line import console, parameter_types
from gpu_preflight.command_line.console import PROGRESS
from gpu_preflight.command_line.parameter_types import (
    JUDGED,
    PLAIN,
    Bound,
    Components,
    F,
    File,
    Format,
    FormatFile,
    Parameter,
    Time,
    Word,
)
from gpu_preflight.command_line.settings import ConfiguredCommand, is_setting
from gpu_preflight.command_line.shared_options import (
    accepting,
    chosen_clusters,
    filtered,
    filters,
    limits_from_options,
    review_limits,
)

if TYPE_CHECKING:
    from gpu_preflight.doctor.dump import Dump
    from gpu_preflight.doctor.live import Live
    from gpu_preflight.model.pod import Workload
    from gpu_preflight.reading.inputs import Input
    from gpu_preflight.report.finding_view import OutcomeView
    from gpu_preflight.report.review_view import ReviewView
    from gpu_preflight.report.view import CheckView, ExplainView


def written(*forms: str) -> Callable[[F], F]:
    """Add the options for the output."""

    def add(command: F) -> F:
        """Return a command with the options."""
        to = click.option(
            "--output", "-o", type=File(), metavar="FILE", help="Write to FILE instead of standard output."
        )
        form = click.option("--format", "form", type=Format(forms), default="text", help="Output format.")
        color = click.option(
            "--color",
            type=Word(("auto", "always", "never")),
            default="auto",
            expose_value=False,
            callback=_set_color,
            help="Whether text has colors. auto: on a terminal, unless NO_COLOR is set; FORCE_COLOR turns colors on.",
        )
        return to(form(color(command)))

    return add


def _set_color(context: click.Context, _option: click.Parameter, color: str) -> None:
    context.color = {"always": True, "never": False}.get(color)


def report_options(command: F) -> F:
    """Add the options for further reports and for the exit code."""
    formats = "Also write the report in this format to FILE. May be repeated."
    when = "When to exit with 1: on errors, also on certain warnings, also on unknown results, or never."
    for option in (
        click.option("--also", type=FormatFile(), multiple=True, help=formats),
        click.option("--fail-on", type=Word(("error", "warning", "unknown", "never")), default="error", help=when),
    ):
        command = option(command)
    return command


def _say(_context: click.Context, _option: click.Parameter, day: datetime | None) -> None:
    from gpu_facts.today import now, say

    if day is not None:
        say(day.replace(tzinfo=timezone.utc))
    try:
        now()
    except ValueError as error:
        raise click.UsageError(str(error)) from error


def parameters(command: F) -> F:
    """Add the option that sets template parameters."""
    text = "Value of a template parameter. May be repeated."
    return click.option("--parameter", "parameters", type=Parameter(), multiple=True, help=text)(command)


def strict(command: F) -> F:
    """Add the option that makes an unknown result fail."""
    text = "Also fail when a result is unknown, for example a value that exists only after deployment."
    return click.option("--strict", is_flag=True, help=text)(command)


def assumed(command: F) -> F:
    """Add the option that satisfies conditions of a result."""
    told = (
        "Components that run in the cluster and aren't in the input: device-plugin, efa-device-plugin, "
        "cluster-autoscaler, karpenter."
    )
    return click.option("--assume", "assumed", type=Components(), default="", help=told)(command)


def judged(command: F) -> F:
    """Add the options for the input and the exit code."""
    for option in (
        parameters,
        assumed,
        click.option(
            "--as-of",
            type=click.DateTime(["%Y-%m-%d"]),
            callback=_say,
            expose_value=False,
            help="Compare dates with this day, in UTC. Default: SOURCE_DATE_EPOCH, or today.",
        ),
        strict,
        click.option("--html", type=File(), metavar="FILE", help="Also write the report to FILE, as an HTML page."),
    ):
        command = option(command)
    return command


def _print_version(context: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if is_given:
        from gpu_facts.data_age import data_sets

        click.echo(f"gpu-constructs {__version__}")
        for each in data_sets():
            click.echo(f"{each.name}: {each.day}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and the dates of its instance catalogue, prices and pins.",
)
def cli() -> None:
    """Check GPU clusters on EKS before you deploy them.

    Exit codes: 0 the check passes; 1 a certain error that isn't accepted, a workload that would stay Pending or fail,
    or a result that --strict or --fail-on rejects; 2 unusable input or usage.
    """


@cli.command(cls=ConfiguredCommand)
@click.argument("paths", nargs=-1, type=File(), metavar="[PATH]...")
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Check only this cluster in PATH.")
@click.option(
    "--write-baseline", type=File(), metavar="FILE", help="Write a baseline of all findings to FILE, and accept them."
)
@accepting
@judged
@report_options
@written(*JUDGED)
def check(paths: tuple[str, ...], form: str, output: str | None, **options: Any) -> int:
    """Check the GPU clusters in PATH against all rules.

    PATH is a cloud assembly, a template, a manifest, a folder with these, a file with acknowledgements, or - for
    standard input. Default: cdk.out.
    """
    paths = console.paths_or_default(paths)
    given = console.read(paths, dict(options["parameters"]), assumed=options["assumed"])
    console.refuse_unknown_parameters(dict(options["parameters"]), given)
    from gpu_preflight.judging.check import check as judge
    from gpu_preflight.report.view import check_view

    report = _usable(judge, given)
    console.tell_unused(report.unused, report.mistaken)
    view = check_view(filtered(report, paths, options))
    console.emit(view, form, output)
    return _end(view, **options)


@cli.command(cls=ConfiguredCommand)
@click.argument("paths", nargs=-1, type=File(), metavar="[PATH]...")
@click.option(
    "--file",
    "-f",
    "files",
    type=File(),
    multiple=True,
    metavar="WORKLOADS",
    help="Explain only the workloads in this file. May be repeated.",
)
@click.option("--live", is_flag=True, help="Use the running cluster of the kubeconfig, as doctor reads it, and PATH.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig, with --live.")
@click.option("--cluster", "clusters", multiple=True, metavar="NAME", help="Use only this cluster in PATH.")
@click.option("--all-pools", is_flag=True, help="List all pools, not only the five closest.")
@judged
@written(*PLAIN, "html")
def explain(
    paths: tuple[str, ...],
    files: tuple[str, ...],
    live: bool,
    context: str | None,
    clusters: tuple[str, ...],
    all_pools: bool,
    form: str,
    output: str | None,
    **options: Any,
) -> int:
    """Show for each workload which pools in PATH can run it, and why the others can't.

    Without -f, the command explains all workloads in PATH that request GPUs. 'explain --live -f new.yaml' answers
    before you apply a manifest.
    """
    if context and not live:
        raise click.UsageError("--context must be given with --live, got it alone")
    running = _running_cluster(context) if live else None
    every = tuple(dict.fromkeys((*(paths if live else console.paths_or_default(paths)), *files)))
    given = console.read(every, dict(options["parameters"]), assumed=options["assumed"], running=running)
    console.refuse_unknown_parameters(dict(options["parameters"]), given)
    from gpu_preflight.judging.check import check as judge
    from gpu_preflight.remedies.remedy import fixes_by_workload
    from gpu_preflight.report.view import NEAREST, explain_view

    report = _usable(partial(judge, every_rule=bool(files)), given)
    # Settings hide no workload from an explanation.
    from_settings = is_setting(click.get_current_context(), "clusters")
    named = chosen_clusters([each.cluster.title for each in report.cases], () if from_settings else clusters)
    judged = [
        report.explanation(each, _workloads_in_files(each.cluster.workloads, files), named=bool(named))
        for each in report.cases
        if not named or each.cluster.title in named
    ]
    if files and not any(each.verdicts for each in judged):
        raise click.UsageError(f"{', '.join(files)}: must hold a workload, got none; see 'gpu-constructs explain -h'")
    PROGRESS.step = "looking for fixes"
    would_do = {key: each for one in judged for key, each in fixes_by_workload(given, one.case, one.verdicts).items()}
    view = explain_view(judged, report.unread, most_pools=None if all_pools else NEAREST, remedies=would_do)
    console.emit(view, form, output)
    return _end(view, **options)


def _running_cluster(context: str | None) -> Input:
    """Read the cluster of a context, with its node groups, as an input."""
    from dataclasses import replace

    from gpu_preflight.doctor.dump import unread_lists
    from gpu_preflight.doctor.live import Live

    dump = _read_cluster(context, None, None, None, None, asks_aws=lambda _: True)
    return replace(Live(dump).input, problems=tuple(unread_lists(dump)))


def _workloads_in_files(workloads: tuple[Workload, ...], files: tuple[str, ...]) -> list[Workload] | None:
    """Return the workloads of some files or folders; ``None`` without files."""
    from pathlib import Path

    from gpu_preflight.reading.documents import KUSTOMIZATIONS, STDIN

    if not files:
        return None
    named = [Path("<stdin>" if each == STDIN else each) for each in files]
    # Objects of a kustomization belong to its folder.
    places = {each.parent if each.name in KUSTOMIZATIONS else each for each in named}
    return [each for each in workloads if places & {Path(each.origin.file), *Path(each.origin.file).parents}]


@cli.command(cls=ConfiguredCommand)
@click.argument("old", type=File())
@click.argument("new", type=File())
@accepting
@judged
@review_limits
@report_options
@written(*JUDGED)
def review(old: str, new: str, form: str, output: str | None, **options: Any) -> int:
    """Report the effects of a change from OLD to NEW on nodes, GPUs, quotas, price, workloads and findings."""
    if old == new == console.STDIN:
        raise click.UsageError("OLD and NEW must not both be standard input, got '-' twice")
    # Two files are two versions of one stack, whatever they are called.
    stack = None if Path(old).is_dir() or Path(new).is_dir() else Path(new).name.partition(".")[0]
    told, assumed = dict(options["parameters"]), options["assumed"]
    before, after = (console.read((path,), told, stack=stack, assumed=assumed) for path in (old, new))
    console.refuse_unknown_parameters(dict(options["parameters"]), before, after)
    from gpu_preflight.judging.review import review as judge
    from gpu_preflight.report.review_view import review_view

    judged = _usable(judge, before, after, filters(options, anywhere=True))
    console.tell_unused(judged.unused, judged.mistaken)
    view = review_view(judged, limits_from_options(options))
    console.emit(view, form, output)
    return _end(view, **options)


def _usable(judge: Callable[..., Any], *given: Any, step: str = "checking") -> Any:
    """Judge an input, and refuse it with its own words."""
    from gpu_preflight.reading.documents import UnusableInput

    PROGRESS.step = step
    try:
        return judge(*given)
    except UnusableInput as error:
        raise click.UsageError(str(error)) from None


def _end(
    view: CheckView | ExplainView | ReviewView,
    *,
    html: str | None,
    strict: bool,
    also: tuple[tuple[str, str], ...] = (),
    fail_on: str = "error",
    **_: Any,
) -> int:
    """Write the further reports, and return the exit code."""
    console.warn_of_old_data()
    for form, file in (*((("html", html),) if html else ()), *also):
        console.emit(view, form, file)
    if fail_on == "warning" and view.command != "explain" and view.outcome != "fail" and view.warnings:
        click.echo(f"gpu-constructs: --fail-on warning: {view.warnings} to correct or acknowledge", err=True)
        return console.FAILED
    if fail_on == "never" and not strict:
        return console.PASSED
    return _exit_code(view, strict or fail_on == "unknown")


def _exit_code(view: OutcomeView, strict: bool) -> int:
    return console.FAILED if view.outcome in ("fail", *(("unknown",) if strict else ())) else console.PASSED


@cli.command()
@click.argument("paths", nargs=-1, type=File(), metavar="[DUMP]... [POD]")
@click.option("--pod", metavar="POD", help="Explain only this pod or owner of pods: [NAMESPACE/]NAME or KIND/NAME.")
@click.option("--namespace", "-n", metavar="NAMESPACE", help="Namespace of the pods.")
@click.option("--node", metavar="NODE", help="Explain only the pods on this node and those without one.")
@click.option("--pool", metavar="POOL", help="The same for a NodePool or node group, such as one that doesn't grow.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig, if no DUMP is given.")
@click.option("--replay", type=File(), metavar="FILE", help="Answer from FILE, which --record wrote; like a DUMP.")
@click.option(
    "--record",
    type=File(),
    metavar="FILE",
    help="Also write what was read from the cluster to FILE, a zip, which is a DUMP.",
)
@click.option("--aws/--no-aws", "with_aws", default=True, help="Whether AWS is asked too, if a pod or node needs it.")
@click.option(
    "--against",
    type=File(),
    metavar="PATH",
    help="Compare the cluster with this assembly, template or folder of manifests, and show each difference.",
)
@click.option(
    "--at",
    type=Time(),
    metavar="TIME",
    help="When the dump was made, such as 2026-11-20T10:00:00Z. Default: the latest time in it.",
)
@click.option(
    "--print-commands", is_flag=True, help="Print a script that writes a dump with kubectl and aws, and exit."
)
@click.option(
    "--print-policy", type=Word(("rbac", "iam")), help="Print the permissions that the command needs, and exit."
)
@strict
@written(*PLAIN, "html")
def doctor(
    paths: tuple[str, ...],
    pod: str | None,
    namespace: str | None,
    node: str | None,
    pool: str | None,
    context: str | None,
    record: str | None,
    replay: str | None,
    against: str | None,
    with_aws: bool,
    at: datetime | None,
    print_commands: bool,
    print_policy: str | None,
    form: str,
    output: str | None,
    strict: bool,
) -> int:
    """Show why GPU pods of a running cluster don't run.

    DUMP is the output of 'kubectl get ... -o json' or yaml, of 'kubectl logs' and of the AWS CLI, as files or folders.
    Without DUMP, the command reads the cluster of the kubeconfig with get and list requests only. It changes nothing.
    --against also shows how the cluster differs from your deployment, including objects that kubectl applied, which
    'cdk drift' can't see.
    """
    if print_commands or print_policy:
        from gpu_preflight.doctor.commands import policy, script

        click.echo(policy(print_policy) if print_policy else script(), nl=False)
        return console.PASSED
    from gpu_preflight.doctor.diagnosis import diagnose, find_target
    from gpu_preflight.doctor.live import Live
    from gpu_preflight.doctor.unused import unused_gpus
    from gpu_preflight.report.doctor_view import doctor_view

    if replay and not Path(replay).exists():
        raise click.UsageError(f"--replay must be a file that --record wrote, got {replay!r}, which doesn't exist")
    dumps, pod = _dumps_and_pod((*paths, *((replay,) if replay else ())), pod)
    if dumps and (context or record):
        raise click.UsageError(
            "--context and --record must be given without DUMP, got both; name either a dump or a cluster"
        )
    if sum(each is not None for each in (pod, node, pool)) > 1:
        raise click.UsageError("POD, --node and --pool must be given alone, got several; ask for one of them")
    if not dumps and pod is not None:
        namespace, pod = _namespace_of_pod(pod, namespace, context)
    plan = console.read((against,), {}) if against else None
    live = Live(_read_dumps(dumps, context, record, namespace, pod, plan, with_aws=with_aws), at)
    _refuse_unknown_namespace(live, namespace)
    step = PROGRESS.step = "looking for causes"
    targets = [_usable(find_target, live, pod, namespace, step=step)] if pod else live.targets(namespace)
    place = None
    if node or pool:
        from gpu_preflight.doctor.places import node_place, pool_place

        place = _usable(node_place, live, node, step=step) if node else _usable(pool_place, live, pool, step=step)
        targets = [each for each in targets if place.concerns(each)]
    diagnoses = [diagnose(live, each) for each in targets]
    comparison = None
    if plan is not None:
        from gpu_preflight.doctor.plan import compare

        comparison = _usable(compare, live, plan, targets, step="comparing")
    nodes = () if pod else unused_gpus(live, place.nodes if place is not None else None)
    view = doctor_view(live, diagnoses, nodes, comparison, namespace, place)
    console.emit(view, form, output)
    console.warn_of_old_data()
    return _exit_code(view, strict)


def _dumps_and_pod(given: tuple[str, ...], pod: str | None) -> tuple[tuple[str, ...], str | None]:
    """Separate the paths of a dump from the name of a pod, which is the only argument that is no path."""
    dumps = tuple(each for each in given if Path(each).exists())
    others = [each for each in given if each not in dumps]
    if not others:
        return dumps, pod
    if len(others) > 1 and pod is None:
        raise click.UsageError(
            f"one POD may be given, got {' and '.join(map(repr, others))}, which are no files or folders"
        )
    if pod is not None or Path(others[0]).suffix in (".json", ".yaml", ".yml", ".zip"):
        raise click.UsageError(f"DUMP must be a file or folder, got {others[0]!r}, which doesn't exist")
    return dumps, others[0]


def _namespace_of_pod(pod: str, namespace: str | None, context: str | None) -> tuple[str, str]:
    """Return the namespace and the name of a pod of a cluster. A name without namespace is one of the context's."""
    first, slash, name = pod.partition("/")
    from gpu_preflight.doctor.connection import context_namespace
    from gpu_preflight.doctor.diagnosis import kind_of_pods

    if slash and namespace is None and kind_of_pods(first) is None:
        return first, name
    try:
        return namespace or _usable(context_namespace, context, step="reading"), pod
    except click.UsageError as error:
        # A wrong path looks like the name of a pod.
        raise click.UsageError(f"{error.message}; {pod!r} is no file or folder, so it must be a pod") from None


def _refuse_unknown_namespace(live: Live, namespace: str | None) -> None:
    """Refuse a namespace that certainly has no pod and no owner of pods, because its name is probably a typo."""
    known = {each.name if each.kind == "Namespace" else each.namespace for each in live.dump.objects}
    if namespace is None or namespace in known or live.certainty("Pod") is None:
        return
    from gpu_facts.refusals import did_you_mean

    hint = did_you_mean(namespace, known) or f"; it has {', '.join(sorted(known - {''})[:5])}"
    raise click.UsageError(f"--namespace must be a namespace of the dump, got {namespace!r}{hint}")


def _read_dumps(
    dumps: tuple[str, ...],
    context: str | None,
    record: str | None,
    namespace: str | None,
    pod: str | None,
    plan: Input | None,
    *,
    with_aws: bool,
) -> Dump:
    """Read the files of a dump, or a cluster."""
    if dumps:
        from gpu_preflight.doctor.dump import read_dump

        found: Dump = _usable(read_dump, dumps, step="reading")
        return found
    from gpu_preflight.doctor.aws import is_needed

    asks_aws = (lambda read: plan is not None or is_needed(read)) if with_aws else (lambda _: False)
    return _read_cluster(context, record, namespace, pod, plan, asks_aws=asks_aws)


def _read_cluster(
    context: str | None,
    record: str | None,
    namespace: str | None,
    pod: str | None,
    plan: Input | None,
    *,
    asks_aws: Callable[[Dump], bool],
) -> Dump:
    """Read a cluster, and AWS if the answers of the cluster need it."""
    from gpu_preflight.doctor.aws import Aws
    from gpu_preflight.doctor.collector import Collector
    from gpu_preflight.doctor.connection import Cluster

    with _usable(Cluster, context, step="reading the cluster") as cluster:
        collector = Collector(cluster, namespace if pod else None, plan.objects if plan is not None else None)
        read = collector.collect(pod.rpartition("/")[2] if pod else None)
        aws = Aws(cluster.program)
        if asks_aws(read):
            PROGRESS.step = "reading from AWS"
            aws.collect(cluster.server)
            aws.extend_dump(read)
    if not read.objects:
        why = next((each.why for each in read.refused), "no object is readable")
        raise click.UsageError(f"the cluster must answer, got: {why}")
    if record:
        collector.record(record, aws.answers, aws.refused)
    return read


@cli.command(cls=ConfiguredCommand)
@click.argument("paths", nargs=-1, type=File(), metavar="[PATH]...")
@click.option(
    "--mirror", "registry", metavar="REGISTRY", help="Show the address of each in this mirror, e.g. an ECR registry."
)
@click.option("--copy-script", type=File(), metavar="FILE", help="Write a shell script that copies all to the mirror.")
@click.option(
    "--charts", type=File(), metavar="FOLDER", help="Render the packed charts in FOLDER, instead of using the table."
)
@parameters
@strict
@written(*PLAIN)
def images(
    paths: tuple[str, ...],
    registry: str | None,
    copy_script: str | None,
    charts: str | None,
    form: str,
    output: str | None,
    **options: Any,
) -> int:
    """List all images and charts that the clusters in PATH pull, and the objects that request them.

    The images of charts are in a table of known versions, or come from packed charts. The list states unknown images.
    """
    if copy_script and not registry:
        raise click.UsageError("--mirror must be given with --copy-script, got none; name the registry to copy to")
    if charts and not Path(charts).is_dir():
        raise click.UsageError(f"--charts must be a folder of packed charts, got {charts!r}; 'helm pull' packs one")
    given = console.read(console.paths_or_default(paths), dict(options["parameters"]))
    console.refuse_unknown_parameters(dict(options["parameters"]), given)
    from gpu_preflight.cluster.clusters import clusters
    from gpu_preflight.judging.images import Mirror, pulls
    from gpu_preflight.report.copy_script import render
    from gpu_preflight.report.images_view import images_view

    found = pulls(_usable(clusters, given), Path(charts) if charts else None)
    try:
        view = images_view(found, given.problems, mirror=Mirror(registry) if registry else None)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if copy_script:
        console.write(copy_script, render(view))
    console.emit(view, form, output)
    console.warn_of_old_data("pins")
    return _exit_code(view, options["strict"])


@cli.command()
@click.option(
    "--gpu-memory", "gpu_memory_gib", type=Bound(), multiple=True, help="Memory of one GPU in GiB, e.g. '>=80'."
)
@click.option("--gpus", type=Bound(), multiple=True, help="Number of GPUs of a node, e.g. 8 or '<=4'.")
@click.option(
    "--gpu",
    "models",
    multiple=True,
    metavar="MODEL",
    shell_complete=parameter_types.complete_gpu,
    help="GPU model as EC2 names it, e.g. H100.",
)
@click.option(
    "--family",
    "families",
    multiple=True,
    shell_complete=parameter_types.complete_family,
    help="EC2 family, e.g. g6e.",
)
@click.option("--vcpus", type=Bound(), multiple=True, help="Number of vCPUs of a node, e.g. '>=16'.")
@click.option("--memory", "memory_gib", type=Bound(), multiple=True, help="Memory of a node in GiB, e.g. '>=64'.")
@click.option("--arch", "architecture", type=Word(("x86_64", "arm64")), help="CPU architecture.")
@click.option("--efa", is_flag=True, help="Only types with EFA.")
@click.option("--mig", is_flag=True, help="Only types with GPUs that MIG can partition.")
@click.option("--local-nvme", is_flag=True, help="Only types with local NVMe disks.")
@click.option(
    "--max-price", "max_usd_per_hour", type=click.FloatRange(min=0), help="Highest list price in USD an hour."
)
@click.option(
    "--purchase",
    "purchase_option",
    type=Word(("on-demand", "spot", "capacity-block")),
    help="Only types with this purchase option.",
)
@click.option("--sort", "order", type=Word(("price", "gpus", "name")), default="price", help="Order of the rows.")
@written(*PLAIN)
def instances(form: str, output: str | None, order: Any, **demands: Any) -> int:
    """Find instance types by their properties."""
    from gpu_facts.hardware.capability import Capability, matching, without_a_price
    from gpu_preflight.report.instances_view import instances_view

    try:
        capability = Capability(**demands)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    found = instances_view(matching(capability, order=order), without_a_price(capability))
    console.emit(found, form, output)
    console.warn_of_old_data()
    return console.PASSED


@cli.command()
@click.argument("rule", metavar="[ID]", required=False, shell_complete=parameter_types.complete_rule)
@click.option("--search", metavar="WORD", help="Only rules with WORD in their id, title, reason or fix.")
@click.option("--severity", type=Word(("error", "warning", "note")), help="Only rules of this severity.")
@written(*PLAIN)
def rules(rule: str | None, search: str | None, severity: str | None, form: str, output: str | None) -> int:
    """List the rules, or describe one."""
    from gpu_preflight.report.view import rules_view
    from gpu_preflight.rule import id_hint, matching_rules, rule_id
    from gpu_preflight.rules import rules as known

    id = None if rule is None else rule_id(rule)
    if id is not None and id not in known():
        help = id_hint(id, known()) or "; 'gpu-constructs rules' lists them"
        raise click.UsageError(f"ID must be a rule's id, got {rule!r}{help}")
    chosen = matching_rules(known() if id is None else {id: known()[id]}, search, severity)
    if not chosen:
        found = " and ".join(filter(None, (f"severity {severity}" if severity else "", search and f"{search!r} in it")))
        raise click.UsageError(f"rules: must be at least one, got none with {found}; 'gpu-constructs rules' lists all")
    console.emit(rules_view(chosen), form, output)
    return console.PASSED


@cli.command()
def schema() -> int:
    """Print the JSON schema of --format json."""
    from gpu_preflight.report.schema import schema as text

    click.echo(text(), nl=False)
    return console.PASSED


@cli.command()
@click.option("--root", type=File(), metavar="FOLDER", default=".", help="Folder that the tools may read.")
def mcp(root: str) -> int:
    """Serve check, explain, review, doctor, instances and rules to an agent.

    The server speaks the Model Context Protocol on standard input and output. It reads only files below the folder,
    and changes none. It needs the extra mcp.
    """
    if not Path(root).is_dir():
        raise click.UsageError(f"--root must be a folder, got {root!r}")
    try:
        from gpu_preflight.command_line.mcp_server import serve
    except ModuleNotFoundError as error:
        raise click.UsageError(f"mcp needs the extra mcp, got no {error.name}; run pip install '.[mcp]'") from None
    serve(cli, Path(root).resolve())
    return console.PASSED


@cli.command("completion")
@click.argument("shell", type=Word(parameter_types.SHELLS), metavar="SHELL")
def print_completion(shell: str) -> int:
    """Print the script for completion in SHELL: bash, zsh or fish.

    For bash, put this line into ~/.bashrc: eval "$(gpu-constructs completion bash)"
    """
    click.echo(parameter_types.completion_script(cli, shell))
    return console.PASSED


def main() -> None:
    """Run the console script."""
    console.end_cleanly_when_terminated()
    # The command's objects have few cycles, and it ends soon. Garbage collection took a fifth of its time.
    gc.disable()
    sys.exit(console.run(cli))


if __name__ == "__main__":
    main()

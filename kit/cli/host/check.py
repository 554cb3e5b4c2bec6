"""`hsp host check`: check a testbed before a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from kit.cli import complete
from kit.cli.options import AllOption, JsonOption, KernelOption, PinOption, SuiteOption, TestbedOption
from kit.cli.usage import refuse_unused
from kit.config.testbed import Testbed, read_testbed
from kit.config.workload_base import find_workload
from kit.core.output import emit_json, emit_text
from kit.core.progress import Progress
from kit.doctor.diagnosis import DiagnosedHost, diagnose
from kit.doctor.finding import Finding, Requirements
from kit.doctor.lab import HERE, gather_lab, judge_lab
from kit.doctor.report import Diagnosis, Examinee, make_report, words
from kit.doctor.targets import requirements_of, targets_in, targets_of
from kit.hosts.connect import open_host
from kit.lab.image.image import DEFAULT_KERNEL, DEFAULT_SUITE, ImageInputs, build
from kit.lab.site import lab_site
from kit.setup.remote_site import tell_left

# A login with slow name services takes half a minute.
_CONNECT_DEADLINE_S = 45.0


def check(
    context: typer.Context,
    testbed: TestbedOption,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            metavar="WORKLOAD",
            help="Also check what this workload needs.",
            autocompletion=complete.workloads,
        ),
    ] = None,
    boot: Annotated[
        bool, typer.Option("--boot", help="A testbed in the lab: boot it, and check the guest.")
    ] = False,
    all_: AllOption = False,
    suite: SuiteOption = DEFAULT_SUITE,
    pin: PinOption = None,
    kernel: KernelOption = DEFAULT_KERNEL,
    json_output: JsonOption = False,
) -> None:
    """Check every host of a testbed: what would prevent a run, and what would distort its results.

    Exit code 5 if a run cannot work there.

    Examples:
      hsp host check --testbed nas.toml
      hsp host check --testbed nas.toml --workload top-speeds --all
    """
    plan, progress = read_testbed(testbed), Progress()
    refuse_unused(context, {"hosts of your own": not plan.is_lab, "JSON": json_output})
    requirements = requirements_of(find_workload(workload), plan) if workload else Requirements()
    requirements = replace(requirements, traced=plan.server.trace != "none")
    if plan.is_lab:
        report = _diagnose_lab(
            plan, ImageInputs(suite, tuple(pin or ()), kernel), requirements, boot, progress
        )
    else:
        tell_left({plan.server.host})
        targets = targets_of(
            plan,
            lambda at: open_host(at, plan.ssh_config, _CONNECT_DEADLINE_S),
            over_nfs=requirements.over_nfs,
        )
        report = _diagnose(targets, requirements, progress)
    if json_output:
        emit_json(report.as_json())
    else:
        emit_text(words(report, verbose=all_).splitlines())
    raise typer.Exit(report.exit_code)


def _diagnose(targets: list[DiagnosedHost], requirements: Requirements, progress: Progress) -> Diagnosis:
    with progress.step(f"checking {len(targets)} host{'s' * (len(targets) != 1)}"):
        return diagnose(targets, requirements, progress.detail)


def _diagnose_lab(
    testbed: Testbed, inputs: ImageInputs, requirements: Requirements, boot: bool, progress: Progress
) -> Diagnosis:
    """Check this machine; with `boot` also the guest, unless it cannot start here."""
    findings: list[Finding] = list(judge_lab(gather_lab(inputs), testbed.lab.memory, testbed.lab.clock))
    report = make_report((Examinee(HERE, (), reachable=True, examined=True),), findings)
    if not boot or report.exit_code:
        return report
    with lab_site(testbed, build(inputs, progress), progress, seed=0) as site:
        inside = _diagnose(targets_in(site), requirements, progress)
    return make_report(report.hosts + inside.hosts, [*report.findings, *inside.findings])

"""The set-up of a run whose phases go to bare devices: without pool, export and clients."""

from __future__ import annotations

from kit.config.fio_job import FioJob
from kit.hosts.base import Host
from kit.hosts.clock_offset import Clocks, read_clock_ns
from kit.load import fio
from kit.setup import server_setup, settings
from kit.setup.bench import Bench
from kit.setup.context import Context


def check(run: Context, server: Host) -> None:
    """Whether fio is there, and which versions. Raises HostError."""
    kernel = server.run(["uname", "-r"]).stdout.strip()
    run.record.add_versions({"kernel": kernel, f"fio on {server.name}": fio.version(server)})


def set_up(run: Context, server: Host) -> tuple[Bench, dict[str, FioJob]]:
    """Devices of the state that the workload asks for, and the jobs of its phases."""
    plan, site = run.plan, run.site
    server_setup.take_devices(run)
    server_setup.precondition(run, server)
    run_origin_ns = read_clock_ns(server) - site.clock.to_host_ns(run.record.end_ns)
    with run.progress.step("setting up the devices"):
        settings.switch(run, server)
        server_setup.read_back(run, server)
    bench = Bench(
        site=site,
        run_dir=run.run_dir,
        work_dir=run.names.work_dir,
        mount_point="",
        mount="",
        mounted=(),
        size_bytes=0,
        run_origin_ns=run_origin_ns,
        clocks=Clocks(server),
        device_bytes={device.name: device.size for device in plan.testbed.device},
    )
    return bench, plan.jobs

"""`hsp show --live`: a run in a browser while it goes on."""

from __future__ import annotations

import socket
from pathlib import Path

from kit.core.errors import ConfigError
from kit.core.output import emit_text, say
from kit.recovery.clean import is_made
from kit.session.live.watch import Watch
from kit.store.run_directory import named_run, refuse_no_run


def watch(run: Path, port: int) -> None:
    """Serve the page until Ctrl-C. Raises ConfigError.

    Only this machine can reach the page, and only with the address that is printed.
    """
    refuse_no_run(run)
    run_dir = named_run(run)
    try:
        watched = Watch(run_dir)
        with watched.serving(port) as server:
            emit_text([
                server.url,
                f"from another machine: ssh -L {server.port}:127.0.0.1:{server.port} {socket.gethostname()}",
            ])  # fmt: skip
            if watched.state == "running":
                say(f"{run_dir.path} goes on; Ctrl-C ends this page, not the run")
            watched.follow()
            if watched.state == "killed":
                say(f"{run_dir.path} was ended before it had a report; the page shows what had arrived")
                resume = f", or `hsp run --resume {run_dir.path}`" if is_made(run_dir.path) else ""
                say(f"  what to do: `hsp clean {run_dir.path}`{resume}")
            else:
                say(f"{run_dir.path} has its report, which the page shows; Ctrl-C ends it")
            server.wait()
    except KeyboardInterrupt:
        say("ended")
    except OSError as error:
        raise ConfigError(f"{error.filename or run}: {error.strerror}", "look at its permissions") from None

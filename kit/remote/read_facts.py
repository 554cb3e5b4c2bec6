"""Reads facts about a host for `hsp host check`. Runs there with the host's Python.

The kit refuses a Python below 3.7, so this program also runs with 3.6.

    python3 -I - REQUEST      REQUEST is the JSON of kit.doctor.facts.FactsRequest

Reads files, finds programs, runs commands and tries a connection, all in parallel and each with its own
deadline: one that hangs does not delay the others. Changes nothing. Prints one JSON line; a missing
fact is {"error": message}.
"""

import ctypes
import ctypes.util
import glob
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from concurrent import futures

MAX_BYTES = 262144
MAX_MATCHES = 4096
SYSTEM_PLACES = "/usr/local/sbin:/usr/sbin:/sbin:/usr/local/bin:/usr/bin:/bin"


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read(MAX_BYTES).decode("utf-8", "replace")
    except OSError as error:
        return {"error": error.strerror or str(error), "errno": error.errno}


def read_all(patterns):
    """Contents by path; a pattern without matches adds nothing."""
    contents = {}
    for pattern in patterns:
        for path in sorted(glob.glob(pattern))[:MAX_MATCHES]:
            contents[path] = read(path)
    return contents


def present(patterns):
    return sorted(path for pattern in patterns for path in glob.glob(pattern)[:MAX_MATCHES])


def find_program(name):
    """The path of a program by PATH; `elsewhere`: by the system's directories."""
    return {"path": shutil.which(name), "elsewhere": shutil.which(name, path=SYSTEM_PLACES)}


def run(argv, deadline_s, needed="/"):
    """Exit code and output of a command. `needed`: a file without which it is not run."""
    if not os.path.exists(needed):
        return {"error": f"there is no {needed}"}
    try:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(os.environ, LC_ALL="C"),
        )
    except OSError as error:
        return {"error": f"{argv[0]}: {error.strerror}"}
    try:
        out, err = child.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        # No wait: a process that hangs in the kernel does not end when it is killed.
        child.kill()
        return {"error": f"{argv[0]} did not end within {deadline_s:g} s"}
    return {
        "code": child.returncode,
        "out": out[:MAX_BYTES].decode("utf-8", "replace"),
        "err": err[-2000:].decode("utf-8", "replace"),
    }


def symbols(names):
    """The names that are kernel symbols. A name is at the end of its line, or before its module."""
    try:
        with open("/proc/kallsyms", "rb") as file:
            text = file.read()
    except OSError as error:
        return {"error": error.strerror}
    if not text:
        return {"error": "/proc/kallsyms is empty"}
    return [name for name in names if any(b" %s%s" % (name.encode(), end) in text for end in (b"\n", b"\t"))]


def commands_of_processes():
    """The kernel's names of all processes (at most 15 characters)."""
    names = [read(path) for path in glob.glob("/proc/[0-9]*/comm")]
    return sorted({name.strip() for name in names if isinstance(name, str)})


def space(path):
    try:
        status = os.statvfs(path)
    except OSError as error:
        return {"error": error.strerror}
    return {"free_bytes": status.f_bavail * status.f_frsize, "free_files": status.f_favail}


class Timex(ctypes.Structure):
    """struct timex of adjtimex(2); only the first fields are used."""

    _fields_ = [
        ("modes", ctypes.c_int),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_char * 512),
    ]


def kernel_time():
    """The kernel's state of the wall clock. Changes nothing (modes is 0)."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        timex = Timex()
        state = library.adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError) as error:
        return {"error": str(error)}
    if state < 0:
        return {"error": os.strerror(ctypes.get_errno())}
    return {"status": timex.status, "maxerror_us": timex.maxerror}


def addresses(peer):
    """IP addresses of the peer in the order in which a mount tries them."""
    entries = socket.getaddrinfo(peer, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(entry[4][0] for entry in entries))


def reach(peer, port, deadline_s):
    """Addresses of the peer, the route, and whether it accepts connections. Sends no data."""
    try:
        ips = addresses(peer)
    except (OSError, UnicodeError) as error:
        return {"error": f"{peer}: {getattr(error, 'strerror', None) or error}"}
    route = run(["ip", "-json", "route", "get", ips[0]], deadline_s)
    started = time.monotonic()
    try:
        socket.create_connection((ips[0], port), deadline_s).close()
        connect = {"ms": (time.monotonic() - started) * 1e3}
    except OSError as error:
        connect = {"error": error.strerror or str(error)}
    return {"addresses": ips, "route": route, "connect": connect}


def clock_lead_ns():
    """Wall clock minus monotonic clock: changes when the wall clock is set."""
    return int((time.time() - time.monotonic()) * 1e9)


def gather(request):
    deadline_s = request["deadline_s"]
    # A connection's deadline is a second shorter than that of its part, so that its own error is reported.
    parts = {
        "files": lambda: read_all(request["files"]),
        "present": lambda: present(request["present"]),
        "programs": lambda: {name: find_program(name) for name in request["programs"]},
        "symbols": lambda: symbols(request["symbols"]),
        "processes": commands_of_processes,
        "space": lambda: space(request["space"]),
        "time": kernel_time,
    }
    if request["peer"]:
        parts["peer"] = lambda: reach(request["peer"], request["port"], max(1, deadline_s - 1))
    for name, argv in request["commands"].items():
        needed = request["needs"].get(name, "/")
        parts["command " + name] = lambda argv=argv, needed=needed: run(argv, deadline_s, needed)

    lead_before_ns = clock_lead_ns()
    pool = futures.ThreadPoolExecutor(len(parts))
    running = {name: pool.submit(part) for name, part in parts.items()}
    futures.wait(running.values(), deadline_s + 2)
    result = {name: outcome(future, deadline_s) for name, future in running.items()}
    result.update(
        stepped_ns=clock_lead_ns() - lead_before_ns,
        wall_s=time.time(),
        euid=os.geteuid(),
        system={"name": os.uname().sysname, "release": os.uname().release, "cpus": os.cpu_count()},
        python=".".join(str(part) for part in sys.version_info[:3]),
    )
    return result


def outcome(future, deadline_s):
    if not future.done():
        return {"error": f"no answer within {deadline_s:g} s"}
    error = future.exception()
    return {"error": f"{type(error).__name__}: {error}"} if error else future.result()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(gather(json.loads(sys.argv[1]))) + "\n")
    sys.stdout.flush()
    # Do not wait for threads that hang.
    os._exit(0)

"""Runs on a host under the host's own Python (3.6 or later); the kit sends it over as text.

    python3 - REQUEST      REQUEST is the JSON of kit.doctor.facts.Request

Reads files, looks for programs, runs commands and tries a connection, all at once and each with a
deadline of its own: one that hangs is said to hang and keeps nothing else waiting. Changes nothing.
Prints one JSON line; what could not be had is {"error": words} in its place.
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
import threading
import time

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
    """What is read, by path; a pattern that matches nothing has no path."""
    found = {}
    for pattern in patterns:
        for path in sorted(glob.glob(pattern))[:MAX_MATCHES]:
            found[path] = read(path)
    return found


def present(patterns):
    return sorted(path for pattern in patterns for path in glob.glob(pattern)[:MAX_MATCHES])


def find_program(name):
    """Where a command of that name would come from; `elsewhere` is where PATH does not look."""
    return {"path": shutil.which(name), "elsewhere": shutil.which(name, path=SYSTEM_PLACES)}


def run(argv, deadline_s):
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
        # Not waited for: a process in the kernel's hands does not even end when it is killed.
        child.kill()
        return {"error": f"{argv[0]} did not end within {deadline_s:g} s"}
    return {
        "code": child.returncode,
        "out": out[:MAX_BYTES].decode("utf-8", "replace"),
        "err": err[-2000:].decode("utf-8", "replace"),
    }


def symbols(wanted):
    """Those of the kernel's symbols that it has. A name ends its line, or its module's follows."""
    try:
        with open("/proc/kallsyms", "rb") as file:
            text = file.read()
    except OSError as error:
        return {"error": error.strerror}
    if not text:
        return {"error": "/proc/kallsyms is empty"}
    return [name for name in wanted if any(b" %s%s" % (name.encode(), end) in text for end in (b"\n", b"\t"))]


def commands_of_processes():
    """The names of all processes, as the kernel has them (at most 15 characters)."""
    names = set()
    for path in glob.glob("/proc/[0-9]*/comm"):
        name = read(path)
        if isinstance(name, str):
            names.add(name.strip())
    return sorted(names)


def space(path):
    try:
        found = os.statvfs(path)
    except OSError as error:
        return {"error": error.strerror}
    return {"free_bytes": found.f_bavail * found.f_frsize, "free_files": found.f_favail}


class Timex(ctypes.Structure):
    """struct timex of adjtimex(2); only the begin of it is looked at."""

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
    """The kernel's opinion of its own wall clock. Changes nothing (modes is 0)."""
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
    """IP addresses of the peer in the order in which a mount would try them."""
    found = []
    for entry in socket.getaddrinfo(peer, None, type=socket.SOCK_STREAM):
        if entry[4][0] not in found:
            found.append(entry[4][0])
    return found


def reach(peer, port, deadline_s):
    """Where the peer is, the way there, and whether it takes connections. Sends no data."""
    try:
        where = addresses(peer)
    except (OSError, UnicodeError) as error:
        return {"error": f"{peer}: {getattr(error, 'strerror', None) or error}"}
    route = run(["ip", "-json", "route", "get", where[0]], deadline_s)
    started = time.monotonic()
    try:
        socket.create_connection((where[0], port), deadline_s).close()
        connect = {"ms": (time.monotonic() - started) * 1e3}
    except OSError as error:
        connect = {"error": error.strerror or str(error)}
    return {"addresses": where, "route": route, "connect": connect}


def clock_lead_ns():
    """Wall clock less monotonic clock: it changes when somebody sets the wall clock."""
    return int((time.time() - time.monotonic()) * 1e9)


def gather(request):
    deadline_s = request["deadline_s"]
    # The deadline of a connection is a second less than that of its part, so that it has its own words.
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
        needed = request["needs"].get(name)
        if needed is not None and not os.path.exists(needed):
            parts["command " + name] = lambda needed=needed: {"error": f"there is no {needed}"}
        else:
            parts["command " + name] = lambda argv=argv: run(argv, deadline_s)

    found = {}
    before = clock_lead_ns()
    threads = {name: start(found, name, part) for name, part in parts.items()}
    end = time.monotonic() + deadline_s + 2
    for name, thread in threads.items():
        thread.join(max(0.0, end - time.monotonic()))
        if thread.is_alive():
            found[name] = {"error": f"no answer within {deadline_s:g} s"}
    done = dict(found)
    done["stepped_ns"] = clock_lead_ns() - before
    done["wall_s"] = time.time()
    done["euid"] = os.geteuid()
    done["system"] = {"name": os.uname().sysname, "release": os.uname().release, "cpus": os.cpu_count()}
    done["python"] = ".".join(str(part) for part in sys.version_info[:3])
    return done


def start(found, name, part):
    def work():
        try:
            found[name] = part()
        except Exception as error:
            found[name] = {"error": f"{type(error).__name__}: {error}"}

    thread = threading.Thread(target=work)
    thread.daemon = True
    thread.start()
    return thread


if __name__ == "__main__":
    sys.stdout.write(json.dumps(gather(json.loads(sys.argv[1]))) + "\n")
    sys.stdout.flush()
    # Without waiting for threads that hang.
    os._exit(0)

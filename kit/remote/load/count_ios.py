"""Runs fio and prints what it counts, an interval at a time. Runs on a client, in fio's directory.

    python3 -I count_ios.py INTERVAL_MS OUTPUT ARGUMENT...      the arguments are fio's

At the end of each interval fio is asked for its counts so far (SIGUSR1; json+). A line is printed for each
answer and for fio's own last document, with what that has more than the one before:

    {"from_ns", "asked_ns", "to_ns", "read": {"bins": {latency: I/Os}, "min": ns, "max": ns}, "write"}

These I/Os ended from `from_ns` to `to_ns` of CLOCK_MONOTONIC, and those of the next line at `asked_ns` or
later. `min` and `max` are since fio's start. OUTPUT gets what fio has printed, with the last document alone.

fio answers when each job has ended the I/O that it waits for (stat.c, rusage_sem): the next answer is asked
for after that. It is not asked while no job runs: a signal that arrives while fio gives its memory back ends
it (SIGSEGV or SIGABRT; fio 3.33 and 3.39).
"""

import glob
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time

OPS = ("read", "write")
MS = 10**6
POLL_S = 0.02


def read_documents(pipe, documents, other):
    """Queue (arrival in ns, text) of each document, and None at the end; the rest goes into `other`."""
    lines, begun_ns = [], 0
    for line in pipe:
        if not lines and line.rstrip() != b"{":
            other.append(line)
            continue
        if not lines:
            begun_ns = time.monotonic_ns()
        lines.append(line)
        if line.rstrip() == b"}":
            documents.put((begun_ns, b"".join(lines)))
            lines = []
    other.extend(lines)
    documents.put(None)


def is_ready(pid):
    """Whether fio catches the signal; before, it would end by it."""
    try:
        with open(f"/proc/{pid}/status") as file:
            caught = next(line.split()[1] for line in file if line.startswith("SigCgt:"))
    except (OSError, StopIteration):
        return False
    return bool(int(caught, 16) >> (signal.SIGUSR1 - 1) & 1)


def is_at_work(pid):
    """Whether a job of fio runs: a process of its own, or a thread beside fio's two (main, helper).

    Also true where the kernel does not list children (CONFIG_PROC_CHILDREN).
    """
    tasks = glob.glob(f"/proc/{pid}/task/*")
    if len(tasks) > 2 or not os.path.exists("/proc/thread-self/children"):
        return True
    children = " ".join(read(f"{task}/children") for task in tasks).split()
    # The state is the word after the name, which stands in brackets (proc_pid_stat(5)).
    states = [read(f"/proc/{child}/stat").rpartition(") ")[2][:1] for child in children]
    return any(state not in "ZX" for state in states)


def read(path):
    """The text of the file; none if its process is gone."""
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def summed(jobs, op):
    """The bins of all jobs together, the least and the greatest latency, and the longest time of a job."""
    bins, least, most, runtime_ms = {}, [], [], 0
    for job in jobs:
        of_op = job.get(op, {})
        timed = of_op.get("clat_ns", {})
        for key, count in timed.get("bins", {}).items():
            bins[key] = bins.get(key, 0) + count
        if timed.get("bins"):
            least.append(timed.get("min", 0))
            most.append(timed.get("max", 0))
            runtime_ms = max(runtime_ms, of_op.get("runtime", 0))
    return bins, min(least, default=0), max(most, default=0), runtime_ms


def start_of(fio):
    """When the jobs start, in ns: they wait for that time (start.py). Now, if fio ends before it is known."""
    while fio.poll() is None:
        try:
            with open("go") as file:
                when = file.read()
        except OSError:
            when = ""
        if when.endswith("\n"):
            return int(when)
        time.sleep(POLL_S)
    return time.monotonic_ns()


class Counts:
    """What each document has more than the one before."""

    def __init__(self, begun_ns):
        self.from_ns = self.begun_ns = begun_ns
        self.before = {op: {} for op in OPS}

    def row(self, text, asked_ns, to_ns):
        """The line of a document; None for one without new I/Os."""
        jobs = json.loads(text.decode("utf-8", "replace"))["jobs"]
        row = {"from_ns": self.from_ns, "asked_ns": asked_ns, "to_ns": to_ns}
        runtimes_ms = [0]
        for op in OPS:
            bins, least, most, runtime_ms = summed(jobs, op)
            before, self.before[op] = self.before[op], bins
            added = {key: count - before.get(key, 0) for key, count in bins.items()}
            added = {key: count for key, count in added.items() if count}
            if added:
                row[op] = {"bins": added, "min": least, "max": most}
                runtimes_ms.append(runtime_ms)
        if self.from_ns == self.begun_ns and asked_ns < to_ns:
            # fio's time of its jobs is up to the request; 0 if they began after it.
            runtime_ms = max(runtimes_ms)
            row["from_ns"] = max(self.begun_ns, asked_ns - (runtime_ms + 1) * MS) if runtime_ms else asked_ns
        if len(row) == 3:
            return None
        self.from_ns = asked_ns
        return row


def relay(fio, documents, counts, interval_ns):
    """Ask for documents and print their lines until fio ends. The last, and why lines were not printed."""
    due_ns = max(time.monotonic_ns(), counts.begun_ns) + interval_ns
    last, asked_ns, failure = b"", 0, None
    while True:
        try:
            left_s = (due_ns - time.monotonic_ns()) / 1e9
            document = documents.get(timeout=None if asked_ns else max(left_s, 0))
        except queue.Empty:
            now_ns = time.monotonic_ns()
            if is_at_work(fio.pid):
                asked_ns = now_ns
                fio.send_signal(signal.SIGUSR1)
            # One that fio did not answer in time is not made up for.
            due_ns += (1 + max(now_ns - due_ns, 0) // interval_ns) * interval_ns
            continue
        if document is None:
            return last, failure
        to_ns, last = document
        row = counts.row(last, asked_ns or to_ns, to_ns)
        asked_ns = 0
        try:
            if row and not failure:
                print(json.dumps(row, separators=(",", ":")), flush=True)
        except OSError as error:
            # The counts do not arrive any more: no room there, or the connection is gone.
            failure = error
            fio.send_signal(signal.SIGINT)


def main():
    interval_ns, output, arguments = int(sys.argv[1]) * MS, sys.argv[2], sys.argv[3:]
    # fio gets them from the same sender, ends its jobs and prints its last document.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    counts = Counts(time.monotonic_ns())
    # fio has the descriptor of a device (open_device.py).
    command = ["fio", "--output-format=json+", *arguments]
    fio = subprocess.Popen(command, stdout=subprocess.PIPE, close_fds=False)
    documents, other = queue.Queue(), []
    reader = threading.Thread(target=read_documents, args=(fio.stdout, documents, other))
    reader.start()
    try:
        while not is_ready(fio.pid) and fio.poll() is None:
            time.sleep(POLL_S)
        if os.path.exists("start.py"):
            counts.from_ns = counts.begun_ns = start_of(fio)
        last, failure = relay(fio, documents, counts, interval_ns)
    except BaseException:
        # Without its counts the load is worth nothing.
        fio.send_signal(signal.SIGINT)
        raise
    reader.join()
    if failure:
        sys.stderr.write("the counts could not be written: " + str(failure) + "\n")
    with open(output, "wb") as file:
        file.write(b"".join(other) + last)
    code = fio.wait()
    sys.exit(code if code > 0 else 128 - code if code else 1 if failure else 0)


if __name__ == "__main__":
    main()

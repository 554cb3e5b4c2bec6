"""Does things at set times of a load, on the host's own clock. Runs there with the host's Python.

    python3 -I - '{"begin": {"file": F, "after": A or null, "line": L}, "last_ns": T, "actions": [{"id": N,
                   "at_ns": T, "steps": [STEP...], "cleanup": [STEP...]}]}'

The load begins when the line of the file F that begins with L (the last one after one that has A in it)
changes. Each action then waits `at_ns` on CLOCK_MONOTONIC, whatever the others do. A step is one of

    {"run": ARGV, "input": TEXT or none}    to its end; another exit code than 0 ends the action
    {"sleep_ns": N}
    {"wait": ARGV, "limit_ns": N or null}   to its end or, which is no error, for so long
    {"repeat": ARGV, "every_ns": N, "for_ns": N}    {n} in a word: the number, from 1
    {"until_end": 1}                        until SIGTERM or `last_ns`; then `cleanup` is run

`last_ns` is some time after the load must be over: a fault that keeps it from its end ends then.

{last} in later words is the number of the last repetition. Without an end by itself (SIGTERM, SIGINT or
SIGHUP came first, or a step failed) `cleanup` is run. Prints a line of JSON at the begin of the load and at
each begin and end:

    {"ns": CLOCK_MONOTONIC, "what": "load" | "begin" | "end", "id": N, "times": N, "error": TEXT, "cut": BOOL,
     "lasted": BOOL, "clean": whether all is undone}

and before them one with its `pid`.

Also ends, with its cleanup, when its parent has ended.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time

POLL_S = 0.01
COMMAND_S = 3600.0
LOCK = threading.Lock()
STOP = threading.Event()


def now_ns():
    return int(time.monotonic() * 1e9)


PARENT = os.getppid()


class Failed(Exception):
    pass


class Stopped(Exception):
    pass


def say(what, **values):
    with LOCK:
        print(json.dumps(dict(values, ns=now_ns(), what=what)), flush=True)


def value_of(begin):
    """The last line that begins as asked for, of what comes after the last mark."""
    with open(begin["file"]) as file:
        text = file.read()
    if begin.get("after"):
        text = text.rpartition(begin["after"])[2]
    return [line for line in text.splitlines() if line.strip().startswith(begin["line"])][:1]


def wait_for_load(begin, before):
    while not STOP.wait(POLL_S):
        if value_of(begin) != before:
            return True
    return False


def pause(until_ns):
    """Raises Stopped."""
    while True:
        left_s = (until_ns - now_ns()) / 1e9
        if left_s <= 0:
            return
        if STOP.wait(min(left_s, 60.0)):
            raise Stopped


def command(argv, text="", limit_ns=None, stoppable=True):
    """Run to its end. False if the limit came first. Raises Failed, Stopped."""
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise Failed(f"{argv[0]}: {error.strerror}") from None
    output = []
    reader = threading.Thread(
        target=lambda: output.append(process.communicate((text or "").encode())[0]), daemon=True
    )
    reader.start()
    end_ns = now_ns() + (limit_ns if limit_ns is not None else int(COMMAND_S * 1e9))
    while reader.is_alive():
        reader.join(0.02)
        stopped = stoppable and STOP.is_set()
        if reader.is_alive() and (stopped or now_ns() >= end_ns):
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except OSError:
                pass
            reader.join(5.0)
            if stopped:
                raise Stopped
            if limit_ns is None:
                raise Failed(f"{argv[0]} did not end within {COMMAND_S:g} s")
            return False
    if process.returncode:
        said = output[0].decode("utf-8", "replace").strip() if output else ""
        raise Failed("`{}` ended with {}: {}".format(" ".join(argv)[:200], process.returncode, said[-300:]))
    return True


class Action:
    def __init__(self, spec, last_ns):
        self.spec, self.last_ns, self.times, self.lasted = spec, last_ns, 0, False

    def words(self, argv, number=None):
        if not any("repeat" in step for step in self.spec["steps"]):
            return argv
        return [w.replace("{last}", str(self.times)).replace("{n}", str(number)) for w in argv]

    def step(self, step):
        if "run" in step:
            command(self.words(step["run"]), step.get("input"))
        elif "sleep_ns" in step:
            pause(now_ns() + step["sleep_ns"])
        elif "wait" in step:
            if not command(self.words(step["wait"]), limit_ns=step.get("limit_ns")):
                self.clean()
        elif "until_end" in step:
            try:
                pause(self.last_ns)
            except Stopped:
                pass
            self.lasted = True
            raise Stopped
        else:
            begin_ns, times = now_ns(), 0
            while now_ns() - begin_ns < step["for_ns"]:
                command(self.words(step["repeat"], times + 1))
                times += 1
                self.times = times
                pause(begin_ns + times * step["every_ns"])

    def clean(self):
        """Put the host back, as far as it goes. Returns whether all was."""
        clean = True
        for step in self.spec.get("cleanup", ()):
            try:
                command(self.words(step["run"]), step.get("input"), stoppable=False)
            except Failed:
                clean = False
        return clean

    def act(self, begun_ns):
        number, error, cut = self.spec["id"], "", False
        try:
            pause(begun_ns + self.spec["at_ns"])
        except Stopped:
            return
        say("begin", id=number)
        try:
            for step in self.spec["steps"]:
                self.step(step)
            self.times = self.times or 1
        except Failed as failure:
            error = str(failure)
        except Stopped:
            cut = not self.lasted
            self.times = self.times or int(self.lasted)
        clean = self.clean() if error or cut or self.lasted else True
        say("end", id=number, times=self.times, error=error, cut=cut, lasted=self.lasted, clean=clean)


def watch_parent():
    while os.getppid() == PARENT:
        time.sleep(30)
    STOP.set()


def main():
    spec = json.loads(sys.argv[1])
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: STOP.set())
    threading.Thread(target=watch_parent, daemon=True).start()
    before = value_of(spec["begin"])
    say("ready", pid=os.getpid())
    if not wait_for_load(spec["begin"], before):
        return
    begun_ns = now_ns()
    say("load")
    actions = [Action(each, begun_ns + spec["last_ns"]) for each in spec["actions"]]
    threads = [threading.Thread(target=each.act, args=(begun_ns,)) for each in actions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()

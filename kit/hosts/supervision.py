"""A remote command that does not outlive its connection.

sshd does not end a command when its connection breaks: a load would run for ever. So a few lines
of shell start the command: they fork a watcher and then become the command with `exec` (exit code,
signals and process id are the command's). The channel's standard input belongs to the watcher:

- a line with the name of a signal: the watcher sends it to the command's process group;
- a line `beat`: the kit is still connected. After the first beat there must be one a minute,
  because an unplugged cable does not close the connection;
- end of file: the kit is gone. The watcher sends TERM to the group, and KILL after a grace time.

sshd starts every command in its own session, so the group is the command and its children. The
watcher belongs to the group, so the kernel does not reuse the group's number. A process that leaves
the group (a daemon), or that still runs when the command has ended, is not ended.

An INT for a command of root may come twice. The group is signalled through sudo, so the command and its own
sudo both get it; that sudo forwards it unless its sender is of the same group, which it cannot tell when the
sender is gone already (sudo's exec_nopty.c: getpgid fails). The sender is `kill`, the only such program that
a client's sudoers file allows, so it cannot wait. What is ended so must bear it: fio does; bpftrace would end
without its last counts, so the tracer is ended by ending its held command, and gets INT only if that fails.

Input for the command comes first on the channel, with its length, and is a complete file before
the command starts.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

BEAT = b"beat\n"
SILENCE_S = 60

# $1: bytes of input; $2: seconds of grace; $3: seconds of silence; $4: number of words of the
# prefix of `kill` (sudo's; 0 if the user may signal the command); then these words; then the
# command. For dash, bash and busybox.
# The watcher forks only to wait; `read` is a builtin of the shell.
# The trap: bash would lose an INT that arrives while it waits for the subshell. It is taken back before
# `exec`, which loses an INT whose trap has not run yet.
_SCRIPT = r"""
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C.UTF-8
export PATH LC_ALL
input=$1 grace=$2 silence=$3 words=$4 killer=
shift 4
while [ "$words" -gt 0 ]; do killer="$killer $1"; shift; words=$((words - 1)); done
trap 'trap - INT; kill -s INT "$$"' INT
exec 3<&0 </dev/null
if [ "$input" -gt 0 ]; then
    file=$(mktemp) || exit 125
    head -c "$input" <&3 >"$file"
    exec <"$file"
    [ "$(wc -c <"$file")" -eq "$input" ]
    whole=$?
    rm -f -- "$file"
    [ "$whole" -eq 0 ] || { echo "the input did not arrive whole" >&2; exit 125; }
fi
(
    {
        trap '' HUP INT QUIT TERM USR1 USR2 ALRM PIPE
        read -r stat </proc/self/stat
        set -- ${stat##*) }
        group=$3
        tell() {
            kill -s "$1" -- "-$group"
            [ -z "$killer" ] || $killer kill -s "$1" -- "-$group"
        }
        next() { read -r word; }
        while next; do
            case $word in
            HUP | INT | QUIT | TERM | USR1 | USR2) tell "$word" ;;
            KILL)
                [ -z "$killer" ] || $killer kill -s KILL -- "-$group"
                kill -s KILL -- "-$group"
                ;;
            beat) next() { word=$(timeout "$silence" sh -c 'read -r word && echo "$word"'); } ;;
            esac
        done
        [ -d "/proc/$$" ] || exit 0
        tell TERM
        while [ -d "/proc/$$" ] && [ "$grace" -gt 0 ]; do
            sleep 1
            grace=$((grace - 1))
        done
        [ -z "$killer" ] || $killer kill -s KILL -- "-$group"
        kill -s KILL -- "-$group"
    } <&3 3<&- >/dev/null 2>&1 &
)
exec 3<&-
trap - INT
exec "$@"
"""
_TEXT = "\n".join(line.strip() for line in _SCRIPT.strip().splitlines())


@dataclass(frozen=True)
class Supervision:
    """How commands of one host are supervised. Times in seconds.

    `killer`: prefix of `kill` for commands of another user: the words of sudo, without blanks.
    `first_beat_s`: shorter commands need no beat.
    """

    killer: tuple[str, ...] = ()
    beat_s: float = 20.0
    first_beat_s: float = 5.0
    silence_s: int = SILENCE_S
    grace_s: int = 5

    def words(self, argv: Sequence[str], input_bytes: int) -> tuple[str, ...]:
        """The argv that runs `argv` supervised, after `input_bytes` bytes of input."""
        parameters = (input_bytes, self.grace_s, self.silence_s, len(self.killer))
        return ("sh", "-c", _TEXT, "hsp", *map(str, parameters), *self.killer, *argv)

    def wrap(self, argv: Sequence[str], input_bytes: int) -> str:
        """The same as one line for the remote login shell."""
        return "exec " + shlex.join(self.words(argv, input_bytes))

"""A remote command that does not outlive its connection.

sshd leaves a command alone when its connection dies: a load would go on for ever on a
machine that nobody looks at. So the command is started by a few lines of shell, which put
a watcher beside it and then become the command (`exec`: its status, its signals and its
process id stay its own). The channel's standard input is not the command's but the watcher's:

- a line with the name of a signal is sent on to the command's process group;
- a line `beat` says that this side is still there; from the first one on there must be
  one a minute, for a pulled cable closes nothing;
- its end means that nobody is there any more: TERM to the group, KILL after a grace.

sshd gives every command a session of its own, so the group is what the command started and
nothing else; the watcher is in it, and while it is, the kernel gives the group's number to
nobody else. A process that leaves the group (a daemon) or that the command left behind when
it ended is not followed.

Input for the command comes first on the channel, its length known, and is a file by the time
the command starts: a command never sees half of it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

BEAT = b"beat\n"
BEAT_S = 20.0
FIRST_BEAT_S = 5.0
"""Commands that end sooner cost no beat."""
SILENCE_S = 60
GRACE_S = 5

# $1: bytes of input; $2: seconds of grace; $3: seconds of silence; $4: how many words of a
# prefix for `kill` follow (sudo's; none for a host where the user may signal the command);
# then these words; then the command. Read by dash, bash and busybox.
# In the watcher only what needs waiting is forked: reading a line is the shell's own.
# The trap: while it waits for a subshell, bash would let an INT pass that comes this early.
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
exec "$@"
"""
_TEXT = "\n".join(line.strip() for line in _SCRIPT.strip().splitlines())


@dataclass(frozen=True)
class Supervision:
    """How commands of one host are supervised. Times in seconds.

    `killer` comes before `kill` where the command belongs to somebody else: sudo's words,
    each without blanks.
    """

    killer: tuple[str, ...] = ()
    beat_s: float = BEAT_S
    first_beat_s: float = FIRST_BEAT_S
    silence_s: int = SILENCE_S
    grace_s: int = GRACE_S

    def words(self, argv: Sequence[str], input_bytes: int) -> tuple[str, ...]:
        """The command line that runs `argv` supervised, after `input_bytes` of input have come."""
        numbers = (input_bytes, self.grace_s, self.silence_s, len(self.killer))
        return ("sh", "-c", _TEXT, "hsp", *map(str, numbers), *self.killer, *argv)

    def wrap(self, argv: Sequence[str], input_bytes: int) -> str:
        """The same as one line for the far end's login shell."""
        return "exec " + shlex.join(self.words(argv, input_bytes))

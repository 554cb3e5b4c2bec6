import contextlib
import errno
import http.client
import json
import socket
import threading
import zlib

import pytest

import reports
from kit.core.errors import ConfigError
from kit.session.live import watch_server
from kit.session.live.watch import Watch
from reports.figures.encoding import ALPHABET
from tests.kit.session.live.rig import READ, WHOLE, going_on
from tests.reports import synthetic


def unpacked(text):
    """What encoding.js makes of it."""
    digits = [ALPHABET.index(letter) for letter in text.encode()]
    data = bytearray()
    for at in range(0, len(digits), 5):
        word = 0
        for digit in (digits[at : at + 5] + [84] * 4)[:5]:
            word = word * 85 + digit
        data += word.to_bytes(4, "big")
    return json.loads(zlib.decompressobj().decompress(bytes(data)))


@pytest.fixture
def watched(tmp_path):
    run, journal = going_on(tmp_path)
    (run.raw / "read-trace.json").write_text(READ)
    watch = Watch(run)
    with watch.serving(0) as server:
        yield run, journal, watch, server
    journal.close()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers=headers)
    return connection.getresponse()


def test_only_the_page_is_served_and_only_with_its_token(watched):
    _, _, _, server = watched
    page = f"/{server.token}/"
    answer = ask(server, page)
    body = answer.read().decode()
    assert answer.status == 200 and "Top speeds" in body and "connect-src 'self'" in body
    assert answer.getheader("X-Content-Type-Options") == "nosniff"
    wrong = ["/", "/events", "/wrong/", "/wrong/events", f"{page}plan.json", f"{page}../plan.json",
             f"{page}raw/", f"{page}%2e%2e/plan.json", f"/{server.token}"[:-1] + "/"]  # fmt: skip
    assert {path: ask(server, path).status for path in wrong} == dict.fromkeys(wrong, 404)
    assert len(server.token) >= 32


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example:80", "", "[::1]:1"]
)
def test_a_name_that_only_leads_here_is_refused(watched, host):
    assert ask(watched[3], f"/{watched[3].token}/", Host=host).status == 403


def test_a_forwarded_port_and_localhost_are_answered(watched):
    for host in ("localhost:9999", "127.0.0.1:9999", "localhost"):
        assert ask(watched[3], f"/{watched[3].token}/", Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "XYZ"])
def test_other_methods_are_refused(watched, method):
    assert ask(watched[3], f"/{watched[3].token}/", method).status == 403


def test_other_addresses_do_not_answer(watched):
    assert watched[3].server_address[0] == "127.0.0.1"


def test_events_have_the_counts_and_the_end(watched):
    run, journal, watch, server = watched
    streams = [ask(server, f"/{server.token}/events") for _ in range(3)]
    # One browser is closed; the others go on.
    streams.pop().close()
    following = threading.Thread(target=watch.follow)
    following.start()
    for stream in streams:
        assert stream.getheader("Content-Type") == "text/event-stream"
        assert stream.readline() == b"event: phase\n"
        message = unpacked(stream.readline().removeprefix(b"data: ").strip().decode())
        assert message["title"] == "read" and message["progress"] == "8.0 of 8.0 s, ended."
        ios = sum(int(row[1].replace(",", "")) for row in message["rows"])
        assert ios == sum(sum(bins.values()) for bins in WHOLE.values())
        assert any(trace["type"] == "heatmap" for trace in message["figure"]["data"])
    frame = synthetic.latency(3)
    synthetic.write(run.path, synthetic.manifest(frame, 3), frame)
    run.report.write_text("<script>fetch('http://127.0.0.1:1')</script>")
    journal.close()
    for stream in streams:
        assert stream.read().endswith(b"event: end\ndata: finished\n\n")
    following.join(10)
    # Drawn from the counts: a stranger's page has scripts of his own.
    assert ask(server, f"/{server.token}/").read() == reports.page(run)
    assert run.report.read_text().startswith("<script>") and not (run.path / "summary.json").exists()


def test_a_finished_run_that_is_damaged_shows_no_page(watched):
    run, journal, watch, server = watched
    run.report.write_text("<script></script>")
    journal.close()
    watch.follow()
    assert watch.state == "finished" and ask(server, f"/{server.token}/").status == 500


def test_the_address_without_its_last_slash_leads_to_the_page(watched):
    server = watched[3]
    answer = ask(server, f"/{server.token}")
    assert (answer.status, answer.getheader("Location")) == (308, f"/{server.token}/")


def test_a_request_in_pieces_has_one_deadline(watched, monkeypatch):
    """A byte now and then kept a thread and a descriptor for good."""
    monkeypatch.setattr(watch_server, "_REQUEST_DEADLINE_S", 1.0)
    with socket.create_connection(("127.0.0.1", watched[3].port), timeout=30) as slow:
        slow.sendall(b"GET / HTTP/1.0\r\n")
        with pytest.raises(OSError):
            # Less than a second apart, until it is hung up.
            for _ in range(100):
                slow.sendall(b"X")
                slow.settimeout(0.3)
                try:
                    if slow.recv(1) == b"":
                        raise ConnectionResetError
                except TimeoutError:
                    continue


def test_connections_are_bounded_and_come_back(watched):
    server = watched[3]
    kept = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(60)]
    refused = [each for each in kept[watch_server.MOST_CONNECTIONS :] if each.recv(1) == b""]
    assert len(refused) == 60 - watch_server.MOST_CONNECTIONS
    for each in kept:
        each.close()
    for _ in range(200):
        with contextlib.suppress(OSError, http.client.HTTPException):
            if ask(server, f"/{server.token}/").status == 200:
                return
    pytest.fail("no connection is free again")


def test_no_descriptor_for_a_moment_does_not_end_it(watched, monkeypatch):
    _, journal, watch, _ = watched
    journal.close()
    errors = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.ENFILE, "too")]
    state = watch._reader.state
    monkeypatch.setattr(watch._reader, "state", lambda: state() if not errors else _raise(errors.pop()))
    watch.follow()
    assert watch.state == "killed" and not errors


def _raise(error):
    raise error


def test_a_killed_run_is_told(watched):
    _, journal, watch, server = watched
    journal.close()
    watch.follow()
    assert watch.state == "killed"
    assert ask(server, f"/{server.token}/events").read().endswith(b"event: end\ndata: killed\n\n")


def test_so_many_streams_and_no_more(watched):
    server = watched[3]
    kept = [ask(server, f"/{server.token}/events") for _ in range(16)]
    assert ask(server, f"/{server.token}/events").status == 503
    assert len(kept) == 16


def test_a_port_that_is_taken_is_refused(watched):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with (
            pytest.raises(ConfigError, match="cannot be listened on"),
            watched[2].serving(taken.getsockname()[1]),
        ):
            pass

"""The tests over SSH use the server of the tests of kit.hosts."""

from tests.kit.hosts.conftest import sshd as sshd

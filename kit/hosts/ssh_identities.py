"""The user's keys: those of the agent and of the files of the SSH configuration. No passwords."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Self

import asyncssh

from kit.core.text import counted
from kit.hosts.ssh_config import SshSettings


class Identities:
    """The keys for one host in OpenSSH's order: configured keys that the agent holds, other keys of
    the agent (unless IdentitiesOnly), then key files. An asynchronous context manager, because the
    agent signs during the login.
    """

    def __init__(self, settings: SshSettings) -> None:
        self._settings = settings
        self._stack = AsyncExitStack()
        self.keys: list[asyncssh.SSHKeyPair] = []
        self._locked: list[Path] = []
        self._unread: list[str] = []
        self._agent = "no agent runs"
        self._used: list[Path] = []

    async def __aenter__(self) -> Self:
        agent_keys = await self._from_agent()
        files = self._settings.identity_files
        configured = [blob for path in files if (blob := _public(path))]
        agent_configured = [key for blob in configured for key in agent_keys if key.public_data == blob]
        self.keys = [*agent_configured]
        if not self._settings.identities_only:
            self.keys += [key for key in agent_keys if key not in agent_configured]
        # Each key once: a server limits failed attempts.
        tried = {key.public_data for key in self.keys}
        self.keys += [key for path in files for key in self._from_file(path) if key.public_data not in tried]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _from_agent(self) -> list[asyncssh.SSHKeyPair]:
        if not self._settings.agent:
            return []
        try:
            agent = await self._stack.enter_async_context(asyncssh.connect_agent(self._settings.agent))
            keys = list(await agent.get_keys())
        except (OSError, ValueError, asyncssh.Error):
            self._agent = f"the agent at {self._settings.agent} does not answer"
            return []
        self._agent = f"the agent holds {counted(len(keys), 'key')}"
        return keys

    def _from_file(self, path: Path) -> list[asyncssh.SSHKeyPair]:
        if not path.is_file():
            return []
        certificates = [file for file in self._settings.certificate_files if file.is_file()]
        try:
            pairs = list(asyncssh.load_keypairs([path], certlist=certificates))
        except (OSError, ValueError) as error:
            if isinstance(error, asyncssh.KeyEncryptionError) or "passphrase" in str(error).lower():
                self._locked.append(path)
            elif not path.read_bytes().startswith((b"ssh-", b"ecdsa-", b"sk-")):
                # A public key alone is no error: it selects a key of the agent.
                self._unread.append(f"{path}: {error}")
            return []
        self._used.append(path)
        return pairs

    def tried(self) -> str:
        """The keys that were tried, for a message."""
        files = ", ".join(map(str, self._used)) or "no key file could be used"
        parts = [f"tried {files}" if self._used else files, self._agent]
        parts += [f"{path} is protected by a passphrase" for path in self._locked]
        return "; ".join([*parts, *self._unread])

    def advice(self) -> str:
        """What to do if no key was accepted."""
        if self._locked:
            return f"give the key to the agent: `ssh-add {self._locked[0]}` (the kit asks for no passphrase)"
        return (
            "the kit uses keys and the agent only, never a password: `ssh-copy-id` puts your key there, or "
            "name it with IdentityFile in ~/.ssh/config"
        )


def _public(path: Path) -> bytes | None:
    """The public key of `path` or of the `.pub` file beside it, in SSH's binary form."""
    for file in (path.with_name(path.name + ".pub"), path):
        try:
            return asyncssh.read_public_key(file).public_data
        except (OSError, ValueError):
            continue
    return None

"""Messages with file descriptors between processes of one host, over sockets that keep messages apart.

Standard library only: zygotes import it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

#: Most bytes of a message; what may be longer is in a file whose descriptor comes along.
_LONGEST: Final = 8192
_DESCRIPTORS: Final = 4


class Message(NamedTuple):
    """What came, with descriptors that now belong to this process."""

    content: Mapping[str, Any]
    descriptors: Sequence[int] = ()

    def close(self) -> None:
        """Closes the descriptors."""
        for each in self.descriptors:
            with suppress(OSError):
                os.close(each)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected sockets. The end of either process is the end of the other's messages."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(to: socket.socket, content: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Sends a message with open descriptors.

    Raises:
        OSError: the other process has ended; or, of a socket that does not block, it does not receive.
    """
    socket.send_fds(to, [json.dumps(content).encode()], list(descriptors))


def receive(at: socket.socket) -> Message | None:
    """The next message; None when the other process has ended.

    Raises:
        OSError: nothing came in time.
    """
    try:
        content, descriptors, _, _ = socket.recv_fds(at, _LONGEST, _DESCRIPTORS)
    except ConnectionError:
        return None
    return Message(json.loads(content), descriptors) if content else None


async def next_message(at: socket.socket) -> Mapping[str, Any] | None:
    """The next message without descriptors; None when the other process has ended."""
    try:
        content = await asyncio.get_running_loop().sock_recv(at, _LONGEST)
    except ConnectionError:
        return None
    return json.loads(content) if content else None


def file_of(content: Mapping[str, Any] | None) -> int:
    """The descriptor of a file without a name that holds this; of an empty one with None."""
    with tempfile.TemporaryFile() as file:
        file.write(b"" if content is None else json.dumps(content).encode())
        file.flush()
        return os.dup(file.fileno())


def content_of(descriptor: int) -> dict[str, Any]:
    """What `file_of` wrote. The descriptor stays open.

    Raises:
        ValueError: something else was written, or nothing.
    """
    return json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))

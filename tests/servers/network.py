"""A network between clients and servers on loopback that can be slow, silent or cut at run time."""

import asyncio
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

_CHUNK = 65536
_DEADLINE_S = 10.0
_RESET = struct.pack("ii", 1, 0)
"""Linger for no time: what is closed so says RST, not FIN."""


@dataclass(frozen=True, slots=True)
class Weather:
    """What becomes of the bytes of one direction.

    `delay_s` is how much later they arrive, in seconds. `is_lost` swallows them: as no stream of
    TCP has a hole, the connection is reset by the first bytes that would come through after it.
    """

    delay_s: float = 0.0
    is_lost: bool = False


CLEAR = Weather()


@dataclass(eq=False)
class _Stream:
    """One connection, both ways."""

    link: "Link"
    name: bytes = b""
    """The first bytes of the client: a store's client says its name there."""
    is_hung: bool = False
    has_hole: bool = False
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def weather(self, at: int) -> Weather:
        """Of the direction to the server (0) or to the client (1)."""
        if self.is_hung:
            return Weather(is_lost=True)
        weather, only = self.link.weather[at], self.link.only
        return weather if only in self.name else CLEAR

    def cut(self) -> None:
        """Resets both ends."""
        for writer in self.writers:
            end = writer.get_extra_info("socket")
            with suppress(OSError):
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()

    async def carry(self, at: int, reader: asyncio.StreamReader) -> None:
        """Takes bytes from one end to the other, until that one has no more."""
        loop = asyncio.get_running_loop()
        way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        arrivals = asyncio.create_task(self._deliver(at, way))
        try:
            while said := await reader.read(_CHUNK):
                if at == 0 and not self.name:
                    self.name = said
                weather = self.weather(at)
                if weather.is_lost:
                    self.has_hole = True
                elif self.has_hole:
                    return self.cut()
                else:
                    way.put_nowait((loop.time() + weather.delay_s, said))
            if not self.weather(at).is_lost:
                way.put_nowait((loop.time() + self.weather(at).delay_s, b""))
                await arrivals
        except OSError:
            self.cut()
        finally:
            arrivals.cancel()

    async def _deliver(self, at: int, way: asyncio.Queue[tuple[float, bytes]]) -> None:
        writer = self.writers[at]
        loop = asyncio.get_running_loop()
        with suppress(OSError):
            while True:
                due, said = await way.get()
                if due > loop.time():
                    await asyncio.sleep(due - loop.time())
                if not said:
                    return writer.close()
                writer.write(said)


@dataclass(eq=False)
class Link:
    """The way to one server: what listens on `port` leads to 127.0.0.1:`server`."""

    network: "Network"
    server: int
    port: int = field(default=0, init=False)
    weather: tuple[Weather, Weather] = field(default=(CLEAR, CLEAR), init=False)
    only: bytes = field(default=b"", init=False)
    streams: set[_Stream] = field(default_factory=set, init=False)

    def set(self, to: Weather, back: Weather | None = None, only: str = "") -> None:
        """What holds from now on, to the server and back (the same unless said).

        With `only`, for those connections whose client says this first.
        """
        self.network.run(lambda: self._set((to, to if back is None else back), only.encode()))

    def clear(self) -> None:
        """All passes again."""
        self.set(CLEAR)

    def cut(self) -> None:
        """Resets the connections that stand."""
        self.network.run(self._cut)

    def hang(self) -> None:
        """The connections that stand fall silent for ever; new ones pass."""
        self.network.run(self._hang)

    def _set(self, weather: tuple[Weather, Weather], only: bytes) -> None:
        self.weather, self.only = weather, only

    def _cut(self) -> None:
        for stream in self.streams:
            stream.cut()

    def _hang(self) -> None:
        for stream in self.streams:
            stream.is_hung = True

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one client."""
        try:
            back, to = await asyncio.open_connection("127.0.0.1", self.server)
        except OSError:
            writer.transport.abort()
            return
        stream = _Stream(self, writers=[to, writer])
        self.streams.add(stream)
        try:
            await asyncio.gather(stream.carry(0, reader), stream.carry(1, back))
        finally:
            self.streams.discard(stream)
            stream.cut()


class Network:
    """All links, in a thread of their own. Use it as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._doors: list[asyncio.Server] = []
        self.links: list[Link] = []

    def link(self, server: int) -> Link:
        """A way to the server at that port of loopback."""
        link = Link(self, server)

        async def listen() -> None:
            door = await asyncio.start_server(link.accept, "127.0.0.1", 0)
            self._doors.append(door)
            link.port = door.sockets[0].getsockname()[1]

        asyncio.run_coroutine_threadsafe(listen(), self._loop).result(_DEADLINE_S)
        self.links.append(link)
        return link

    def clear(self) -> None:
        """All links pass everything again."""
        for link in self.links:
            link.clear()

    def run(self, change: Callable[[], object]) -> None:
        """Changes something in the links' thread, and returns once it is done."""

        async def changed() -> None:
            change()

        asyncio.run_coroutine_threadsafe(changed(), self._loop).result(_DEADLINE_S)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(_DEADLINE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_DEADLINE_S)
        self._loop.close()

    async def _end(self) -> None:
        for door in self._doors:
            door.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        # The transports that were aborted close in the loop's next turn.
        await asyncio.sleep(0)

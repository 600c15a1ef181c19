"""The outbound guard, against a real server on loopback."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import httpx
import pytest

from gristmill import net
from gristmill.errors import Permanent, Transient


@pytest.fixture
async def address() -> AsyncGenerator[str]:
    """A server that answers every request with its Host header, or sends /away elsewhere."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        host = next(line[6:] for line in head.split("\r\n") if line.lower().startswith("host: "))
        if head.startswith("GET /away "):
            writer.write(
                b"HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        else:
            writer.write(
                f"HTTP/1.1 200 OK\r\ncontent-length: {len(host)}\r\nconnection: close\r\n\r\n{host}".encode()
            )
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "localhost",
        "10.1.2.3",
        "192.168.1.1",
        "172.16.0.1",
        "169.254.169.254",
        "0.0.0.0",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[fe80::1]",
        "[fd00::1]",
        "100.64.0.1",
        "2130706433",
    ],
)
async def test_a_private_address_is_never_connected_to(host: str) -> None:
    async with net.client(allow_private=False, timeout=timedelta(seconds=2)) as client:
        with pytest.raises(net.PrivateAddress) as caught:
            await client.get(f"http://{host}:1/")
    assert caught.value.code == "private_address"


async def test_private_addresses_can_be_allowed(address: str) -> None:
    async with net.client(allow_private=True) as client:
        assert (await client.get(f"http://{address}/")).text == address


async def test_the_address_that_was_checked_is_the_one_connected_to_and_the_name_stays(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def checked(host: str, port: int) -> str:
        assert (host, port) == ("public.example", int(address.rpartition(":")[2]))
        return "127.0.0.1"

    monkeypatch.setattr(net, "_public_address", checked)
    async with net.client(allow_private=False) as client:
        answer = await client.get(f"http://public.example:{address.rpartition(':')[2]}/")
    assert answer.text == f"public.example:{address.rpartition(':')[2]}"
    assert answer.request.url.host == "public.example"


async def test_a_redirect_to_a_private_address_is_refused_too(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = net._public_address  # pyright: ignore[reportPrivateUsage]

    async def checked(host: str, port: int) -> str:
        return "127.0.0.1" if host == "public.example" else await real(host, port)

    monkeypatch.setattr(net, "_public_address", checked)
    async with net.client(allow_private=False) as client:
        with pytest.raises(net.PrivateAddress):
            await client.get(f"http://public.example:{address.rpartition(':')[2]}/away")


async def test_a_name_that_nobody_knows_may_be_known_later() -> None:
    async with net.client(allow_private=False) as client:
        with pytest.raises(Transient) as caught:
            await client.get("http://does-not-exist.invalid/")
    assert caught.value.code == "host_unknown"


async def test_a_body_longer_than_allowed_is_cut_off() -> None:
    with pytest.raises(Permanent) as caught:
        await net.read_limited(httpx.Response(200, content=b"x" * 1000), 999)
    assert caught.value.code == "response_too_large"
    assert await net.read_limited(httpx.Response(200, content=b"x" * 1000), 1000) == b"x" * 1000

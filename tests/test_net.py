"""The outbound guard, against a real server on loopback."""

import asyncio
import ipaddress
from collections.abc import AsyncGenerator
from datetime import timedelta

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
        "255.255.255.255",
        "224.0.0.251",
        "[::127.0.0.1]",
        "[64:ff9b::10.0.0.1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[fec0::1]",
        "[ff02::1]",
    ],
)
async def test_a_private_address_is_never_connected_to(host: str) -> None:
    async with net.client(allow_private=False, timeout=timedelta(seconds=2)) as client:
        with pytest.raises(net.PrivateAddress) as caught:
            await client.get(f"http://{host}:1/")
    assert caught.value.code == "private_address"


# What the registries of special-purpose addresses (IPv4 and IPv6) say can't be reached from everywhere.
SPECIAL = [
    *(
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
    ),
    *(
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
    ),
    *("224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32"),
    *(
        "::/96",
        "::1/128",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/32",
        "2001:10::/28",
        "2001:20::/28",
        "2001:db8::/32",
    ),
    *("2002::/16", "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8"),
]
SPECIAL_IPV4 = [network for network in SPECIAL if "." in network]


def addresses_in(networks: list[str]) -> st.SearchStrategy[ipaddress.IPv4Address | ipaddress.IPv6Address]:
    parsed_networks = [ipaddress.ip_network(network) for network in networks]
    return st.sampled_from(parsed_networks).flatmap(
        lambda network: st.integers(0, network.num_addresses - 1).map(lambda number: network[number])
    )


@given(addresses_in(SPECIAL))
def test_an_address_of_a_special_network_is_not_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    assert not net.is_public(str(address))
    assert not net.is_public(f"{address}%eth0")


@given(addresses_in(SPECIAL_IPV4), st.sampled_from(["::", "::ffff:0:0", "64:ff9b::"]))
def test_a_private_ipv4_address_is_not_public_inside_an_ipv6_one(
    address: ipaddress.IPv4Address, prefix: str
) -> None:
    assert not net.is_public(str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(prefix)) | int(address))))


@given(st.ip_addresses(v=4))
def test_an_ipv4_address_is_as_public_as_what_translates_to_it(address: ipaddress.IPv4Address) -> None:
    """6to4 and Teredo lead to hosts that the address doesn't show: they are never public."""
    assert (
        net.is_public(f"64:ff9b::{address}")
        == net.is_public(str(address))
        == net.is_public(f"::ffff:{address}")
    )
    assert not net.is_public(f"::{address}")
    assert not net.is_public(str(ipaddress.IPv6Address((0x2002 << 112) | (int(address) << 80) | 1)))
    assert not net.is_public(str(ipaddress.IPv6Address((0x20010000 << 96) | int(address))))


@given(st.ip_addresses())
def test_what_the_standard_library_calls_private_is_not_public(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    if not address.is_global or address.is_multicast or address.is_reserved or address.is_link_local:
        is_mapped = isinstance(address, ipaddress.IPv6Address) and int(address) >> 32 in (
            0xFFFF,
            0x64FF9B << 64,
        )
        assert is_mapped or not net.is_public(str(address))


@pytest.mark.parametrize("address", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4001::1"])
def test_hosts_of_the_internet_are_public(address: str) -> None:
    assert net.is_public(address)


async def test_private_addresses_can_be_allowed(address: str) -> None:
    async with net.client(allow_private=True) as client:
        assert (await client.get(f"http://{address}/")).text == address


async def test_the_address_that_was_checked_is_the_one_connected_to_and_the_name_stays(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check_address(host: str, port: int) -> str:
        assert (host, port) == ("public.example", int(address.rpartition(":")[2]))
        return "127.0.0.1"

    monkeypatch.setattr(net, "_public_address", check_address)
    async with net.client(allow_private=False) as client:
        answer = await client.get(f"http://public.example:{address.rpartition(':')[2]}/")
    assert answer.text == f"public.example:{address.rpartition(':')[2]}"
    assert answer.request.url.host == "public.example"


async def test_a_redirect_to_a_private_address_is_refused_too(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = net._public_address  # pyright: ignore[reportPrivateUsage]

    async def check_address(host: str, port: int) -> str:
        return "127.0.0.1" if host == "public.example" else await real(host, port)

    monkeypatch.setattr(net, "_public_address", check_address)
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

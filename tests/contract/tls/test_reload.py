"""Certificates that change while a node runs."""

from pathlib import Path

from tests.contract.tls.certificates import Authority
from tests.contract.tls.conftest import Client, StartNode
from tests.servers.process import wait_for
from tests.servers.tidegate import Tidegate

REFUSED = "certificates refused, the old ones stay"


def serial(node: Tidegate, client: Client) -> str:
    """The number of the certificate that a new connection meets."""
    with client.connect(node.grpc_port) as connection:
        return str((connection.getpeercert() or {})["serialNumber"])


def test_new_files_are_served_and_open_connections_stay(
    node: Tidegate, authority: Authority, client: Client, tmp_path: Path
) -> None:
    before = serial(node, client)
    with client.connect(node.http_port) as kept:
        authority.server().write(tmp_path, "server")
        wait_for(lambda: serial(node, client) != before, "the new certificate", 10)
        kept.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
        assert kept.recv(65536).startswith(b"HTTP/1.1 200")
    wait_for(lambda: "certificates loaded" in node.log(), "a line in the log", 10)
    assert REFUSED not in node.log()


def test_a_bad_pair_keeps_the_old_one_and_is_told_once(
    node: Tidegate, authority: Authority, client: Client, tmp_path: Path
) -> None:
    before = serial(node, client)
    new = authority.server()
    (tmp_path / "server.pem").write_bytes(new.certificate)
    wait_for(lambda: REFUSED in node.log(), "a line in the log", 10)
    assert "not the key of the certificate" in node.log()
    assert serial(node, client) == before
    (tmp_path / "server.key").write_bytes(new.key)
    wait_for(lambda: serial(node, client) != before, "the new certificate", 10)
    wait_for(lambda: "certificates loaded" in node.log(), "a line in the log", 10)
    assert node.log().count(REFUSED) == 1


def test_files_behind_a_link_that_is_swapped_are_followed(
    start: StartNode, authority: Authority, client: Client, tmp_path: Path
) -> None:
    """As Kubernetes changes the files of a Secret."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        authority.server().write(tmp_path / name, "tls")
    link = tmp_path / "data"
    link.symlink_to("one")
    options = ("--tls-cert", str(link / "tls.pem"), "--tls-key", str(link / "tls.key"))
    node = start(*options)
    before = serial(node, client)
    draft = tmp_path / "draft"
    draft.symlink_to("two")
    draft.replace(link)
    wait_for(lambda: serial(node, client) != before, "the new certificate", 10)


def test_an_authority_that_is_taken_away_lets_its_clients_in_no_more(
    start: StartNode, authority: Authority, tmp_path: Path
) -> None:
    old, new = Authority("old"), Authority("new")
    ca = old.write(tmp_path / "clients.pem")
    node = start("--tls-client-ca", str(ca))
    pair = old.client()
    client = Client(authority, pair, pair.write(tmp_path, "client"))
    assert client.is_let_in(node.http_port)
    new.write(ca)
    wait_for(lambda: not client.is_let_in(node.http_port), "the new authority", 10)


def test_a_file_that_goes_away_keeps_the_node_serving(
    node: Tidegate, client: Client, tmp_path: Path
) -> None:
    before = serial(node, client)
    (tmp_path / "server.key").unlink()
    wait_for(lambda: REFUSED in node.log(), "a line in the log", 10)
    assert serial(node, client) == before
    assert client.get(node.http_port) == 200

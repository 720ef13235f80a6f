"""What `agentrt doctor --engine` says of a server."""

import anyio

from agentrt.base.engines import RemoteEngineConfig
from agentrt.cli.server_report import examine_server


def test_it_says_what_is_enforced_and_what_is_checked(server_url):
    found, code = anyio.run(
        examine_server, RemoteEngineConfig(address=server_url, model="tiny-azure")
    )
    assert code == 0
    assert found["json"] == "enforced (response_format, strict)"
    assert found["step"].startswith("enforced (response_format, strict")
    assert found["grammar"] == "checked (an instruction)"
    assert found["not sent"] == "temperature"


def test_a_server_that_does_not_open_is_an_error(server_url):
    found, code = anyio.run(examine_server, RemoteEngineConfig(address=server_url, model="nothing"))
    assert code != 0
    assert "does not serve 'nothing'" in found["engine"]
    assert found["fix"]

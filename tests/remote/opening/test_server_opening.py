"""Known kinds of servers are never probed; an unknown one is probed once, and remembered."""

import json
from contextlib import asynccontextmanager

import pytest

from agentrt import RemoteEngineConfig
from agentrt.base.clock import MonotonicClock
from agentrt.base.engines.engine_kind import engine_kind, kind_names
from agentrt.remote import CapabilityStore, RemoteBackend
from tests.remote.hostile_server import MODELS, WHOLE, WHOLE_MESSAGE, head, serving
from tests.remote.test_backend import outcome, request

KNOWN = [name for name in kind_names() if not engine_kind(name).is_probed]


class Counting:
    """A server that writes "there" whatever the request, and keeps the bodies."""

    def __init__(self, models=MODELS):
        self.models = models
        self.listed = 0
        self.bodies = []
        self.refuses = ""

    async def __call__(self, path, body, writer):
        if path.endswith("/models"):
            self.listed += 1
            writer.write(head(kind="application/json") + self.models)
        else:
            self.bodies.append(json.loads(body))
            refused = self.refuses and self.refuses in self.bodies[-1]
            error = json.dumps({"error": {"message": f"{self.refuses} is not supported"}}).encode()
            whole = WHOLE_MESSAGE if path.endswith("/messages") else WHOLE
            writer.write(head("400 Bad Request") + error if refused else head() + whole)
        await writer.drain()


@asynccontextmanager
async def opened(server, **settings):
    store = settings.pop("store", None)
    async with serving(server) as url:
        engine = RemoteEngineConfig(address=url, **settings)
        backend = RemoteBackend(engine, clock=MonotonicClock(), store=store)
        try:
            await backend.start()
            yield backend
        finally:
            await backend.aclose()


@pytest.mark.parametrize("kind", KNOWN)
def test_a_known_kind_is_sent_nothing_before_its_first_request(portal, kind):
    server = Counting()

    async def main():
        async with opened(server, kind=kind, model="m") as backend:
            before = (server.listed, list(server.bodies), backend.capabilities.window_tokens)
            answer = await outcome(backend, request())
            await backend.read_window()
            return before, answer, backend.capabilities

    before, (text, _), capabilities = portal.call(main)
    described = engine_kind(kind)
    assert before == (0, [], 0)
    assert bool(server.listed) == described.lists_window  # read beside the request
    assert capabilities.window_tokens == (512 if described.lists_window else 0)
    assert set(described.constraints) <= capabilities.constraints
    assert text == "there"
    assert described.fields["max_tokens"].field in server.bodies[0]


@pytest.mark.parametrize("models", [b"no JSON", b'{"data":[{"id":"another"}]}'])
def test_a_list_that_does_not_have_the_model_leaves_its_window_unknown(portal, caplog, models):
    server = Counting(models)

    async def main():
        async with opened(server, kind="vllm", model="m") as backend:
            answer = await outcome(backend, request())
            await backend.read_window()
            return answer, backend.capabilities.window_tokens

    (text, _), window_tokens = portal.call(main)
    assert (text, window_tokens) == ("there", 0)
    assert ("does not serve 'm'; It serves another" in caplog.text) == (b"another" in models)


def test_an_engine_that_closes_early_waits_for_no_list(portal):
    server = Counting()

    async def main():
        async with opened(server, kind="vllm", model="m") as backend:
            backend.submit(request())
        return backend.capabilities.window_tokens

    assert portal.call(main) == 0


def test_a_known_kind_lists_its_models_if_none_is_named(portal):
    server = Counting()

    async def main():
        async with opened(server, kind="openai") as backend:
            return backend.capabilities.model

    assert portal.call(main) == "m"
    assert (server.listed, server.bodies) == (1, [])


def test_openai_is_asked_in_its_own_words_at_once(portal):
    server = Counting()
    server.refuses = "max_tokens"

    async def main():
        async with opened(server, kind="openai", model="m") as backend:
            return await outcome(backend, request())

    text, _ = portal.call(main)
    assert text == "there"
    assert len(server.bodies) == 1


class Restarting(Counting):
    """The same address for several openings."""

    def openings(self, portal, store, times, *, model="m", between=None):
        """Probes of each opening."""

        async def main():
            counts = []
            async with serving(self) as url:
                for number in range(times):
                    if number and between is not None:
                        await between(url, number)
                    before = len(self.bodies)
                    engine = RemoteEngineConfig(address=url, model=model)
                    backend = RemoteBackend(engine, clock=MonotonicClock(), store=store)
                    await backend.start()
                    counts.append((len(self.bodies) - before, backend.capabilities.constraints))
                    await backend.aclose()
            return counts

        return portal.call(main)


def test_an_unknown_server_is_probed_once(portal, tmp_path):
    server, store = Restarting(), CapabilityStore(tmp_path)
    (first, found), (again, kept) = server.openings(portal, store, 2)
    assert first > 5
    assert again == 0
    assert kept == found
    [path] = tmp_path.iterdir()
    assert path.stat().st_mode & 0o077 == 0


def test_another_server_at_the_address_is_probed_anew(portal, tmp_path):
    server = Restarting()

    async def between(url, number):
        server.models = MODELS.replace(b"512", b"1024")

    (first, _), (again, _) = server.openings(portal, CapabilityStore(tmp_path), 2, between=between)
    assert again == first


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept | {"found_at_s": kept["found_at_s"] - 8 * 24 * 3600},
        lambda kept: kept | {"found_at_s": kept["found_at_s"] + 8 * 24 * 3600},
        lambda kept: kept | {"probed": "others"},
        lambda kept: kept | {"proven": {"json": ["no such dialect"]}},
        lambda kept: [kept],
        lambda kept: {},
    ],
    ids=["old", "of the future", "other dialects", "no such dialect", "a list", "empty"],
)
def test_a_file_that_does_not_fit_is_as_good_as_none(portal, tmp_path, change):
    server = Restarting()

    async def between(url, number):
        [path] = tmp_path.iterdir()
        path.write_text(json.dumps(change(json.loads(path.read_text("utf-8")))), "utf-8")

    (first, _), (again, _) = server.openings(portal, CapabilityStore(tmp_path), 2, between=between)
    assert again == first


def test_a_refused_request_ends_what_was_known(portal, tmp_path):
    server = Counting()
    store = CapabilityStore(tmp_path)

    async def main():
        async with opened(server, model="m", store=store) as backend:
            assert len(list(tmp_path.iterdir())) == 1
            server.refuses = "top_p"
            return await outcome(backend, request(top_p=0.5))

    _, end = portal.call(main)
    assert end.error.type == "RequestRejected"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_only_the_probe(portal, tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    server, store = Restarting(), CapabilityStore(tmp_path / "file" / "below")
    (first, _), (again, _) = server.openings(portal, store, 2)
    assert first == again > 5


def test_the_environment_names_the_store(tmp_path):
    assert CapabilityStore.of({"AGENTRT_CAPABILITIES": "off"}) is None
    assert CapabilityStore.of({"XDG_STATE_HOME": str(tmp_path)}) is not None

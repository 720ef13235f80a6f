"""The remote backend against a server that is none of ours: `transformers serve`.

It streams, and ignores `response_format`, `tool_choice` and `stream_options`: so each constraint is
checked here, limits are kept and its times are inferred. Runs where its extra is installed
(`pip install transformers[serving]`).
"""

import importlib.util
import socket
import subprocess
import sys

import pytest

from agentrt.base.clock import MonotonicClock
from agentrt.base.constraint_spec import ConstraintSpec
from agentrt.base.ids import NodeId, RequestId, RunId
from agentrt.base.sampling_params import SamplingParams
from agentrt.base.segments import Close, Open, Text
from agentrt.protocol.backend import GenerateRequest, MessagePrompt
from agentrt.protocol.step_output import End, StepDone
from agentrt.remote import RemoteBackend
from agentrt.testing import tiny_engine

NEEDED = ("fastapi", "openai", "accelerate")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason="transformers[serving] is not installed")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    from transformers import AutoConfig, AutoModelForCausalLM

    folder = tiny_engine(tmp_path_factory.mktemp("served")).model_path
    AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder)).save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def url(model):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
    entry = "from transformers.cli.transformers import main; main()"
    command = [sys.executable, "-c", entry, "serve", model, "--port", port, "--device", "cpu"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "running on" in line:
                break
        else:
            pytest.fail("transformers serve did not start")
        yield f"http://127.0.0.1:{port}"
        process.terminate()


def request(number, constraint=None):
    return GenerateRequest(
        request_id=RequestId(number),
        run_id=RunId("0" * 16),
        node_id=NodeId("n"),
        site="",
        prompt=MessagePrompt((Open("user"), Text("hello"), Close())),
        sampling=SamplingParams(max_tokens=9),
        constraint=constraint,
    )


def test_it_serves_and_is_not_believed(portal, url, model):
    async def main():
        backend = RemoteBackend(url, model=model, clock=MonotonicClock())
        try:
            await backend.start()
            backend.submit(request(1))
            backend.submit(request(2, ConstraintSpec("choice", options=("a", "b"))))
            ends: dict[int, End] = {}
            text = ""
            async for event in backend.events():
                assert isinstance(event, StepDone)
                text += "".join(delta.text for delta in event.deltas)
                ends |= {end.request_id: end for end in event.ends}
                if len(ends) == 2:
                    return text, ends
        finally:
            await backend.aclose()

    text, ends = portal.call(main)
    assert text
    assert (ends[1].reason, ends[1].ledger.output_tokens) == ("length", 9)
    assert ends[1].ledger.source == "inferred"
    assert not ends[2].constraint.enforced
    assert ends[2].unmet is not None or ends[2].reason == "length"

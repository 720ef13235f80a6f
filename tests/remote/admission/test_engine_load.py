"""The load of servers, in the words of each kind."""

from typing import Any

from agentrt.base.engines.engine_kind import engine_kind, load_door
from agentrt.remote.admission.engine_load import EngineCapacity, EngineLoad, capacity_in, load_in

VLLM = """
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 2.0
vllm:num_requests_running{engine="1",model_name="m"} 3.0
vllm:num_requests_waiting{engine="0",model_name="m"} 4.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 4.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",num_gpu_blocks="100"} 1.0
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="1",num_gpu_blocks="60"} 1.0
"""


def door_of(kind):
    door = engine_kind(kind).load
    assert door is not None
    return door


def test_vllm_shows_requests_and_the_size_of_its_kv():
    door = door_of("vllm")
    assert load_in(VLLM, door) == EngineLoad(5.0, 4.0, 0.375, 2560.0)


def test_sglang_shows_its_capacity_in_a_description():
    door = door_of("sglang")
    info = {
        "max_total_num_tokens": 20480,
        "internal_states": [{"effective_max_running_requests_per_dp": 128}] * 2,
    }
    assert capacity_in(info, door) == EngineCapacity(256.0, 20480.0)


def test_llama_server_shows_its_slots():
    door = door_of("llama-server")
    assert capacity_in({"total_slots": 4}, door) == EngineCapacity(4.0, 0.0)
    text = "llamacpp:requests_processing 3\nllamacpp:requests_deferred 2\n"
    assert load_in(text, door) == EngineLoad(3.0, 2.0)


def test_what_is_no_load_is_none():
    door = door_of("vllm")
    for text in ("", "<html>", "vllm:num_requests_running", "vllm:num_requests_running{} NaN"):
        assert load_in(text, door) is None


def test_a_description_that_lacks_a_figure_says_nothing():
    door = door_of("sglang")
    values: list[Any] = [None, [], "text", {"internal_states": {}}, {"max_total_num_tokens": "x"}]
    for value in values:
        assert capacity_in(value, door) == EngineCapacity()


def test_doors_are_known_by_family():
    assert load_door("vllm") == engine_kind("vllm").load
    assert load_door("llamacpp") == engine_kind("llama-server").load
    assert load_door("") is None

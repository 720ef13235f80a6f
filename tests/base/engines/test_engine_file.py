"""`agentrt.toml`: what it says is what is used, and each fault is named with its place."""

from pathlib import Path

import pytest

from agentrt import EngineConfig, Prices, RemoteEngineConfig, UsageError
from agentrt.base.engine_roles import engines_of_roles
from agentrt.base.engine_selection import named_engine
from agentrt.base.engines.engine_file import EngineFile, engine_file, read_engine_file

GOOD = """
[engines.cheap]
kind = "vllm"
address = "http://gpu:8000"
model = "qwen"
headers = { "X-Team" = "search", "api-key" = "env:GATE" }
limits = { attempts = 2, silence_s = 30 }

[engines.strong]
kind = "openai"
model = "gpt"
key = "env:OPENAI_API_KEY"
organisation = "org-1"

[roles]
default = "cheap"
planner = "strong"
worker = "embedded"
"""
MODEL = Path("embedded-model")


def read(tmp_path: Path, text: str) -> EngineFile:
    path = tmp_path / "agentrt.toml"
    path.write_text(text, "utf-8")
    return read_engine_file(path)


def test_engines_and_roles_are_read(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    cheap, strong = file.engine("cheap"), file.engine("strong")
    assert (cheap.name, cheap.url, cheap.model) == ("cheap", "http://gpu:8000/v1", "qwen")
    assert cheap.limits == {"attempts": 2, "silence_s": 30}
    assert (strong.url, strong.key) == ("https://api.openai.com/v1", "env:OPENAI_API_KEY")
    assert file.roles == {"default": "cheap", "planner": "strong", "worker": "embedded"}


def test_roles_of_the_file_hold_until_others_are_given(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    cheap, strong = file.engine("cheap"), file.engine("strong")
    here = EngineConfig(MODEL)
    roles = engines_of_roles(None, None, file, MODEL)
    assert roles == {"default": cheap, "planner": strong, "worker": here}
    assert engines_of_roles("strong", {}, file, MODEL) == {"default": strong}
    assert engines_of_roles("embedded", {"x": None}, file, MODEL) == {"default": here, "x": here}
    url = RemoteEngineConfig(address="http://other")
    assert engines_of_roles("http://other", {}, file, MODEL) == {"default": url}


def test_a_key_is_for_the_engine_that_it_is_given_with(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    roles = engines_of_roles(
        "http://a", {"big": "http://b"}, file, MODEL, remote_model="m", api_key="env:A"
    )
    assert roles["default"] == RemoteEngineConfig(address="http://a", model="m", key="env:A")
    assert roles["big"] == RemoteEngineConfig(address="http://b")
    with pytest.raises(UsageError, match="given by its address or name"):
        engines_of_roles(None, {"big": "http://b"}, EngineFile(), MODEL, api_key="env:A")


def test_fallbacks_are_engines_of_the_file(tmp_path: Path) -> None:
    more = """
[engines.cheap.fallbacks]
down = ["strong", "far"]
refusal = ["strong"]
cooldown_s = 5

[engines.far]
address = "https://far"
"""
    file = read(tmp_path, GOOD + more)
    strong, far = file.engine("strong"), file.engine("far")
    fallbacks = file.engine("cheap").fallbacks
    assert fallbacks is not None
    assert fallbacks.cooldown_s == 5.0
    assert fallbacks.engines() == [
        (strong, frozenset({"down", "refusal"})),
        (far, frozenset({"down"})),
    ]


FLEETS = """
[engines.pool]
kind = "vllm"
addresses = ["http://gpu1:8000", "http://gpu2:8000/v1"]
key = "env:POOL"
drain = ["http://gpu2:8000"]

[engines.mixed]
members = { strong = 2, cheap = 0.5 }
drain = ["cheap"]
limits = { outage_s = 7 }
[engines.mixed.fallbacks]
down = ["pool"]
"""


def test_a_fleet_has_addresses_or_members(tmp_path: Path) -> None:
    """Equal servers share the settings; members keep their own, and their own keys."""
    file = read(tmp_path, FLEETS + GOOD)
    pool, mixed = file.engine("pool"), file.engine("mixed")
    assert pool.url == "http://gpu1:8000/v1,http://gpu2:8000/v1"
    assert [one.engine.url for one in pool.workers] == pool.url.split(",")
    assert [one.engine.key for one in pool.workers] == ["env:POOL"] * 2
    assert pool.drained_urls == {"http://gpu2:8000/v1"}
    strong, cheap = mixed.workers
    assert (strong.engine, strong.weight) == (file.engine("strong"), 2.0)
    assert (cheap.engine, cheap.weight) == (file.engine("cheap"), 0.5)
    assert (strong.engine.key, cheap.engine.key) == ("env:OPENAI_API_KEY", None)
    assert mixed.drained_urls == {cheap.engine.url}
    assert mixed.limits == {"outage_s": 7}
    assert mixed.fallbacks is not None
    assert mixed.fallbacks.down == (pool,)
    assert strong.engine.workers == ()


def test_addresses_with_commas_are_a_fleet(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    pool = named_engine("http://a:1, http://b:2", file)
    assert pool == RemoteEngineConfig(addresses=("http://a:1", "http://b:2"))
    mixed = named_engine("http://a:1,strong", file)
    assert [one.engine for one in mixed.workers] == [
        RemoteEngineConfig(address="http://a:1"),
        file.engine("strong"),
    ]
    for given, message in {"http://a,": "nothing between", "http://a,strng": "mean strong"}.items():
        with pytest.raises(UsageError, match=message):
            named_engine(given, file)


FAULTS = {
    "[engines.a]\naddress='http://x'\naddresses=['http://y']": "address: it stands beside",
    "[engines.a]\naddresses=['http://x','http://x/v1']": "addresses: http://x/v1 stands .* twice",
    "[engines.a]\naddresses=['x:80']": r"engines\.a: addresses: 'x:80' is not the address",
    "[engines.a]\naddresses='http://x'": "addresses is a string",
    "[engines.a]\naddress='http://x'\ndrain=['http://x']": "drain: an engine of one address",
    "[engines.a]\naddresses=['http://x']\ndrain=['http://x']": "drain: no server is left",
    "[engines.a]\naddresses=['http://x1','http://y']\ndrain=['http://x2']": "mean http://x1",
    "[engines.a]\nmembers=['b']": r"engines\.a: members is an array",
    "[engines.a]\nmembers={}": r"engines\.a: members is empty",
    "[engines.abc]\nkind='vllm'\n[engines.a]\nmembers={abd=1}": r"'abd' \(did you mean abc\?\)",
    "[engines.b]\nkind='vllm'\n[engines.a]\nmembers={b='1'}": r"members\.b is a string",
    "[engines.b]\nkind='vllm'\n[engines.a]\nmembers={b=0}": "members: the weight 0 is out of",
    "[engines.b]\nkind='vllm'\n[engines.a]\nmembers={b=1}\nmodel='m'": "model: the members have",
    "[engines.b]\nkind='vllm'\n[engines.a]\nmembers={b=1}\nmodle='m'": "did you mean model",
    "[engines.b]\naddresses=['http://x']\n[engines.a]\nmembers={b=1}": "'b' has several addr",
    "[engines.a]\nmembers={a=1}": "members: 'a' is a fleet itself",
    "[engines.a": "is not TOML: ",
    "[engines.a]\nkind='vllm'\n[engines.a]\nkind='vllm'": r"is not TOML: .*twice.*line 3",
    "[engine.a]\nkind='vllm'": r"'engine' is no part of it \(did you mean engines\?\)",
    "engines = 3": "engines is no table",
    "[engines]\na = 3": r"engines\.a is no table",
    "[engines.embedded]\nkind='vllm'": "engines.embedded is the engine of this process",
    "[engines.a.prices]\ninput=1": "engines.a.prices: prices: output is missing",
    "[engines.a.prices]\ncached_input=1": "engines.a.prices: prices: input is missing",
    "[engines.a.prices]\ninputs=1": "engines.a.prices: 'inputs' is no price .did you mean input",
    "[engines.a.prices]": "engines.a.prices: prices: none is given",
    "[engines.a.prices]\ndevice_second=-1": "device_second=-1 is out of range",
    "[engines.a.prices]\ndevice_second=true": "device_second=True is no amount of money",
    "[engines.a.prices]\ndevice_second=nan": "device_second=nan is out of range",
    "[engines.a.prices]\ninput=0.0000001\noutput=1": "input=1e-07 has too many decimals",
    "[engines.a.prices]\ndevice_second=1\ncurrency='$'": "currency=.* is no currency",
    "[engines.a]\nprices=3": "engines.a.prices is no table",
    "[engines.'a b']\nkind='vllm'": "'a b' is no name",
    "[engines.a]\nkind='vlm'": r"engines\.a: kind: 'vlm' is no kind",
    "[engines.a]\nkind=3": r"engines\.a: kind is an integer, and must be a valid string",
    "[engines.a]\nadress='http://x'": r"'adress' is no setting .*did you mean address\?",
    "[engines.a]\nname='b'": r"engines\.a: 'name' is no setting",
    "[engines.a]\naddress='gpu:8000'": r"engines\.a: address: 'gpu:8000' is not the address",
    "[engines.a]\naddress='http://x:99999'": r"engines\.a: address: 'http://x:99999' is not",
    "[engines.a]\naddress='http://me:canary@x'": "has a user",
    "[engines.a]\nmodel='m'": r"engines\.a: address: an engine of kind .* has none by itself",
    "[engines.a]\nkind='vllm'\nkey='canary'": r"engines\.a: key: the value is not a reference",
    "[engines.a]\nkind='vllm'\nheaders={'Api-Key'='canary'}": "'Api-Key' carries a secret",
    "[engines.a]\nkind='vllm'\nheaders={'a b'='x'}": "'a b' is no header",
    "[engines.a]\nkind='vllm'\nheaders={Host='x'}": "'Host' is no header of requests",
    "[engines.a]\nkind='vllm'\nheaders={'X-A'=\"x\\ny\"}": "has a character",
    "[engines.a]\nkind='vllm'\nheaders={'X-A'=3}": r"headers\.X-A is an integer",
    "[engines.a]\nkind='vllm'\nlimits={attempt=3}": "limits: 'attempt' names no limit",
    "[engines.a]\nkind='vllm'\nlimits={attempts=0}": "limits: attempts = 0 is out of range",
    "[engines.a]\nkind='vllm'\nlimits={attempts=1.5}": "limits: attempts = 1.5 is out of range",
    "[engines.a]\nkind='vllm'\nlimits={stall_s=nan}": "limits: stall_s = nan is out of range",
    "[engines.a]\nkind='vllm'\nlimits={stall_s='5'}": r"limits\.stall_s is a string",
    "[engines.a]\nkind='vllm'\nmodel=2026-01-01": r"engines\.a: 2026-01-01 is a date",
    "[engines.a]\nkind='vllm'\nfallbacks=3": r"engines\.a\.fallbacks is no table",
    "[engines.a]\nkind='vllm'\nfallbacks={dwn=[]}": r"'dwn' is no reason \(did you mean down\?",
    "[engines.a]\nkind='vllm'\nfallbacks={down='b'}": r"fallbacks: down is a string",
    "[engines.a]\nkind='vllm'\nfallbacks={down=['b']}": r"fallbacks\.down: there is no engine 'b'",
    "[engines.a]\nkind='vllm'\nfallbacks={down=['a']}": "'a' is the engine itself",
    "[engines.a]\nkind='vllm'\nfallbacks={cooldown_s='1'}": "cooldown_s is a string",
    "[engines.a]\nkind='vllm'\nfallbacks={cooldown_s=-1}": "cooldown_s: -1.0 is out of range",
    "[engines.a]\nkind='vllm'\nconcurrency=-1": r"engines\.a: concurrency: -1 is negative",
    "[engines.a]\nkind='vllm'\nconcurrency=1.5": r"engines\.a: concurrency is a number",
    "[engines.a]\nkind='openai'\ntokenizer='m'": r"tokenizer: .*'openai' takes no token ids",
    "[roles]\nplanner='a'": r"roles\.planner: there is no engine 'a'",
    "[engines.abc]\nkind='vllm'\n[roles]\np='abd'": r"roles\.p: .*'abd' \(did you mean abc\?\)",
    "[roles]\nplanner=['a']": r"roles\.planner is an array",
}


@pytest.mark.parametrize(("text", "message"), FAULTS.items(), ids=range(len(FAULTS)))
def test_a_fault_is_named_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        read(tmp_path, text)
    assert str(tmp_path / "agentrt.toml") in raised.value.message
    assert raised.value.hint
    assert "canary" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        engine_file({"AGENTRT_CONFIG": str(tmp_path / "none.toml")})
    (tmp_path / "agentrt.toml").write_bytes(b"a = '\xff'")
    with pytest.raises(UsageError, match="is not TOML"):
        engine_file({}, tmp_path)
    (tmp_path / "agentrt.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(UsageError, match="has more than"):
        engine_file({}, tmp_path)


def test_a_tokenizer_is_found_beside_the_file(tmp_path: Path) -> None:
    for given, found in (("models/qwen", tmp_path / "models/qwen"), ("/m/qwen", Path("/m/qwen"))):
        file = read(tmp_path, f"[engines.a]\nkind='vllm'\ntokenizer='{given}'")
        assert file.engine("a").tokenizer == str(found)


def test_the_nearest_file_counts(tmp_path: Path) -> None:
    """The variable's, else the nearest above, else that of the user's configuration."""
    inner, config = tmp_path / "a" / "b", tmp_path / "config"
    inner.mkdir(parents=True)
    (config / "agentrt").mkdir(parents=True)
    environ = {"XDG_CONFIG_HOME": str(config)}
    assert engine_file(environ, inner).path is None
    (config / "agentrt" / "agentrt.toml").write_text("", "utf-8")
    assert engine_file(environ, inner).path == config / "agentrt" / "agentrt.toml"
    (tmp_path / "a" / "agentrt.toml").write_text("", "utf-8")
    assert engine_file(environ, inner).path == tmp_path / "a" / "agentrt.toml"
    given = tmp_path / "given.toml"
    given.write_text(GOOD, "utf-8")
    assert engine_file(environ | {"AGENTRT_CONFIG": str(given)}, inner).path == given


def test_an_unknown_name_says_what_is_known(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    with pytest.raises(UsageError, match=r"'strng' is no engine .*did you mean strong\?"):
        file.engine("strng")
    with pytest.raises(UsageError, match="it has cheap, strong"):
        file.engine("zzz")
    with pytest.raises(UsageError, match=r"there is no agentrt\.toml"):
        EngineFile().engine("cheap")


def test_prices_are_those_of_the_text(tmp_path: Path) -> None:
    text = """
    [engines.a]
    address = "http://gpu"
    prices = { input = 0.1, cached_input = "0.0125", output = 10, currency = "eur" }
    [engines.embedded.prices]
    device_second = 0.000694
    """
    file = read(tmp_path, text)
    prices = Prices.of(input="0.1", cached_input="0.0125", output="10", currency="EUR")
    assert file.engine("a").prices == prices
    assert (prices.input_pico, prices.cached_input_pico) == (100_000, 12_500)
    here = engines_of_roles(None, None, file, MODEL)["default"]
    assert here.prices == Prices.of(device_second="0.000694")

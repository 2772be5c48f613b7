# make build   one static binary, bin/hotpath
# make demo    the models inside, then two larger ones that it fetches: compare some sentences, finish one
# make test    everything that CI runs
# The other targets stand where they are explained.

GO          ?= go
PYTHON      ?= python3
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
MODELS      ?= .cache/models
VENV        ?= .cache/venv
SHARED      ?= ../shared
PEERS       ?= .cache/peers
PEERFLAGS   ?=
FUZZTIME    ?= 5000x
# REVISION is the commit of a program; -dirty if anything but the documentation was changed.
REVISION     = $(shell git rev-parse --short HEAD)$(if $(shell git status --porcelain -- . ':!docs'),-dirty)

.PHONY: opencl gpu-test build test unit arm64 check fmt vet lint race gen gen-check fuzz fuzz-short models demo verify peers peers-train clean

build:
	CGO_ENABLED=0 $(GO) build -tags nogpu -trimpath -o bin/hotpath ./cmd/hotpath

# The real models make tests run that are skipped without them; a machine that
# cannot fetch them still tests everything else. CI must have them.
test: check
	@$(MAKE) --no-print-directory models || { echo "test: the real models could not be fetched; their tests are skipped"; [ -z "$$CI" ]; }
	$(MAKE) --no-print-directory unit opencl arm64 fuzz-short

unit:
	$(GO) test -tags nogpu ./...

check: fmt vet lint gen-check race

fmt:
	@out=$$(gofmt -l .); [ -z "$$out" ] || { echo "gofmt: $$out"; exit 1; }

vet:
	$(GO) vet -tags nogpu ./...
	$(GO) vet ./cuda ./internal/backend/cuda ./internal/optest ./cmd/hotpath
	cd kernelgen && $(GO) vet ./...
	GOARCH=arm64 $(GO) vet -tags nogpu ./...

# The kernels of arm64 run under qemu-user.
arm64:
	GO="$(GO)" scripts/test_arm64.sh

lint:
	$(GO) run $(STATICCHECK) -tags nogpu ./...

# The packages where goroutines meet; profile/compare has none. What compares or measures
# figures, or counts parts in one goroutine, or waits for another process, is left out: it
# takes minutes, and other tests run the same code. The first packages take longest.
NOTRACED = ProfileRun|ProfileDeep|InfoCalibration|Match(PyTorch|SentenceTransformers)|OfEveryFamily|RecomputeKeepsBits|OverfitsAPage
NOTRACED := $(NOTRACED)|Bytes(OfOps)?AreTouched|EveryCaseIsBound|GradientsBind|NormsAreFolded|CoverAProduct|OneQueryAtAnyWorkers
NOTRACED := $(NOTRACED)|MergedStepsKeepBits|EmbeddingsAreTheReferences|MillionEvents|TestReadMemory|StepClockAddsUp|RunsFoldTheSame
NOTRACED := $(NOTRACED)|BarOnTerminal|TakesLongPrompts|InPlaceAnswersTheSame
race:
	$(GO) test -tags nogpu -race -short -skip '$(NOTRACED)' ./cmd/hotpath ./internal/train ./internal/engine/... ./internal/backend/... \
		./internal/plan/... ./internal/kv ./internal/dataset ./internal/tokenizer/learn . ./profile ./profile/export/... ./profile/report ./profile/internal/...
	$(GO) test -tags nogpu -race -run MillionScopes ./profile

# Assembly is generated and committed: gen writes it, gen-check fails on a difference.
gen:
	cd kernelgen && $(GO) run .
	$(PYTHON) scripts/cuda_kernels.py

gen-check:
	cd kernelgen && $(GO) run . -check
	$(PYTHON) scripts/cuda_kernels.py --check

# opencl runs the ops and every architecture on an OpenCL runtime: that of the
# machine, or PoCL, which it installs where it can. Without one it says so.
opencl:
	@scripts/fetch_pocl.sh || true
	$(GO) vet ./opencl ./internal/backend/opencl
	$(GO) test -timeout 30m ./internal/backend/opencl ./opencl
	$(GO) test -run 'OpenCL|OnDevices|StudiesFinish/.*/(tiles|transfers)' ./internal/optest ./internal/model ./internal/study

# opencl-card runs on a card's OpenCL what opencl runs on PoCL, and measures. Where the
# card's machine has no Go, opencl-card-build makes the programs, and opencl-card-pack an
# archive of them: scripts/opencl_card.sh bin/opencl-card.tar.xz RESULTS.tar.gz.
# HOTPATH_CARD_QUICK=1 shows on PoCL that all of it works.
.PHONY: opencl-card opencl-card-build opencl-card-pack
CARDBUILD = CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/opencl-card/
CARDTEST  = CGO_ENABLED=0 $(GO) test -c -trimpath -ldflags "-s -w" -o bin/opencl-card/
opencl-card-build:
	mkdir -p bin/opencl-card
	$(CARDBUILD) ./cmd/hotpath ./internal/gpubench
	$(CARDTEST)ops.test ./internal/optest
	$(CARDTEST)fixtures.test ./internal/model
	$(CARDTEST)backend.test ./internal/backend/opencl
	$(CARDTEST)real.test ./opencl

opencl-card-pack: opencl-card-build
	tar -C bin/opencl-card -c hotpath gpubench ops.test fixtures.test backend.test real.test | xz -9 -T2 >bin/opencl-card.tar.xz

opencl-card: opencl-card-build
	scripts/opencl_card.sh bin/opencl-card opencl-card.tar.gz

# gpu-test runs what needs a card; where there is none it says so and fails.
gpu-test:
	CGO_ENABLED=0 $(GO) test -count 1 -v -run 'CUDA' ./internal/optest ./cuda | tee /dev/stderr | grep -q '^    --- PASS'

# gpu-peers measures a card beside PyTorch in one run and fills in docs/performance.md, or
# bin/performance.md if a row is missing. PEERFLAGS="--limit 480" stops it before 480
# seconds, PEERFLAGS="--only gemm" measures some rows. It needs torch, transformers,
# safetensors and tokenizers. gpu-peers-dry shows without a card that the script works,
# on the CPU with small shapes; it fills in bin/performance.md.
# gpu-soak makes 10,000 calls of embed with random shapes and 1,000 generations with
# random cancellations, and fails if memory of the card grows.
.PHONY: gpu-peers gpu-peers-dry gpu-soak card
gpu-peers:
	CGO_ENABLED=0 $(GO) build -o bin/gpubench ./internal/gpubench
	$(PYTHON) scripts/peers_gpu.py bin/gpubench --compile --docs docs/performance.md --partial bin/performance.md $(PEERFLAGS)

gpu-peers-dry:
	CGO_ENABLED=0 $(GO) build -o bin/gpubench ./internal/gpubench
	cp docs/performance.md bin/performance.md
	$(PYTHON) scripts/peers_gpu.py bin/gpubench --dry --docs bin/performance.md --partial bin/performance.md $(PEERFLAGS)

gpu-soak: models
	CGO_ENABLED=0 $(GO) build -o bin/gpubench ./internal/gpubench
	bin/gpubench -m $(MODELS)/all-MiniLM-L6-v2 -work "soak 10000"
	bin/gpubench -m $(MODELS)/SmolLM2-135M-Instruct.Q4_1.gguf -work "soak 1000"

# card builds what scripts/card.sh runs on a machine with a card and without Go.
card:
	mkdir -p bin/card
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w -X main.built=$(REVISION)" -o bin/card/gpubench ./internal/gpubench
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "-s -w" -o bin/card/hotpath ./cmd/hotpath
	CGO_ENABLED=0 $(GO) test -c -trimpath -ldflags "-s -w" -o bin/card/optest.test ./internal/optest
	CGO_ENABLED=0 $(GO) test -c -trimpath -ldflags "-s -w" -o bin/card/cuda.test ./cuda

# fuzz looks longer at every Fuzz target: make fuzz FUZZTIME=10m. fuzz-short
# counts inputs instead of seconds, because go test now and then reports its own
# deadline as a failure of the target.
fuzz: FUZZTIME = 60s
fuzz fuzz-short:
	@set -e; grep -rnoE --include='*_test.go' '^func Fuzz[A-Z][A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file _ found; do \
	  name=$${found#func }; dir=$$(dirname "$$file"); echo "fuzz $$dir $$name"; \
	  $(GO) test -tags nogpu -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "$$dir" </dev/null || exit 1; \
	done

models:
	scripts/fetch_models.sh $(MODELS)

demo: build
	scripts/demo.sh bin/hotpath
	@echo; echo "== The larger models: fetching 190 MB into $(MODELS), where they are not there yet"
	$(MAKE) --no-print-directory models
	scripts/demo.sh bin/hotpath $(MODELS)

# verify holds hotpath against PyTorch and transformers, installed into $(VENV).
# It needs the checks in $(SHARED).
verify: build models $(VENV)/ready
	[ -e .cache/check/llama/reference.json ] || $(VENV)/bin/python $(SHARED)/check/make_models.py .cache/check --corpus $(SHARED)/corpus/wikitext2-valid.txt
	$(VENV)/bin/python $(SHARED)/check/check_models.py bin/hotpath .cache/check --precision f32
	$(VENV)/bin/python $(SHARED)/check/check_models.py bin/hotpath .cache/check --precision auto
	for p in f32 auto; do \
	  $(VENV)/bin/python scripts/verify_minilm.py bin/hotpath $(MODELS) --precision $$p && \
	  $(VENV)/bin/python scripts/verify_embedder.py bin/hotpath $(MODELS) --precision $$p && \
	  $(VENV)/bin/python scripts/verify_smollm2.py bin/hotpath $(MODELS) --precision $$p && \
	  $(VENV)/bin/python scripts/verify_sts.py bin/hotpath $(MODELS) --shared $(SHARED) --precision $$p && \
	  $(VENV)/bin/python scripts/verify_gemma.py bin/hotpath .cache/gemma --precision $$p || exit 1; \
	done

# verify-opencl is verify in f32 on an OpenCL device: the checks in $(SHARED), MiniLM's
# 40 texts and SmolLM2's 20 continuations. On PoCL it takes about ten minutes.
.PHONY: verify-opencl
verify-opencl: models $(VENV)/ready
	@scripts/fetch_pocl.sh
	$(GO) build -o bin/hotpath-gpu ./cmd/hotpath
	[ -e .cache/check/llama/reference.json ] || $(VENV)/bin/python $(SHARED)/check/make_models.py .cache/check --corpus $(SHARED)/corpus/wikitext2-valid.txt
	$(VENV)/bin/python $(SHARED)/check/check_models.py scripts/on_opencl.sh .cache/check --precision f32
	$(VENV)/bin/python scripts/verify_minilm.py scripts/on_opencl.sh $(MODELS) --precision f32
	$(VENV)/bin/python scripts/verify_smollm2.py scripts/on_opencl.sh $(MODELS) --precision f32

$(VENV)/ready:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet --disable-pip-version-check torch transformers tokenizers sentence-transformers
	touch $@

# peers measures hotpath beside other engines, alternately, and fills in
# docs/performance.md. It needs clang-16, libomp-16-dev, maven and unzip, and
# sets up the rest under $(PEERS): make peers PEERFLAGS="--only minilm --rounds 5"
peers: build models
	scripts/peers/setup.sh $(PEERS) $(MODELS)
	$(GO) run -tags nogpu ./internal/peerbench --cache $(PEERS) --models $(MODELS) --json $(PEERS)/results.json --docs docs/performance.md $(PEERFLAGS)

# peers-train measures training beside PyTorch, alternately: make peers-train
# PEERFLAGS="--only llama --rounds 3". It wants a C++ compiler for compiled models.
peers-train: build $(VENV)/ready
	$(VENV)/bin/python scripts/peers_train.py bin/hotpath $(PEERFLAGS)

# scale measures 1, 2, 4, ... threads, up to all cores, beside what the machine does at
# most with as many, and fills in docs/performance.md: decode, prefill, embedding and
# training of models with random weights, which it makes. scale-build makes the
# programs for a machine without Go: bin/scale/peerbench with the same flags,
# bin/scale/hotpath to look where the time goes, and what measures the cost of recording:
# HOTPATH_MODELS=DIR bin/scale/overhead.test -test.run x -test.bench Overhead -test.benchtime 12s
.PHONY: scale scale-build
SCALEFLAGS ?= --rounds 5
scale:
	$(GO) run -tags nogpu ./internal/peerbench --only scale --cores all --cache $(PEERS) --json $(PEERS)/scale.jsonl --docs docs/performance.md $(SCALEFLAGS)

scale-build:
	mkdir -p bin/scale
	CGO_ENABLED=0 $(GO) build -tags nogpu,nomodels -trimpath -ldflags "-s -w -X main.built=$(REVISION)" -o bin/scale/peerbench ./internal/peerbench
	CGO_ENABLED=0 $(GO) build -tags nogpu,nomodels -trimpath -ldflags "-s -w" -o bin/scale/hotpath ./cmd/hotpath
	CGO_ENABLED=0 $(GO) test -c -tags nogpu,nomodels -trimpath -ldflags "-s -w" -o bin/scale/overhead.test ./internal/backend/cpu

clean:
	rm -rf bin .cache/check

# bench-check exits with 1 where the working tree is slower than the last commit.
.PHONY: bench-check
bench-check:
	scripts/bench_check.sh

# verify-quant holds quantize and convert against llama.cpp, which it installs
# into $(VENV) (it is built from source: clang-16 does it well). The whole corpus,
# to be gone on with: make verify-quant QUANTFLAGS="--chars 0 --imatrix --keep .cache/quant"
.PHONY: verify-quant
QUANTFLAGS ?=
verify-quant: build models $(VENV)/ready
	$(VENV)/bin/pip install --quiet --disable-pip-version-check gguf llama-cpp-python
	$(VENV)/bin/python scripts/verify_convert.py bin/hotpath $(MODELS) --shared $(SHARED)
	$(VENV)/bin/python scripts/verify_quant.py bin/hotpath $(MODELS) --shared $(SHARED) $(QUANTFLAGS)

# verify-train opens models that hotpath trained in llama.cpp and compares, and
# holds the loss of nanoGPT's recipe against PyTorch's: make verify-train
# TEXT=tinyshakespeare.txt CHARFLAGS="--seeds 1337" (about three minutes per seed).
.PHONY: verify-train
TEXT ?= $(SHARED)/corpus/tinyshakespeare.txt
CHARFLAGS ?=
verify-train: build models $(VENV)/ready
	$(VENV)/bin/pip install --quiet --disable-pip-version-check numpy llama-cpp-python
	$(VENV)/bin/python scripts/verify_train.py bin/hotpath $(MODELS)
	$(VENV)/bin/python scripts/verify_char.py bin/hotpath $(TEXT) $(CHARFLAGS)

# browser-test opens the HTML reports in a headless Chromium, and the traces in
# Perfetto's own trace processor. HOTPATH_SCREENSHOTS=DIR keeps pictures.
.PHONY: browser browser-test
browser:
	@scripts/fetch_browser.sh >/dev/null || true
	@scripts/fetch_perfetto.sh .cache/perfetto || true

browser-test: browser
	HOTPATH_LONG=1 $(GO) test -tags nogpu -run 'InBrowser|InPerfetto|MillionEvents' -v ./profile/export

# study-check slows kernels of the real model on purpose by 20 per cent and holds
# what compare and whatif say about it, compares 100 pairs of recordings of one
# build, and makes the study of parallelism: about ten minutes on a machine that
# is left alone. What held is not made again: it goes on where it was broken off.
# make study-check PARTS="predicted same" makes some of its parts.
.PHONY: study-check
PARTS ?=
study-check: models
	GO="$(GO)" scripts/study_check.sh .cache/study-check $(MODELS) $(PARTS)

# profile-audit records real pairs of one build, and of builds with a change that
# was made on purpose (one op, one layer, one call in ten, memory only), and counts
# what profile compare says of them. It also records one build 20 times and counts
# how many intervals of lost time overlap. It prints a table after about ten minutes
# on two idle cores; a busy machine takes longer and finds less. make profile-audit
# PAIRS=20 takes two minutes. A simulation is part of the tests of package profile/compare.
.PHONY: profile-audit
PAIRS ?= 100
profile-audit: models
	@mkdir -p .cache
	@echo "profile-audit: details are in .cache/profile-audit.log"
	@HOTPATH_MODELS=$(CURDIR)/$(MODELS) HOTPATH_PROFILE_AUDIT=$(PAIRS) $(GO) test -tags nogpu -count 1 -timeout 60m -run 'TestAudit' -v ./internal/study >.cache/profile-audit.log 2>&1; \
	status=$$?; \
	echo "| what                               | compare says             | count      | wanted |"; \
	sed -n 's/^ *audit.*_test.go:[0-9]*: | /| /p' .cache/profile-audit.log; \
	exit $$status

# tokenizers holds every family to Hugging Face's tokenizers on texts that are
# not committed: make tokenizers SEED=7. bench-tokenizers measures beside them.
# bench-learn measures tokenizer train beside their trainers and compares ids.
# All need tokenizers, sentencepiece, transformers and gguf for $(PYTHON).
.PHONY: tokenizers bench-tokenizers bench-learn
SEED ?= 2
tokenizers:
	$(PYTHON) scripts/goldens_tokenizer_sets.py --shared $(SHARED) --seed $(SEED) --out .cache/tokenizers
	HOTPATH_TOKENIZER_SETS=$(CURDIR)/.cache/tokenizers $(GO) test -tags nogpu -count 1 -run TestSets ./internal/tokenizer

bench-tokenizers:
	$(PYTHON) scripts/bench_tokenizers.py --shared $(SHARED)

bench-learn: build
	$(PYTHON) scripts/bench_learn.py bin/hotpath --shared $(SHARED)

# kill-test kills training 20 times at random moments, while checkpoints are
# written too, and holds the resumed run against one that was not killed.
.PHONY: kill-test
kill-test:
	HOTPATH_TEST_KILLS=20 $(GO) test -tags nogpu ./cmd/hotpath -run TestTrainAfterKill -count 1 -v

# soak calls the library and the command at random for a long time, with mistakes,
# cancellations and kills, and fails where an answer is wrong or anything grows or
# is left: make soak SOAKTIME=10m SEED=7. Without SEED it takes one and prints it.
.PHONY: soak
SOAKTIME ?= 20m
soak: build
	$(GO) run -tags nogpu ./internal/soak --hotpath bin/hotpath --models $(MODELS) --time $(SOAKTIME) $(if $(filter command line environment,$(origin SEED)),--seed $(SEED))

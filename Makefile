# SPDX-License-Identifier: MIT
# cprofd. `make help` lists what can be made.
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2))

VERSION := 0.1.0
B ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
LLVM_STRIP ?= llvm-strip
# Debian has it in /usr/sbin, which is not on everybody's path.
BPFTOOL ?= $(firstword $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v bpftool) bpftool)
PKGS := libbpf libzstd zlib jansson libelf liblzma
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
WARN := -Wall -Wextra -Werror -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DCPROFD_VERSION='"$(VERSION)"' -Iinclude -Idaemon -I$(B)
CFLAGS ?= -O2 -g
SAN ?=
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS) $(SAN) $(PKG_CFLAGS)
ALL_LIBS = $(PKG_LIBS) $(DEFLATE) -lncursesw -ltinfo -lunwind-x86_64 -lZydis -liberty -lpthread -lm
# Unpacks debug information in a third of zlib's time, where it is installed. Static: one library less to load in each process.
DEFLATE := $(shell pkg-config --exists libdeflate 2>/dev/null && $(CC) -print-file-name=libdeflate.a | grep /)
ifneq ($(DEFLATE),)
CPPFLAGS += -DHAVE_LIBDEFLATE
endif

BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -fdebug-prefix-map=$(CURDIR)=. -Wall -Wextra -Werror -Wno-unused-parameter -D__TARGET_ARCH_x86 -idirafter /usr/include/x86_64-linux-gnu -Iinclude -Ibpf

SOURCES := $(filter-out daemon/main.c,$(wildcard daemon/*/*.c))
OBJECTS := $(SOURCES:%.c=$(B)/%.o)
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))
TOOLS := $(patsubst tests/tools/%.c,$(B)/tests/tools/%,$(wildcard tests/tools/*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(B)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
LIVE := $(shell sed -n 's|^\([^ \#]*\) *test$$|tests/live/\1|p' tests/live/LIST)

# Under sudo what is built belongs to the user who called it.
AS_USER := $(if $(filter-out 0,$(SUDO_UID)),setpriv --reuid=$(SUDO_UID) --regid=$(SUDO_GID) --init-groups --)

.PHONY: all
all: $(B)/cprofd $(B)/cprofd-engine compile_commands.json ## the program (this is what `make` does)

.SECONDARY:
.DELETE_ON_ERROR:

# --- BPF: compiled by clang, embedded through libbpf's skeleton ---
$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h bpf/*/*.h include/cprofd/*.h include/cprofd/*/*.h)
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
	$(Q)$(LLVM_STRIP) -g $@ 2>/dev/null || true

$(B)/%.skel.h: $(B)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf > $@

# --- user space ---
$(patsubst %.c,$(B)/%.o,$(wildcard daemon/broker/*.c)): $(B)/sampler.skel.h $(B)/dump.skel.h

# The rules of compilers are part of the program, as text.
RULES := $(wildcard rules/*.rules)
$(B)/rules.inc: $(RULES)
	@mkdir -p $(@D)
	$(call say,RULES,$@)
	$(Q)for f in $^; do printf '{"%s",\n' $$f && sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/' $$f && echo '},' || exit 1; done > $@
$(B)/daemon/rules/builtin.o $(B)/fuzz/daemon/rules/builtin.o: $(B)/rules.inc

# So are scripts and styles of what browsers open, each with its hash (daemon/export/svg.h).
ASSETS := $(wildcard $(foreach folder,export html web,$(foreach end,js css html,daemon/$(folder)/*.$(end))))
vpath %.js daemon/export daemon/html daemon/web
vpath %.css daemon/export daemon/html daemon/web
vpath %.html daemon/web
$(patsubst %,$(B)/%.inc,$(notdir $(ASSETS))): $(B)/%.inc: %
	@mkdir -p $(@D)
	$(call say,ASSET,$<)
	$(Q)printf '{"sha256-%s",\n' $$(env printf "$$(sha256sum $< | cut -c1-64 | sed 's/../\\x&/g')" | base64) > $@
	$(Q)sed 's/\\/\\\\/g; s/"/\\"/g; s/.*/"&\\n"/; $$s/$$/}/' $< >> $@
$(patsubst %.c,$(B)/%.o,$(wildcard daemon/*/*_assets.c)) $(patsubst %.c,$(B)/fuzz/%.o,$(wildcard daemon/*/*_assets.c)): \
	$(patsubst %,$(B)/%.inc,$(notdir $(ASSETS)))

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@

$(B)/libcprofd.a: $(OBJECTS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/cprofd: $(B)/daemon/main.o $(B)/libcprofd.a | $(B)/cprofd-engine
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(ALL_LIBS) -o $@

# Nobody but its owner may read it: so it is not dumpable from its first instruction on (execve(2)).
$(B)/cprofd-engine: $(B)/daemon/engine.o $(B)/libcprofd.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ -Wl,--as-needed,-z,relro,-z,now $(ALL_LIBS) -o $@
	$(Q)chmod 711 $@

# The oracles of unwinding: no part of the program.
$(B)/tests/tools/code_compare: ALL_LIBS += -ldw -lelf
$(B)/tests/tools/unwind_% $(B)/tests/tools/weave_live $(B)/tests/unit/test_unwind_%: ALL_LIBS += -lunwind-ptrace -lunwind-x86_64 -lunwind -ldw -lelf

# cmocka 2 has other names for macros that are all that cmocka 1 has.
$(B)/tests/unit/%.o: WARN += -Wno-deprecated-declarations
$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/libcprofd.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(ALL_LIBS) -lcmocka -o $@

$(B)/tests/tools/%: $(B)/tests/tools/%.o $(B)/libcprofd.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(ALL_LIBS) -o $@

compile_commands.json: Makefile
	$(Q)tools/compile-commands.sh "$(CC) $(ALL_CFLAGS) $(CPPFLAGS)" $(SOURCES) daemon/main.c daemon/engine.c > $@ 2>/dev/null || true

# The man page and the completions are printed by the program, from the tables
# that it parses its options with.
.PHONY: docs
docs: $(B)/cprofd.1 $(B)/cprofd.bash $(B)/_cprofd $(B)/cprofd.fish ## man page and shell completions
$(B)/cprofd.1: $(B)/cprofd
	$(Q)$< help --man > $@
$(B)/cprofd.bash: $(B)/cprofd
	$(Q)$< help --completion=bash > $@
$(B)/_cprofd: $(B)/cprofd
	$(Q)$< help --completion=zsh > $@
$(B)/cprofd.fish: $(B)/cprofd
	$(Q)$< help --completion=fish > $@

# --- installing ---
PREFIX ?= /usr/local
DESTDIR ?=
UNITS ?= $(PREFIX)/lib/systemd/system
# What the man page, --help and messages cite.
GUIDES := rules report diff view agent fleet protocol privileges
.PHONY: install uninstall
install: all docs ## into $(PREFIX), below $(DESTDIR)
	install -D -m 755 $(B)/cprofd $(DESTDIR)$(PREFIX)/bin/cprofd
	install -D -m 711 $(B)/cprofd-engine $(DESTDIR)$(PREFIX)/libexec/cprofd/cprofd-engine
	install -D -m 644 $(B)/cprofd.1 $(DESTDIR)$(PREFIX)/share/man/man1/cprofd.1
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/cprofd $(GUIDES:%=docs/%.md) LICENSE
	install -D -m 644 $(B)/cprofd.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/cprofd
	install -D -m 644 $(B)/_cprofd $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_cprofd
	install -D -m 644 $(B)/cprofd.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cprofd.fish
	install -d $(DESTDIR)$(UNITS)
	sed 's|@bindir@|$(PREFIX)/bin|' systemd/cprofd.service.in > $(DESTDIR)$(UNITS)/cprofd.service
	sed 's|@bindir@|$(PREFIX)/bin|' systemd/cprofd-agent.service.in > $(DESTDIR)$(UNITS)/cprofd-agent.service
	sed 's|@bindir@|$(PREFIX)/bin|' systemd/cprofd-push.service.in > $(DESTDIR)$(UNITS)/cprofd-push.service
	install -m 644 systemd/cprofd.socket $(DESTDIR)$(UNITS)/cprofd.socket
	install -D -m 644 systemd/cprofd.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/cprofd.conf
uninstall: ## what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/cprofd $(DESTDIR)$(PREFIX)/libexec/cprofd/cprofd-engine $(DESTDIR)$(PREFIX)/share/man/man1/cprofd.1 \
		$(addprefix $(DESTDIR)$(PREFIX)/share/doc/cprofd/,$(GUIDES:%=%.md) LICENSE) \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/cprofd \
		$(DESTDIR)$(PREFIX)/share/zsh/site-functions/_cprofd \
		$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/cprofd.fish \
		$(DESTDIR)$(UNITS)/cprofd.service $(DESTDIR)$(UNITS)/cprofd.socket $(DESTDIR)$(UNITS)/cprofd-agent.service $(DESTDIR)$(UNITS)/cprofd-push.service \
		$(DESTDIR)$(PREFIX)/lib/sysusers.d/cprofd.conf
	rmdir $(DESTDIR)$(PREFIX)/libexec/cprofd $(DESTDIR)$(PREFIX)/share/doc/cprofd 2>/dev/null || true

# Of a copy, as a build may not see what lies in a working tree.
.PHONY: deb
deb: ## Debian's package of this tree, below $(B)/deb (debhelper)
	$(Q)tools/deps.sh $(DEPS_BUILD) build-essential libcmocka-dev python3 debhelper fakeroot
	$(Q)rm -rf $(B)/deb && mkdir -p $(B)/deb/cprofd
	$(Q)git ls-files -z | xargs -0 cp -a --parents -t $(B)/deb/cprofd
	$(Q)cd $(B)/deb/cprofd && dpkg-buildpackage -us -uc -b -j$(JOBS)
	$(Q)ls $(B)/deb/*.deb

.PHONY: check-reproducible
check-reproducible: ## the package is built twice, in folders of other names, in another time zone and umask: equal byte by byte
	$(Q)tools/deps.sh $(DEPS_BUILD) build-essential debhelper fakeroot
	$(Q)tools/check-reproducible $(B)/reproducible

# --- what Debian has to give ---
DEPS_BUILD := gcc libc6-dev make pkg-config clang llvm bpftool libbpf-dev libzstd-dev libjansson-dev \
	libelf-dev libdw-dev liblzma-dev zlib1g-dev libdeflate-dev libiberty-dev libunwind-dev libzydis-dev libncurses-dev libmicrohttpd-dev libcurl4-openssl-dev
DEPS_DEMO := python3 python3-numba python3-numpy python3-scipy
DEPS_TEST := libcmocka-dev libclang-rt-dev python3-dev python3-jsonschema chromium ca-certificates zstd git \
	man-db jq util-linux libcap2-bin procps systemd gdb linux-perf python3-venv binutils elfutils g++ \
	xz-utils libdebuginfod1 tmux python3-greenlet python3-gevent python3-pip python3-setuptools python3-wheel python3-pytest python3-nbclient python3-ipykernel python3-prometheus-client
# Another source of npm (a newer nodejs) or Go may be there; Debian's npm conflicts with that.
DEPS_TEST += $(if $(shell command -v npm),,npm) $(if $(shell command -v go),,golang-go)
.PHONY: deps deps-test
deps: ## install what building and the demo need (apt)
	$(Q)tools/deps.sh $(DEPS_BUILD) $(DEPS_DEMO)
deps-test: ## install what the tests need, too (apt)
	$(Q)tools/deps.sh $(DEPS_BUILD) $(DEPS_DEMO) $(DEPS_TEST)

# --- the two commands ---
.PHONY: demo test
JOBS := $(shell nproc)
# A make of its own: pkg-config may not have been there when this one began.
demo: deps ## profile a real Numba compile; files into this directory (root)
	$(Q)$(AS_USER) $(MAKE) --no-print-directory -j$(JOBS) all
	$(Q)CPROFD=$(B)/cprofd tools/demo.sh

test: deps-test ## everything that this machine can test, below 20 minutes (root)
	$(Q)$(AS_USER) $(MAKE) --no-print-directory -j$(JOBS) all docs test-tools check
	$(Q)$(MAKE) --no-print-directory check-live LIVE="tests/browser/run.sh $(LIVE)"; status=$$?; \
		$(if $(AS_USER),chown -R $(SUDO_UID):$(SUDO_GID) build;) exit $$status
	@echo 'all tests passed'

# --- tests ---
# Unit tests under ASan and UBSan, and the order of the stages; without root.
SANITIZE := B=build/san CFLAGS="-O1 -g" \
	SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
.PHONY: check check-clang check-unit check-order check-stack check-live check-browser check-matrix check-compilers check-faults check-soak check-storms check-fleet tables-check test-tools
check: check-order ## unit tests under sanitizers; no root, seconds
	$(Q)$(MAKE) --no-print-directory $(SANITIZE) check-clang check-stack check-unit check-corpus
check-unit: $(UNIT)
	$(Q)test -n "$(UNIT)"
	$(Q)printf '%s\n' $(UNIT) | xargs -P $(JOBS) -I@ sh -c 't=@; $$t > $$t.log 2>&1 || { cat $$t.log; echo "  FAILED  $$t"; exit 255; }; \
		[ "$(V)" = 0 ] || cat $$t.log; \
		printf "  UNIT    %s: %s\n" "$$(basename $$t)" "$$(sed -n "s/^\[  PASSED  \] //p" $$t.log | tr "\n" " ")"'
# Here gcc builds all; of clang, which builds it for `make fuzz`, the warnings.
check-clang: $(B)/clang.checked
$(B)/clang.checked: $(SOURCES) daemon/main.c daemon/engine.c $(wildcard tests/fuzz/*.c tests/fuzz/*.h daemon/*/*.h include/cprofd/*.h include/cprofd/*/*.h) \
		$(B)/sampler.skel.h $(B)/dump.skel.h $(B)/rules.inc $(patsubst %,$(B)/%.inc,$(notdir $(ASSETS))) $(B)/tests/fuzz/targets.inc
	$(call say,CLANG,"$(words $(filter %.c,$^)) files")
	$(Q)$(CLANG) -fsyntax-only -std=gnu17 $(WARN) $(CPPFLAGS) $(PKG_CFLAGS) $(filter %.c,$^)
	@touch $@
check-order:
	$(Q)tools/order-check daemon
	$(Q)tools/width-check daemon
	$(Q)tools/arch-check .
# Of too_deep.bpf.o each program has to be refused.
check-stack: $(B)/bpf/sampler.bpf.o $(B)/bpf/dump.bpf.o $(B)/tests/bpf/too_deep.bpf.o
	$(Q)tools/stack-check $(B)/bpf/sampler.bpf.o $(B)/bpf/dump.bpf.o
	$(Q)test "$$(tools/stack-check $(B)/tests/bpf/too_deep.bpf.o 2>&1 | grep -c ' (at most ')" = "$$(grep -c '^SEC("raw_tp")' tests/bpf/too_deep.bpf.c)"

.PHONY: check-identity
check-identity: all ## what this tree and OLD=/path/to/cprofd make of the same recordings is the same (root)
	$(Q)tests/identity/identity.py $(OLD) $(B)/cprofd

# A walker by itself in the kernel.
$(B)/tests/bpf/%.bpf.o: tests/bpf/%.bpf.c $(wildcard bpf/*.h bpf/*/*.h include/cprofd/*.h include/cprofd/*/*.h)
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

test-tools: $(TOOLS) $(B)/tests/bpf/unwind.bpf.o

check-live: all docs test-tools ## real BPF, real Pythons, real Numba (root); LIVE=FILE for one
	$(Q)CPROFD=$(abspath $(B)/cprofd) tools/run-live.sh $(LIVE)

# A finding is a signal, which no test takes for an answer. What is freed is overwritten, as the kernel (exec's environment) reads unseen.
SANITIZED := ASAN_OPTIONS=abort_on_error=1:detect_leaks=0:symbolize=0:max_free_fill_size=1048576 \
	UBSAN_OPTIONS=abort_on_error=1:print_stacktrace=1:symbolize=0
CLI_LIVE := $(addprefix tests/live/,broker.sh cli.py dump.py hostile_text.py outputs_agree.py python_package.py report.py top.py user_rules.py view.py)
.PHONY: check-sanitized
check-sanitized: all docs test-tools ## live tests of the command line, with sanitizers, on an idle machine (root); LIVE=FILE for another
	$(Q)$(AS_USER) $(MAKE) --no-print-directory $(SANITIZE) build/san/cprofd
	$(Q)$(SANITIZED) CPROFD=$(abspath build/san/cprofd) tools/run-live.sh $(if $(filter command,$(origin LIVE)),$(LIVE),$(CLI_LIVE))

check-browser: ## the result in the real speedscope in a real browser
	$(Q)tools/run-live.sh tests/browser/run.sh

# Interpreters of newer Debian suites, and builds from Debian's source packages (tests/matrix/fetch.sh).
DEPS_MATRIX := patchelf dpkg-dev gcc libc6-dev make musl-tools zlib1g-dev libffi-dev debian-archive-keyring
MATRIX := CPROFD=$(abspath $(B)/cprofd) CPROFD_PYTHONS_LIST="$(abspath $(B))/pythons/LIST:$$CPROFD_PYTHONS_LIST"
.PHONY: pythons
pythons: ## the interpreters of check-matrix, below build/pythons (10 minutes of CPU, once)
	$(Q)tools/deps.sh $(DEPS_MATRIX)
	$(Q)tests/matrix/fetch.sh $(B)/pythons; status=$$?; \
		$(if $(AS_USER),chown -R $(SUDO_UID):$(SUDO_GID) build;) exit $$status

check-matrix: all docs test-tools pythons ## every interpreter: build/pythons, pyenv's, $$CPROFD_PYTHONS_LIST; 100,000 samples a target, 200 children a kind (root)
	$(Q)$(MATRIX) tests/live/truth.py --samples 100000
	$(Q)$(MATRIX) tests/live/children.py --all --count 200
	$(Q)$(MATRIX) tests/live/namespaces.py --all
	$(Q)$(MATRIX) CPROFD_ELFS="/usr/lib/x86_64-linux-gnu /usr/bin" CPROFD_LINES_EVERY=1 \
		tools/run-live.sh tests/live/identify.sh tests/live/lines.sh tests/live/unwind.sh tests/live/unwind_code.sh
	$(Q)$(MATRIX) tests/live/mixed.py --samples 50000 all

check-faults: all test-tools ## each system call and allocation of cprofd fails once, and 2,000 processes are killed (root, 2 hours)
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/failing_calls.py --all
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/kills.py --count 2000

check-soak: all test-tools ## samples of a whole day, in 10 to 30 minutes: memory stays as it is (root)
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/soak.py
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/continuous.py self-limit

check-storms: all test-tools ## a daemon while targets fork, exec, and map without end, disks are full, clients stop: some 8 minutes (root)
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/storms.py

check-fleet: all ## a real OpenTelemetry Collector takes what push sends; it is built below build/fleet (root, Go; 10 minutes of CPU, once). The image's steps
	$(Q)tests/fleet/fleet.py
	$(Q)tests/fleet/image.py

check-compilers: all docs test-tools ## compilers of PyPI: newest Numba, JAX, Cython, scipy, Triton, Pythran, Nuitka, PyTensor (they are installed below build/)
	$(Q)CPROFD=$(abspath $(B)/cprofd) CPROFD_COMPILERS=1 tools/run-live.sh tests/live/jit.py tests/live/jit_kernels.py tests/live/numba_names.sh \
		tests/live/compilers.py
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_jax.py --python $(B)/venv-compilers/bin/python
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_jax.py --python $(B)/venv-compilers/bin/python --trace 16
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/hlo_jax.py --python $(B)/venv-compilers/bin/python
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/source_lines.py --jax $(B)/venv-compilers/bin/python
	$(Q)$(B)/venv-compilers/bin/python -c 'import triton' 2>/dev/null || $(B)/venv-compilers/bin/pip install -q --disable-pip-version-check triton
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_triton.py --python $(B)/venv-compilers/bin/python
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/source_lines.py --triton $(B)/venv-compilers/bin/python
	$(Q)$(B)/venv-compilers/bin/python -c 'import pythran' 2>/dev/null || $(B)/venv-compilers/bin/pip install -q --disable-pip-version-check pythran
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_pythran.py --python $(B)/venv-compilers/bin/python
	$(Q)test -d $(B)/venv-pytensor || python3 -m venv $(B)/venv-pytensor
	$(Q)$(B)/venv-pytensor/bin/python -c 'import nuitka, pytensor' 2>/dev/null || $(B)/venv-pytensor/bin/pip install -q --disable-pip-version-check nuitka pytensor
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_nuitka.py --python $(B)/venv-pytensor/bin/python
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_pytensor.py --python $(B)/venv-pytensor/bin/python
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_inductor.py $(addprefix --python ,$(CPROFD_TORCH_PYTHON))
	$(Q)test -d $(B)/cython-plain || python3 -m pip install -q --no-deps --implementation py --platform any --abi none --only-binary=:all: \
		--target $(B)/cython-plain cython
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_cython.py --path $(B)/cython-plain
	$(Q)CPROFD=$(abspath $(B)/cprofd) tests/live/units_cython.py --python $(B)/venv-compilers/bin/python \
		--path "$$($(B)/venv-compilers/bin/python -c 'import Cython; print(Cython.__path__[0])')/.."

# What it needs besides: emulated machines, and their files.
DEPS_KERNELS := python3 qemu-system-x86 busybox-static cpio
.PHONY: check-kernels
check-kernels: ## kernels 6.1, 6.12 (guests below build/) and this one, with the programs of three versions of clang (root)
	$(Q)tools/deps.sh $(DEPS_BUILD) $(DEPS_KERNELS)
	$(Q)tests/kernels/run.py build/kernels; status=$$?; \
		$(if $(AS_USER),chown -R $(SUDO_UID):$(SUDO_GID) build;) exit $$status

tables-check: ## the tables of CPython's layouts against CPython's headers and interpreters
	$(Q)python3 tools/offsets/tables.py --check
	$(Q)python3 tools/offsets/verify.py

.PHONY: bench
# What cprofd is compared with: a tick that does nothing.
$(B)/tools/bench/empty.bpf.o: tools/bench/empty.bpf.c
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
$(B)/tools/bench/empty: $(B)/tools/bench/empty.o
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(ALL_LIBS) -o $@
# ... and cprofd that has no rules, so reads no locals.
.PHONY: $(B)/no-rules/cprofd
$(B)/no-rules/cprofd:
	$(Q)$(MAKE) --no-print-directory B=$(B)/no-rules RULES= $@
bench: all $(B)/tools/bench/empty $(B)/tools/bench/empty.bpf.o $(B)/no-rules/cprofd ## what it costs, beside its peers (root)
	$(Q)CPROFD=$(abspath $(B)/cprofd) python3 tools/bench/bench.py

# Fuzz targets: make fuzz [FUZZ_SECONDS=600]
FUZZ_SECONDS ?= 60
FUZZ_FLAGS := -std=gnu17 $(WARN) -g -O1 -fsanitize=fuzzer-no-link,address,undefined \
	-fno-sanitize-recover=undefined -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
$(B)/fuzz/%.o: %.c
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(FUZZ_FLAGS) $(CPPFLAGS) $(PKG_CFLAGS) -MMD -MP -c $< -o $@
$(patsubst %.c,$(B)/fuzz/%.o,$(wildcard daemon/broker/*.c)): $(B)/sampler.skel.h $(B)/dump.skel.h
$(B)/fuzz/libcprofd.a: $(SOURCES:%.c=$(B)/fuzz/%.o)
	$(Q)rm -f $@ && ar rcs $@ $^
$(B)/tests/fuzz/%: $(B)/fuzz/tests/fuzz/%.o $(B)/fuzz/libcprofd.a
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)
	$(Q)$(CLANG) $(FUZZ_FLAGS) -fsanitize=fuzzer $^ $(ALL_LIBS) -o $@
# What fuzzing found, and what meets most of the code, is kept; it goes through all targets in one program.
REPLAY := $(patsubst tests/fuzz/%.c,$(B)/tests/replay/%.o,$(wildcard tests/fuzz/fuzz_*.c))
$(B)/tests/fuzz/targets.inc: $(wildcard tests/fuzz/fuzz_*.c)
	@mkdir -p $(@D)
	$(Q)printf 'X(%s)\n' $(patsubst tests/fuzz/%.c,%,$^) > $@
$(B)/tests/replay/%.o: tests/fuzz/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) -DFUZZ_REPLAY -DLLVMFuzzerTestOneInput=$*_input -MMD -MP -c $< -o $@
$(B)/tests/fuzz/replay.o: $(B)/tests/fuzz/targets.inc
$(B)/tests/replay/replay: $(B)/tests/fuzz/replay.o $(REPLAY) $(B)/libcprofd.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(LDFLAGS) $^ $(ALL_LIBS) -o $@
.PHONY: check-corpus
check-corpus: $(B)/tests/replay/replay
	$(Q)$< tests/fuzz/corpus > $<.log 2>&1 || { tail -60 $<.log; echo "  FAILED  $<"; exit 1; }
	$(Q)printf '  CORPUS  %s\n' "$$(sed -n 's/^\[  PASSED  \] //p' $<.log)"
.PHONY: fuzz
fuzz: $(FUZZ) ## hostile bytes for each parser; FUZZ_SECONDS each
	$(Q)test -n "$(FUZZ)"
	$(Q)for t in $(FUZZ); do n=$$(basename $$t); mkdir -p $(B)/corpus/$$n tests/fuzz/corpus/$$n; echo "$$n"; \
		$$t -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 -artifact_prefix=$(B)/corpus/$$n- $(B)/corpus/$$n tests/fuzz/corpus/$$n \
			> $(B)/corpus/$$n.log 2>&1 || { tail -40 $(B)/corpus/$$n.log; exit 1; }; \
		grep -E 'stat::number_of_executed_units' $(B)/corpus/$$n.log || true; done
.PHONY: fuzz-corpus
fuzz-corpus: $(FUZZ) ## what `make fuzz` gathered -> tests/fuzz/corpus, the least that covers the same
	$(Q)tools/fuzz-corpus.sh $(B)/tests/fuzz $(B)/corpus tests/fuzz/corpus

.PHONY: clean help
clean: ## everything that was built
	$(Q)rm -rf build compile_commands.json
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { gsub(/[$$][$$]/, "$$", $$2); printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  variables: V=1 (say all), B=DIR, CC, PREFIX, DESTDIR, FUZZ_SECONDS'

# Below build/pythons are sources of others, with *.d of another kind.
-include $(shell find $(B) \( -path $(B)/pythons -o -path $(B)/deb \) -prune -o -type f -name '*.d' -print 2>/dev/null)

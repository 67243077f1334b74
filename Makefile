# cprofd. `make help` lists what can be made.
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2))

VERSION := 0.1.0
B ?= build
CC ?= gcc
CLANG ?= clang
PKGS := libbpf libdw libelf libzstd jansson
PKG_CFLAGS = $(shell pkg-config --cflags $(PKGS))
PKG_LIBS = $(shell pkg-config --libs $(PKGS))
WARN := -Wall -Wextra -Werror -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DCPROFD_VERSION='"$(VERSION)"' -Iinclude -Idaemon -I$(B)
CFLAGS ?= -O2 -g
SAN ?=
ALL_CFLAGS = -std=gnu17 $(WARN) $(CFLAGS) $(SAN) $(PKG_CFLAGS)
ALL_LIBS = $(PKG_LIBS) -lpthread

BPF_CFLAGS := -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -D__TARGET_ARCH_x86 -idirafter /usr/include/x86_64-linux-gnu -Iinclude -Ibpf

SOURCES := $(filter-out daemon/main.c,$(wildcard daemon/*/*.c))
OBJECTS := $(SOURCES:%.c=$(B)/%.o)
UNIT := $(patsubst tests/unit/%.c,$(B)/tests/unit/%,$(wildcard tests/unit/test_*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(B)/tests/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))

.PHONY: all
all: $(B)/cprofd compile_commands.json

.SECONDARY:
.DELETE_ON_ERROR:

# --- BPF: compiled by clang, embedded through libbpf's skeleton ---
$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(wildcard bpf/*.h include/cprofd/*.h)
	@mkdir -p $(@D)
	$(call say,BPF,$<)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@
	$(Q)llvm-strip -g $@ 2>/dev/null || true

$(B)/%.skel.h: $(B)/bpf/%.bpf.o
	$(call say,SKEL,$@)
	$(Q)bpftool gen skeleton $< name $*_bpf > $@

# --- user space ---
$(B)/daemon/broker/%.o: $(B)/sampler.skel.h

$(B)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $(CPPFLAGS) -MMD -MP -c $< -o $@

$(B)/libcprofd.a: $(OBJECTS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/cprofd: $(B)/daemon/main.o $(B)/libcprofd.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(ALL_LIBS) -o $@

$(B)/tests/unit/%: $(B)/tests/unit/%.o $(B)/libcprofd.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $^ $(ALL_LIBS) -lcmocka -o $@

compile_commands.json: Makefile
	$(Q)tools/compile-commands.sh "$(CC) $(ALL_CFLAGS) $(CPPFLAGS)" $(SOURCES) daemon/main.c > $@ 2>/dev/null || true

# --- tests ---
# Unit tests under ASan and UBSan, without root.
.PHONY: check check-unit
check:
	$(Q)$(MAKE) --no-print-directory B=build/san SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" CFLAGS="-O1 -g" check-unit
check-unit: $(UNIT)
	$(Q)for t in $(UNIT); do $$t || exit 1; done

# Fuzz targets: make fuzz [FUZZ_SECONDS=600]
FUZZ_SECONDS ?= 60
$(B)/tests/fuzz/%: tests/fuzz/%.c $(SOURCES)
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)
	$(Q)$(CLANG) -std=gnu17 -g -O1 -fsanitize=fuzzer,address,undefined $(CPPFLAGS) $(PKG_CFLAGS) $< $(SOURCES) $(ALL_LIBS) -o $@

.PHONY: clean
clean:
	$(Q)rm -rf build compile_commands.json

-include $(shell find $(B) -name '*.d' 2>/dev/null)

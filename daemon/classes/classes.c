/* SPDX-License-Identifier: MIT */
/* Which class of time is a sample in? First each function gets a trait, by its name and module; then class__of()
 * decides by the traits of the innermost frames. Pure code; docs/classes.md has the rules in words. */
#include "classes/classes.h"

#include <string.h>

#include "arch/arch.h"
#include "classes/rules.h"
#include "rules/rules.h"

const char *class__name(enum class_kind kind)
{
#define NAME(id, name) [CLASS_##id] = name,
	static const char *const names[CLASS_COUNT] = {CPROFD_CLASSES(NAME)};
#undef NAME
	return kind < CLASS_COUNT ? names[kind] : "";
}

static bool any(const char *const *patterns, uint32_t n, const char *text)
{
	for (uint32_t i = 0; i < n; i++)
		if (pattern__matches(patterns[i], text))
			return true;
	return false;
}
#define ANY(patterns, text) any(patterns, sizeof(patterns) / sizeof((patterns)[0]), text)

/* --- traits --- */

/* By the qualified name, of which the beginning differs between classes ("SourceLoader.get_data"). The first row
 * that matches applies: "*exec_module" would hold for extensions, too. */
static struct trait python_trait(const char *name, const char *file)
{
	/* Lib/importlib/_bootstrap.py and _bootstrap_external.py, frozen under these names since 3.3. */
	static const struct {
		const char *name;
		uint8_t phase;
	} functions[] = {
		{"*get_data", IMPORT_READ}, {"*path_stats", IMPORT_FIND}, {"_compile_bytecode", IMPORT_UNMARSHAL},
		{"*source_to_code", IMPORT_COMPILE}, {"*create_module", IMPORT_LOAD},
		{"*ExtensionFileLoader.exec_module", IMPORT_LOAD}, {"*get_code", IMPORT_READ},
		{"*_cache_bytecode", IMPORT_COMPILE}, {"*set_data", IMPORT_COMPILE},
		{"*exec_module", IMPORT_EXECUTE}, {"_call_with_frames_removed", IMPORT_NO},
	};
	struct trait trait = {TRAIT_IMPORT, IMPORT_FIND};

	if (strncmp(file, "<frozen importlib._bootstrap", 28))
		return (struct trait){TRAIT_PYTHON, 0};
	for (uint32_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
		if (pattern__matches(functions[i].name, name)) {
			trait.detail = functions[i].phase;
			break;
		}
	return trait;
}

/* Collector and eval loop by their symbols, if the interpreter has any: Modules/gcmodule.c up to 3.12, Python/gc.c
 * and gc_free_threading.c since; "_TAIL_CALL_*" are the instructions of 3.14's tail-calling interpreter. "(GC)":
 * found without a symbol (collector.c). */
static struct trait interpreter_trait(const char *name)
{
	static const char *const collector[] = {"gc_collect_*", "_PyGC_Collect*", "PyGC_Collect", "collect_with_callback*", "collect", "collect [clone *", /* 3.8 */
						"collect_generations*", "_Py_RunGC*", "(GC)"};
	static const char *const loop[] = {"_PyEval_EvalFrameDefault*", "_TAIL_CALL_*"};
	struct trait trait = {TRAIT_INTERPRETER, 0};

	if (ANY(collector, name))
		trait.kind = TRAIT_GC;
	else if (ANY(loop, name))
		trait.kind = TRAIT_EVAL;
	return trait;
}

/* By the names that callables.h gives. A function that calls its argument and is missing here is taken for the
 * callee itself. */
enum class_forwards class__forwards(const char *callee)
{
	static const char *const shown[] = {
		"functools.partial.__call__", "functools._lru_cache_wrapper.__call__", "map.__next__", "filter.__next__",
		"itertools.starmap.__next__", "operator.methodcaller.__call__", "types.GenericAlias.__call__", "_ctypes.*.__call__",
	};
	/* They only unwrap and call: the user wants to see what they called. */
	static const char *const silent[] = {
		"method.__call__", "method_descriptor.__call__", "method-wrapper.__call__", "wrapper_descriptor.__call__",
		"classmethod_descriptor.__call__", "builtin_function_or_method.__call__", "builtin_method.__call__",
		"instancemethod.__call__", "type.__call__", "_operator.call",
	};

	if (ANY(shown, callee))
		return FORWARDS_SHOWN;
	return ANY(silent, callee) ? FORWARDS_SILENTLY : FORWARDS_NOT;
}

/* The trait by the first rule that matches; TRAIT_NONE: none does. */
static struct trait rule_trait(const char *name, const char *module)
{
	for (uint32_t i = 0; i < n_class_rules; i++) {
		const struct class_rule *rule = &class_rules[i];

		if ((rule->module && !pattern__matches(rule->module, module)) || (rule->name && !pattern__matches(rule->name, name)))
			continue;
		if (rule->kind == RULE_OF_CALLER)
			return (struct trait){TRAIT_SYSTEM, 0};
		return (struct trait){rule->kind == CLASS_NONE ? TRAIT_NONE : TRAIT_RULE, (uint8_t)i};
	}
	return (struct trait){TRAIT_NONE, 0};
}

struct trait class__trait(enum class_origin origin, const char *name, const char *module, const char *file)
{
	static const char *const systems[] = {"libc.so*", "libc-*", "libm.so*", "libm-*", "ld-linux*", "ld-*.so", "ld-musl*",
					      "libpthread*", "libdl*", "librt*", "libutil*", "libgcc_s*", "libstdc++*", "[vdso]",
					      "libmvec*"};
	static const char *const bridges[] = {"_ctypes.*", "libffi*", "_cffi_backend.*"};
	struct trait trait;

	switch (origin) {
	case ORIGIN_PYTHON:
		return python_trait(name, file);
	case ORIGIN_NOTE:
		return (struct trait){strcmp(name, "(unknown native code)") ? TRAIT_NOTE : TRAIT_NOWHERE, 0};
	case ORIGIN_KERNEL:
		return (struct trait){TRAIT_KERNEL, 0};
	case ORIGIN_CALL:
		trait = rule_trait(name, "(callee)");
		if (trait.kind == TRAIT_NONE)
			trait.kind = class__forwards(name) ? TRAIT_FORWARDS : TRAIT_CALL;
		return trait;
	case ORIGIN_INTERPRETER:
		return interpreter_trait(name);
	case ORIGIN_NATIVE:
	case ORIGIN_JIT:
		break;
	}
	trait = rule_trait(name, module);
	if (trait.kind != TRAIT_NONE)
		return trait;
	if (origin == ORIGIN_JIT)
		return (struct trait){TRAIT_JIT, 0};
	if (ANY(systems, module))
		return (struct trait){TRAIT_SYSTEM, 0};
	return (struct trait){ANY(bridges, module) ? TRAIT_BRIDGE : TRAIT_NATIVE, 0};
}

/* --- imports --- */

enum import_phase class__import(enum import_phase outer, struct trait frame)
{
	if (frame.kind == TRAIT_IMPORT)
		/* detail 0: _call_with_frames_removed, which runs a module's body or an extension's code: the phase
		 * stays. */
		return frame.detail ? (enum import_phase)frame.detail : outer ? outer : IMPORT_FIND;
	if (outer && frame.kind == TRAIT_PYTHON)
		return IMPORT_EXECUTE;
	return outer;
}

static const char *phase_name(enum import_phase phase)
{
#define NAME(id, name) [IMPORT_##id] = name,
	static const char *const names[] = {IMPORT_PHASES(NAME)};
#undef NAME
	return names[phase];
}

/* --- the kernel --- */

/* The system call, if its number is not known: from the name of the C library's function, "__read_nocancel" -> "read".
 * */
static const char *call_name(const char *name)
{
	static const struct {
		const char *pattern, *call;
	} special[] = {
		{"*read_nocancel", "read"}, {"*write_nocancel", "write"}, {"*open*_nocancel", "openat"}, {"*close_nocancel", "close"},
		{"*fcntl*_nocancel", "fcntl"}, {"*pthread_cond*", "futex"}, {"*lll_lock*", "futex"}, {"*futex*", "futex"},
		{"open", "openat"}, {"open64", "openat"}, {"__open64", "openat"}, {"*fstatat*", "newfstatat"}, {"pread", "pread64"},
		{"pwrite", "pwrite64"}, {"lseek64", "lseek"}, {"send", "sendto"}, {"recv", "recvfrom"}, {"waitpid", "wait4"},
		{"fork", "clone"}, {"nanosleep", "clock_nanosleep"},
		{"sem_*", "futex"}, {"*sbrk*", "brk"}, {"*clone3*", "clone3"}, {"*clock_nanosleep*", "clock_nanosleep"},
	};

	for (uint32_t i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (pattern__matches(special[i].pattern, name))
			return special[i].call;
	if (strchr(name, '+'))
		return "system call";
	if (!strncmp(name, "__GI_", 5))
		name += 5;
	if (!strncmp(name, "__libc_", 7))
		name += 7;
	return name + strspn(name, "_");
}

/* How the thread entered the kernel: from the kernel's frames, outermost first, if the session has them; else from the
 * number of the system call; else from the user function that was innermost. */
static const char *kernel_name(const struct class_input *in)
{
	uint32_t n, i;
	const char *name;

	for (n = 0; n < in->n && in->frames[n].trait.kind == TRAIT_KERNEL; n++)
		;
	for (i = n; i; i--) {
		name = in->frames[i - 1].name;
		if (!strncmp(name, "__x64_sys_", 10) || !strncmp(name, "__arm64_sys_", 12))
			return strchr(name + 4, '_') + 5; /* after "sys_" */
		if (pattern__matches("*page_fault*", name))
			return "page fault";
		if (pattern__matches("*sysvec_*", name) || pattern__matches("*common_interrupt*", name) || pattern__matches("*irq*", name))
			return "interrupt";
	}
	if (in->kernel >= KERNEL_NUMBERED && (name = machine__syscall_name(in->kernel - KERNEL_NUMBERED)))
		return name;
	if (in->kernel != KERNEL_FAULT)
		return n < in->n ? call_name(in->frames[n].name) : "system call";
	return "page fault";
}

/* --- a sample --- */

/* Does a frame decide alone, whatever is around it? The innermost such one counts; Python frames end the search. */
static bool decided(const struct class_input *in, struct class_result *ret)
{
	for (uint32_t i = 0; i < in->n; i++) {
		const struct class_frame *frame = &in->frames[i];

		switch (frame->trait.kind) {
		case TRAIT_PYTHON:
		case TRAIT_IMPORT:
			return false;
		case TRAIT_GC:
			*ret = (struct class_result){CLASS_GC, ""};
			return true;
		case TRAIT_JIT:
			*ret = (struct class_result){CLASS_JIT, frame->name};
			return true;
		case TRAIT_RULE:
			*ret = (struct class_result){class_rules[frame->trait.detail].kind,
						     class_rules[frame->trait.detail].what};
			return true;
		}
	}
	return false;
}

/* The function that the Python code called, directly or through one that forwards (functools.partial); NULL: unknown.
 * */
static const char *callee(const struct class_input *in)
{
	const char *name = NULL;
	bool bridge = false;

	for (uint32_t i = in->n; i; i--) {
		const struct class_frame *frame = &in->frames[i - 1];

		if (frame->trait.kind == TRAIT_CALL || frame->trait.kind == TRAIT_FORWARDS)
			name = frame->name;
		bridge = bridge || frame->trait.kind == TRAIT_BRIDGE;
		/* A function called through ctypes or cffi is in no table, but has its symbol. */
		if (bridge && frame->trait.kind == TRAIT_NATIVE)
			return frame->name;
	}
	return name;
}

void class__of(const struct class_input *in, struct class_result *ret)
{
	const struct class_frame *native = NULL;
	const char *name;

	*ret = (struct class_result){CLASS_UNKNOWN, "no frame"};
	if (in->kernel != KERNEL_NO) {
		*ret = (struct class_result){CLASS_KERNEL, kernel_name(in)};
		return;
	}
	if (!in->n || decided(in, ret))
		return;
	if (in->import) {
		*ret = (struct class_result){CLASS_IMPORT, phase_name(in->import)};
		return;
	}
	name = callee(in);
	if (name) {
		*ret = (struct class_result){CLASS_CALL, name};
		return;
	}
	*ret = (struct class_result){CLASS_INTERPRETER, ""};
	for (uint32_t i = 0; i < in->n; i++) {
		const struct class_frame *frame = &in->frames[i];

		if (frame->trait.kind == TRAIT_NATIVE || frame->trait.kind == TRAIT_BRIDGE)
			native = frame;
		if (frame->trait.kind == TRAIT_NOWHERE || frame->trait.kind == TRAIT_NOTE) {
			/* Something is missing between the leaf and the Python frame. */
			if (!native && !i)
				*ret = (struct class_result){CLASS_UNKNOWN, frame->name};
			break;
		}
	}
	if (native) /* the outermost: what was called */
		*ret = (struct class_result){CLASS_CALL, native->name};
	else if (in->frames[0].trait.kind == TRAIT_SYSTEM && in->frames[in->n - 1].trait.kind == TRAIT_SYSTEM)
		*ret = (struct class_result){CLASS_CALL, in->frames[in->n - 1].name};
}

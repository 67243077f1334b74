/* Which CPython a process runs, from its memory alone.
 *
 * The modules are the ELF files whose first byte is mapped. The executable is
 * asked first, as the loader does: a copy relocation may have moved a library's
 * variable into it; then what is named like a Python, then the rest. The module
 * that defines _PyRuntime is the Python.
 */
#include "target/process.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "target/elf_dynamic.h"
#include "target/py_layout.h"
#include "target/version.h"

#define DATA_MAX (32u << 20)

static int problem(struct target_problem *ret, enum target_problem_kind kind, int err,
		   const char *detail, size_t len)
{
	ret->kind = kind;
	snprintf(ret->detail, sizeof(ret->detail), "%.*s", (int)len, detail);
	return err;
}

static int problem_text(struct target_problem *ret, enum target_problem_kind kind, int err,
			const char *detail)
{
	return problem(ret, kind, err, detail, strlen(detail));
}

static bool same_file(const struct mapping *a, const struct mapping *b)
{
	return a->inode == b->inode && a->major == b->major && a->minor == b->minor &&
	       a->path_len == b->path_len && !memcmp(a->path, b->path, a->path_len);
}

static bool is_module(const struct mapping *m)
{
	return m->inode && !m->offset && m->flags & MAPPING_READ && m->path_len &&
	       m->path[0] == '/';
}

static bool contains(const char *text, size_t len, const char *word)
{
	return memmem(text, len, word, strlen(word)) != NULL;
}

/* 0: the executable, 1: named like a Python, 2: the rest. */
static unsigned rank(const struct mapping *m, const struct mapping *executable)
{
	size_t len;
	const char *name = mapping__name(m, &len);

	if (executable && same_file(m, executable))
		return 0;
	return contains(name, len, "python") || contains(name, len, "Python") ? 1 : 2;
}

struct found {
	const struct mapping *module;
	struct elf_dynamic elf;
	struct elf_symbol runtime;
	bool has_runtime; /* else: it has Py_GetVersion only, as before 3.7 */
};

static bool look(struct target_process *p, const struct mapping *m, struct found *ret)
{
	enum elf_problem elf_problem;
	struct elf_symbol old;

	if (elf_dynamic__open(&p->reader, m->start, &ret->elf, &elf_problem))
		return false;
	ret->module = m;
	ret->has_runtime = !elf_dynamic__lookup(&ret->elf, "_PyRuntime", &ret->runtime, &elf_problem);
	return ret->has_runtime || !elf_dynamic__lookup(&ret->elf, "Py_GetVersion", &old, &elf_problem);
}

static bool find_python(struct target_process *p, struct found *ret)
{
	/* The executable's data begins at start_data: mapped from its file. */
	const struct mapping *executable = maps__find(&p->maps, p->key.start_data);
	unsigned wanted;
	size_t i;

	for (wanted = 0; wanted < 3; wanted++)
		for (i = 0; i < p->maps.n; i++)
			if (is_module(&p->maps.items[i]) &&
			    rank(&p->maps.items[i], executable) == wanted &&
			    look(p, &p->maps.items[i], ret))
				return true;
	return false;
}

/* Looks for the version's text in the writable part of the module, .bss included. */
static bool scan_version(struct target_process *p, const struct mapping *module, uint32_t *ret)
{
	const struct mapping *m = module, *end = p->maps.items + p->maps.n;
	uint64_t last = 0;

	for (; m < end; m++) {
		_cleanup_free_ char *data = NULL;
		bool bss = !m->inode && m->start == last && !m->path_len;

		if (m != module && is_module(m) && same_file(m, module) && m->start != last)
			break; /* mapped a second time */
		if (!same_file(m, module) && !bss)
			continue;
		last = m->end;
		if (!(m->flags & MAPPING_WRITE) || m->end - m->start > DATA_MAX)
			continue;
		data = malloc(m->end - m->start);
		if (!data || p->reader.read(&p->reader, data, m->end - m->start, m->start))
			continue;
		if (version__find(data, m->end - m->start, ret))
			return true;
	}
	return false;
}

/* 3.13+: the runtime begins with its own description. 3.11+ have Py_Version. */
static bool tell_version(struct target_process *p, const struct found *found, uint32_t *ret_hex,
			 bool *ret_debug_offsets, bool *ret_free_threaded)
{
	struct { /* _Py_DebugOffsets, Include/internal/pycore_debug_offsets.h */
		char cookie[8];
		uint64_t version, free_threaded;
	} head;
	struct elf_symbol symbol;
	enum elf_problem elf_problem;
	uint64_t word;

	*ret_debug_offsets = *ret_free_threaded = false;
	if (found->has_runtime &&
	    !p->reader.read(&p->reader, &head, sizeof(head), found->runtime.address) &&
	    !memcmp(head.cookie, "xdebugpy", 8)) {
		*ret_debug_offsets = true;
		*ret_hex = (uint32_t)head.version;
		*ret_free_threaded = head.free_threaded != 0;
		return true;
	}
	if (!elf_dynamic__lookup(&found->elf, "Py_Version", &symbol, &elf_problem) &&
	    !p->reader.read(&p->reader, &word, sizeof(word), symbol.address) && word) {
		*ret_hex = (uint32_t)word;
		return true;
	}
	return scan_version(p, found->module, ret_hex);
}

static int make_layout(struct target_process *p, uint64_t runtime, uint32_t hex, bool debug_offsets,
		       bool free_threaded, struct py_layout *ret)
{
	char head[PY_DEBUG_OFFSETS_MAX];

	if (!debug_offsets)
		return py_layout__from_table(hex, free_threaded, ret);
	if (p->reader.read(&p->reader, head, sizeof(head), runtime))
		return -EFAULT;
	return py_layout__from_debug_offsets(head, sizeof(head), ret);
}

int target__identify(struct target_process *p, struct image *ret_image, struct image_key *ret_key,
		     char version[32], struct target_problem *ret_problem)
{
	bool debug_offsets, free_threaded;
	struct elf_symbol code_type;
	enum elf_problem elf_problem;
	struct found found;
	uint32_t hex = 0;
	uint64_t word;
	int err;

	*ret_image = (struct image){};
	*ret_problem = (struct target_problem){};
	*ret_key = p->key;
	version[0] = 0;
	if (!find_python(p, &found)) {
		/* Nothing at all can be read of an image that was left. */
		if (p->reader.read(&p->reader, &word, sizeof(word), p->key.arg_start & ~7ull))
			return problem_text(ret_problem, TARGET_PROBLEM_GONE, -ESRCH, "");
		return problem_text(ret_problem, TARGET_PROBLEM_NOT_PYTHON, -ENOENT, "");
	}
	if (!tell_version(p, &found, &hex, &debug_offsets, &free_threaded))
		return problem(ret_problem,
			       found.has_runtime ? TARGET_PROBLEM_STARTING : TARGET_PROBLEM_NO_VERSION,
			       -EAGAIN, found.module->path, found.module->path_len);
	version__format(hex, free_threaded, version);
	if (!found.has_runtime || hex >> 16 < 0x0308 || hex >> 24 != 3)
		return problem_text(ret_problem, TARGET_PROBLEM_UNSUPPORTED, -ENOTSUP, version);
	if (elf_dynamic__lookup(&found.elf, "PyCode_Type", &code_type, &elf_problem))
		return problem_text(ret_problem, TARGET_PROBLEM_NO_SYMBOL, -EBADMSG, "PyCode_Type");
	err = make_layout(p, found.runtime.address, hex, debug_offsets, free_threaded,
			  &ret_image->layout);
	if (err == -ENOTSUP || err == -ENOENT)
		return problem_text(ret_problem, TARGET_PROBLEM_UNSUPPORTED, -ENOTSUP, version);
	if (err)
		return problem_text(ret_problem, TARGET_PROBLEM_LAYOUT, -EBADMSG, version);
	ret_image->runtime = found.runtime.address;
	ret_image->code_type = code_type.address;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* Which CPython does a process run? Found from its memory alone: no file is opened, so it works for deleted files, in
 * containers, and without privileges.
 *
 * Modules are the ELF files whose first byte is mapped. The one that defines _PyRuntime is the Python. The executable
 * is searched first, as the loader does, because a copy relocation may have moved a library's variable into it; then
 * files named like a Python, then the rest. If none defines it, Python may be linked into the executable without
 * exports: its data is searched (data_scan.h).
 *
 *    find_python()     which module, where is _PyRuntime?
 *    find_version()    3.11.7? By _Py_DebugOffsets, Py_Version, or a text
 *    make_layout()     offsets of all members that are read (py_layout.h)
 *    find_code_type()  PyCode_Type: by it the walker recognises code objects
 *
 * All of it is run again some milliseconds later if the process has just begun (serve/identify.c), so each step may
 * find half an interpreter. */
#include "target/process.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/dynamic.h"
#include "elf/elf.h"
#include "target/py_layout.h"
#include "target/version.h"

#define DATA_MAX (32u << 20) /* bytes of one writable mapping; larger ones are skipped */

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

/* The first mapping of a file: its ELF header. */
static bool is_module(const struct mapping *m)
{
	return m->inode && !m->offset && m->flags & MAPPING_READ && m->path_len &&
	       m->path[0] == '/';
}

static bool contains(const char *text, size_t len, const char *word)
{
	return memmem(text, len, word, strlen(word)) != NULL;
}

/* In which order modules are searched: 0: the executable, 1: libpython, 2: others named like a Python (a framework, and
 * each extension of "cpython-313"), 3: the rest. */
static unsigned rank(const struct mapping *m, const struct mapping *executable)
{
	size_t len;
	const char *name = mapping__name(m, &len);

	if (executable && same_file(m, executable))
		return 0;
	if (contains(name, len, "libpython"))
		return 1;
	return contains(name, len, "python") || contains(name, len, "Python") ? 2 : 3;
}

/* The module that is the Python. */
struct found {
	const struct mapping *module;
	uint64_t runtime;      /* 0: the module has only Py_GetVersion, as before 3.7 */
	uint64_t runtime_size; /* 0: not known */
	bool exports;          /* symbols can be looked up in `elf` */
	struct elf_dynamic elf;
};

/* The address of an exported symbol and its size; 0: the module does not export it. Tables in the target's memory are
 * bounded in elf/dynamic.c. */
static uint64_t exported_size(const struct found *found, const char *name, uint64_t *ret_size)
{
	enum elf_problem elf_problem;
	struct elf_symbol symbol;

	if (!found->exports || elf_dynamic__lookup(&found->elf, name, &symbol, &elf_problem))
		return 0;
	*ret_size = symbol.size;
	return symbol.address;
}

static uint64_t exported(const struct found *found, const char *name)
{
	uint64_t size;

	return exported_size(found, name, &size);
}

/* Before 3.7 there is no _PyRuntime; such a Python is recognised by Py_GetVersion, to be refused by its version. */
static bool has_symbols(struct target_process *p, const struct mapping *m, struct found *ret)
{
	enum elf_problem elf_problem;

	*ret = (struct found){.module = m};
	ret->exports = !elf_dynamic__open(&p->reader, m->start, &ret->elf, &elf_problem);
	ret->runtime = exported_size(ret, "_PyRuntime", &ret->runtime_size);
	return ret->runtime || exported(ret, "Py_GetVersion");
}

/* Calls `fn` with a copy of each writable mapping of a module, until it returns true. The mappings of a module follow
 * each other; .bss is anonymous, behind the last one of the file. */
static bool each_data(struct target_process *p, const struct mapping *module,
		      bool (*fn)(const struct data_area *area, void *ctx), void *ctx)
{
	const struct mapping *m = module, *end = p->maps.items + p->maps.n;
	uint64_t last = 0;

	for (; m < end; m++) {
		_cleanup_free_ char *data = NULL;
		bool bss = !m->inode && m->start == last && !m->path_len;
		size_t len = m->end - m->start;

		if (m != module && is_module(m) && same_file(m, module) && m->start != last)
			break; /* mapped a second time */
		if (!same_file(m, module) && !bss)
			continue;
		last = m->end;
		if (!(m->flags & MAPPING_WRITE) || len > DATA_MAX)
			continue;
		data = malloc(len);
		p->lacks_memory |= !data;
		if (!data || p->reader.read(&p->reader, data, len, m->start))
			continue;
		if (fn(&(struct data_area){.bytes = data, .len = len, .address = m->start}, ctx))
			return true;
	}
	return false;
}

static bool area_runtime(const struct data_area *area, void *ctx)
{
	struct found *found = ctx;

	found->runtime = data_scan__runtime(area);
	return found->runtime != 0;
}

/* A Python that exports nothing: since 3.13 it has a cookie in its data. */
static bool has_cookie(struct target_process *p, const struct mapping *m, struct found *ret)
{
	*ret = (struct found){.module = m};
	return each_data(p, m, area_runtime, ret);
}

/* The rest of the modules is not searched for the cookie: copying the data of all libraries takes too long. */
static bool find_python(struct target_process *p, struct found *ret)
{
	/* The kernel says where the executable's data begins (start_data); that is mapped from its file. */
	const struct mapping *executable = maps__find(&p->maps, p->key.start_data);
	static const struct {
		unsigned rank;
		bool (*matches)(struct target_process *p, const struct mapping *m, struct found *ret);
	} ways[] = {{0, has_symbols}, {1, has_symbols}, {2, has_symbols}, {3, has_symbols},
		    {0, has_cookie},  {1, has_cookie},	{2, has_cookie}};

	for (size_t way = 0; way < sizeof(ways) / sizeof(*ways); way++)
		for (size_t i = 0; i < p->maps.n; i++)
			if (is_module(&p->maps.items[i]) &&
			    rank(&p->maps.items[i], executable) == ways[way].rank &&
			    ways[way].matches(p, &p->maps.items[i], ret))
				return true;
	return false;
}

/* A mapped file whose name begins with `begin` or "lib" and `begin`: pypy3, libpypy3-c.so. NULL: none. */
static const struct mapping *mapped_as(const struct target_process *p, const char *begin)
{
	size_t i, len = strlen(begin);

	for (i = 0; i < p->maps.n; i++) {
		const struct mapping *m = &p->maps.items[i];
		const char *slash = m->path_len ? memrchr(m->path, '/', m->path_len) : NULL;
		const char *name = slash ? slash + 1 : NULL;
		size_t left = name ? (size_t)(m->path + m->path_len - name) : 0;

		if (left > 3 && !memcmp(name, "lib", 3))
			name += 3, left -= 3;
		if (left >= len && !memcmp(name, begin, len))
			return m;
	}
	return NULL;
}

/* Names a Python that is not supported: "PyPy"; NULL: none was recognised. */
static const char *other_python(struct target_process *p)
{
	const struct mapping *python = mapped_as(p, "python");
	unsigned char head[EI_NIDENT];

	if (mapped_as(p, "pypy"))
		return "PyPy";
	if (python && !python->offset && !p->reader.read(&p->reader, head, sizeof(head), python->start) &&
	    elf_ident__is_32_bit(head))
		return "a 32-bit Python";
	return NULL;
}

static bool area_version(const struct data_area *area, void *ctx)
{
	return version__find(area->bytes, area->len, ctx);
}

struct type_search {
	struct host_reader *reader;
	const struct py_layout *layout;
	uint64_t address;
};

static bool area_code_type(const struct data_area *area, void *ctx)
{
	struct type_search *s = ctx;

	s->address = data_scan__type(area, s->reader, s->layout->object_type, s->layout->type_name, "code");
	return s->address != 0;
}

static uint64_t find_code_type(struct target_process *p, const struct found *found,
			       const struct py_layout *layout)
{
	struct type_search search = {.reader = &p->reader, .layout = layout};

	search.address = exported(found, "PyCode_Type");
	if (!search.address)
		each_data(p, found->module, area_code_type, &search);
	return search.address;
}

/* The version: since 3.13 at the beginning of _PyRuntime, since 3.11 in Py_Version, before as text in a static buffer.
 * All are of the form 0x030b07f0 (PY_VERSION_HEX). False: not there yet. */
static bool find_version(struct target_process *p, const struct found *found, uint32_t *ret_hex,
			 bool *ret_debug_offsets, bool *ret_free_threaded)
{
	struct { /* _Py_DebugOffsets, Include/internal/pycore_debug_offsets.h */
		char cookie[8];
		uint64_t version, free_threaded;
	} head;
	uint64_t py_version = exported(found, "Py_Version"), word;

	*ret_debug_offsets = *ret_free_threaded = false;
	if (found->runtime && !p->reader.read(&p->reader, &head, sizeof(head), found->runtime) &&
	    !memcmp(head.cookie, "xdebugpy", 8)) {
		*ret_debug_offsets = true;
		*ret_hex = (uint32_t)head.version;
		*ret_free_threaded = head.free_threaded != 0;
		return true;
	}
	if (py_version && !p->reader.read(&p->reader, &word, sizeof(word), py_version) && word) {
		*ret_hex = (uint32_t)word;
		return true;
	}
	return each_data(p, found->module, area_version, ret_hex);
}

/* From 3.13 on the target's own offsets, before that a table's. */
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

/* Errors as target__identify(). The order of the tests decides which reason the user reads. */
static int identify(struct target_process *p, struct image *ret_image, char version[32],
		    struct target_problem *ret_problem)
{
	bool debug_offsets, free_threaded;
	const char *other;
	struct found found;
	uint32_t hex = 0;
	uint64_t word;
	int err;

	if (!find_python(p, &found)) {
		/* After an exec, no memory of the old image can be read any more. */
		if (p->reader.read(&p->reader, &word, sizeof(word), p->key.arg_start & ~7ull))
			return problem_text(ret_problem, TARGET_PROBLEM_GONE, -ESRCH, "");
		other = other_python(p);
		if (other)
			return problem_text(ret_problem, TARGET_PROBLEM_UNSUPPORTED, -ENOTSUP, other);
		return problem_text(ret_problem, TARGET_PROBLEM_NOT_PYTHON, -ENOENT, "");
	}
	if (!find_version(p, &found, &hex, &debug_offsets, &free_threaded))
		return problem(ret_problem,
			       found.runtime ? TARGET_PROBLEM_STARTING : TARGET_PROBLEM_NO_VERSION,
			       -EAGAIN, found.module->path, found.module->path_len);
	version__format(hex, free_threaded, version);
	if (!found.runtime || hex >> 16 < 0x0308 || hex >> 24 != 3)
		return problem_text(ret_problem, TARGET_PROBLEM_UNSUPPORTED, -ENOTSUP, version);
	err = make_layout(p, found.runtime, hex, debug_offsets, free_threaded,
			  &ret_image->layout);
	if (err == -ENOTSUP || err == -ENOENT)
		return problem_text(ret_problem, TARGET_PROBLEM_UNSUPPORTED, -ENOTSUP, version);
	if (err)
		return problem_text(ret_problem, TARGET_PROBLEM_LAYOUT, -EBADMSG, version);
	ret_image->code_type = find_code_type(p, &found, &ret_image->layout);
	if (!ret_image->code_type)
		return problem_text(ret_problem, TARGET_PROBLEM_NO_SYMBOL, -EBADMSG, "PyCode_Type");
	ret_image->runtime = found.runtime;
	ret_image->runtime_size = found.runtime_size;
	return 0;
}

/* If memory did not answer, or ours ran out, the real answer is unknown: say that instead. */
int target__identify(struct target_process *p, struct image *ret_image, struct image_key *ret_key,
		     char version[32], struct target_problem *ret_problem)
{
	int err;

	*ret_image = (struct image){};
	*ret_problem = (struct target_problem){};
	*ret_key = p->key;
	version[0] = 0;
	p->mute = p->lacks_memory = false;
	err = identify(p, ret_image, version, ret_problem);
	if (err && p->lacks_memory)
		return problem_text(ret_problem, TARGET_PROBLEM_NO_MEMORY, -ENOMEM, "");
	if (err && p->mute)
		return problem_text(ret_problem, TARGET_PROBLEM_MUTE, -EAGAIN, "");
	return err;
}

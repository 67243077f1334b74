/* SPDX-License-Identifier: MIT */
/* Symbols: a native address -> name of the function, offset in it, file:line.
 *
 *    symbol_file__open(fd of libc.so.6) ... symbol_file__find(file, 0xccdf2, &s)
 *      -> s.name "clock_nanosleep", s.start 0xccdb0, s.offset 0x42, s.source SYMBOL_FROM_SYMTAB
 *
 * Callers: codemap/find.c for the samples of a session, codemap/namer.c to open files and read lines on a thread of
 * its own.
 *
 * Units: a "vaddr" is an address as the ELF file itself counts (st_value, p_vaddr). A file offset comes from a
 * mapping: pc - mapping.start + mapping.offset; modules/segments.h converts. A return address points behind its
 * call: ask for address - 1, or a call at the very end of a function gets the name of the next function.
 *
 * A name is given only if the address lies inside of a symbol. Otherwise the answer is -ENOENT, and the caller shows
 * "module+0xoffset", where the offset is that of the function's begin if call frame information has one. Sources and
 * the choice among aliases: docs/symbols.md.
 *
 * Nothing here opens a path by itself: files are requested from the caller. All bytes are the target's and may be
 * anything: every walk has a bound, and a file that shrinks or changes after it was opened loses its names (-ESTALE)
 * and never gives wrong ones.
 *
 * Threads: several threads may call symbol_file__find() for one open symbol_file at once, also while another thread
 * reads its lines, but not while it is given a debug file. Its lines belong to one thread at a time. Errors: -errno. */
#pragma once

#include "base/buf.h"
#include "base/kept.h"

/* Opens the file at `path` as the target sees it (its mount namespace, its root). Returns an fd that belongs to the
 * caller and is readable by pread; or -errno. The engine may not open files itself: its implementation asks the
 * broker. */
struct symbol_opener {
	int (*open)(void *context, const char *path);
	void *context;
	/* Where what takes long to make of a file is kept for the next who opens it (borrowed; <= 0: nowhere): a
	 * folder that this process alone may write to. */
	int folder;
};

/* X(id, word): where a name was found, in the order in which the tables are searched (find_row() in find.c). A
 * better source comes first: .symtab is complete, .dynsym has exported functions only, and FRAMES has ranges without
 * names. The words are those of tests/tools/symbolize.c. */
#define SYMBOL_SOURCES(X) \
	X(SYMTAB, "symtab") \
	X(DEBUG_FILE, "debug-file") \
	X(DEBUGDATA, "debugdata") \
	X(DYNSYM, "dynsym") \
	X(PLT, "plt") \
	X(VTABLE, "vtable") \
	X(FRAMES, "call-frames") \
	X(KERNEL, "kallsyms")
#define SYMBOL_SOURCE_ENUM(id, word) SYMBOL_FROM_##id,
enum symbol_source { SYMBOL_SOURCES(SYMBOL_SOURCE_ENUM) SYMBOL_SOURCE_COUNT };
#undef SYMBOL_SOURCE_ENUM

/* A symbol that was found. `name` belongs to the caller, who may use one struct
 * for any number of calls and frees it with symbol__free(). Zero-initialised is
 * empty. */
struct symbol {
	uint64_t start;       /* vaddr (kernel: address) */
	uint64_t size;        /* of what is named, also where the size was derived */
	uint64_t offset;      /* of the address asked for, from start */
	struct buf name;      /* as it is in the table (mangled), NUL-terminated; "puts@plt"; from a virtual table plain */
	struct buf module;    /* kernel module, NUL-terminated; "" otherwise */
	enum symbol_source source;
	bool extended;        /* the table gives no size: it ends where the next begins */
	/* Set by who asks for the names of a whole file: a table's names are read at once then, and held here. */
	bool many;
	struct buf strings;
	const void *strings_of; /* the table */
};
void symbol__free(struct symbol *symbol);

struct symbol_file;

/* Of a name as it stands in the file, in bytes. It bounds what a string table without a NUL can make us read. */
#define SYMBOL_NAME_MAX (1u << 20) /* longer names are cut; C++'s reach 100 KB */

/* Takes `fd` over, if and only if it returns 0. `opener` (may be NULL) is asked for separate debug files here, if
 * the file lacks .symtab, and in symbol_file__line(); it must outlive the file. `path`: the file's own, beside which
 * debug files may be; NULL: unknown. -ENOEXEC: no 64-bit little-endian ELF; -EBADMSG: a damaged one. A file without
 * any symbol opens. */
int symbol_file__open(int fd, const char *path, const struct symbol_opener *opener,
		      struct symbol_file **ret);
/* An image in memory (the vDSO, an object of a JIT). The bytes are copied. */
int symbol_file__open_memory(const void *data, size_t len, struct symbol_file **ret);
/* The text of /proc/kallsyms, from an fd at its beginning (not taken over). vaddrs are addresses then. -EACCES: the
 * kernel hides them (all are 0). */
int symbol_file__open_kallsyms(int fd, struct symbol_file **ret);
void symbol_file__free(struct symbol_file *file);

/* The symbol that vaddr lies in. -ENOENT: in none; -ESTALE, -EIO: the file changed. On error *ret has no name. With
 * -ENOENT ret->start and ret->size are still those of the function if call frame information has it, else size is 0. */
int symbol_file__find(const struct symbol_file *file, uint64_t vaddr, struct symbol *ret);
/* Where the function begins, as symbol_file__find() has it, without the name: no byte of the file is read. -ENOENT:
 * also of a function without a name. */
int symbol_file__start(const struct symbol_file *file, uint64_t vaddr, uint64_t *ret_start);
/* The addresses around vaddr for which symbol_file__find() gives the same answer. False: that answer is no symbol. */
bool symbol_file__range(const struct symbol_file *file, uint64_t vaddr, uint64_t *ret_from, uint64_t *ret_to);
/* The identity of the file whose bytes the names are, and of its debug file. -ENOENT: it has none (an image in
 * memory, the kernel). */
int symbol_file__key(const struct symbol_file *file, struct kept_key *ret);
/* The bytes of the build-id; 0: it has none. */
size_t symbol_file__build_id(const struct symbol_file *file, const uint8_t **ret_id);

struct symbol_stats {
	uint32_t symbols[SYMBOL_SOURCE_COUNT]; /* ranges in the index */
	size_t bytes;                          /* memory held, without that of lines */
};
void symbol_file__stats(const struct symbol_file *file, struct symbol_stats *ret);

/* Gives the file a debug file that was found elsewhere (debuginfod). Takes `fd` over if it returns 0. -EINVAL: its
 * build-id is another. It replaces one that was there, and lines are opened anew at the next question. */
int symbol_file__add_debug_file(struct symbol_file *file, int fd);

/* --- file:line --- */

/* A place in the source. An example: {"/build/glibc/time/nanosleep.c", 25, 12}. Paths are not normalised and often
 * do not exist on this machine. */
struct source_line {
	const char *file;      /* as the compiler wrote it; NULL: unknown */
	uint32_t line, column; /* 0: unknown */
};

/* The line of an address in the function that the symbol names: of code that was inlined into it, the line of the
 * call. ret->file is valid until the next call for this file. -ENOENT: there is none; -EFBIG: finding it needs more
 * reading than one question may cost (docs/symbols.md). */
int symbol_file__line(struct symbol_file *file, uint64_t vaddr, struct source_line *ret);
/* Opens the lines: 0, or why there are none, which stays the answer. The first call reads which unit of the debug
 * information has which code; that is kept in memory. */
int symbol_file__open_lines(struct symbol_file *file);
/* Gives back what else was read, and stores what is worth keeping in the opener's folder. Its key there is the
 * identity of the file and of its debug file. */
void symbol_file__close_lines(struct symbol_file *file); /* or NULL */

/* --- debuginfod, for those who set DEBUGINFOD_URLS --- */

/* A download in a thread of its own: it may take minutes. The library is loaded
 * then, not before. */
struct debuginfod_job;
/* Starts the download for this build-id. -ENOTSUP: DEBUGINFOD_URLS is not set, or there is no libdebuginfod;
 * -EINVAL: the id is empty or longer than ELF_BUILD_ID_MAX; -ENOMEM. */
int debuginfod_job__start(const uint8_t *build_id, size_t len, struct debuginfod_job **ret);
/* The debug file's fd, which the caller owns from then on; -EAGAIN: not done yet; -ENOENT and others: there is none,
 * or the fd was taken already. Never waits. */
int debuginfod_job__take(struct debuginfod_job *job);
/* Ends a download that still runs: the progress callback makes the library stop, and the thread is joined, so this
 * waits until the library calls back. */
struct debuginfod_job *debuginfod_job__free(struct debuginfod_job *job); /* NULL */

/* --- names for people --- */

#define SYMBOL_DISPLAY_MAX 16384u

/* Appends a symbol's name in the words of its source language: C++ (Itanium),
 * Rust (both manglings), Numba; others as they are. A compiler's clone is shown as
 * c++filt does: "f(int) [clone .cold]". `jit`: the symbol is of an object that a
 * JIT made, where Numba's names need no further proof. Longer results than
 * SYMBOL_DISPLAY_MAX stay mangled. Not terminated. 0, -ENOMEM. */
int symbol__display(const char *name, size_t len, bool jit, struct buf *ret);

/* SPDX-License-Identifier: MIT */
/* What the reader of JIT code sees of a running process, as JSON lines.
 *
 *   jit_probe PID [INTERVAL_MS [PERF_MAP [JITDUMP]]]
 *
 * It says which modules have a descriptor, then polls each INTERVAL_MS (20). Commands
 * on stdin, a line each: "find HEXPC TIME_NS", "objects", "counts", "poll" (through
 * whole lists), "done TIME_NS"; the end of stdin ends it. Bytes of names that are not
 * ASCII are written as \u00XX. Times are CLOCK_MONOTONIC ns. Needs root. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "elf/elf.h"
#include "../jit_symbols.h"
#include "target/maps.h"

static const char *const source_names[] = {[JIT_SOURCE_GDB] = "gdb", [JIT_SOURCE_JITDUMP] = "jitdump", [JIT_SOURCE_PERF_MAP] = "perf-map"};

struct fd_reader {
	struct host_reader reader;
	int fd;
};

static int read_fd(struct host_reader *self, void *dst, size_t size, uint64_t address)
{
	const struct fd_reader *r = (const struct fd_reader *)self;

	return pread(r->fd, dst, size, (off_t)address) == (ssize_t)size ? 0 : -EFAULT;
}

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void put_string(const char *s)
{
	putchar('"');
	for (; *s; s++)
		if (*s == '"' || *s == '\\' || (uint8_t)*s < 32 || (uint8_t)*s > 126)
			printf("\\u%04x", (uint8_t)*s);
		else
			putchar(*s);
	putchar('"');
}

/* What the loader added to the file's addresses. */
static bool bias_of(const struct elf_bytes *file, uint64_t start, uint64_t *ret)
{
	struct elf_image image;
	bool found;
	uint32_t i;

	if (elf_image__open(file, ELF_SEGMENTS, &image))
		return false;
	for (i = 0; i < image.n_segments && image.segments[i].p_type != PT_LOAD; i++)
		;
	if (i < image.n_segments)
		*ret = start - (image.segments[i].p_vaddr & ~4095ull) +
		       (image.segments[i].p_offset & ~4095ull);
	found = i < image.n_segments;
	elf_image__free(&image);
	return found;
}

static void look_at_module(struct jit *jit, int pid, const struct mapping *m)
{
	struct elf_bytes file;
	uint64_t bias, address = 0, begin;
	char path[4200], shown[4097];
	int fd, err;

	snprintf(shown, sizeof(shown), "%.*s", (int)m->path_len, m->path);
	snprintf(path, sizeof(path), "/proc/%d/root%s", pid, shown);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (!elf_bytes__init_fd(&file, fd) && bias_of(&file, m->start, &bias)) {
		begin = now();
		err = jit_descriptor__find(&file, bias, &address);
		if (!err)
			err = jit__add_descriptor(jit, address);
		printf("{\"module\": ");
		put_string(shown);
		printf(", \"found\": \"%s\", \"address\": %llu, \"us\": %llu}\n",
		       !err ? "yes" : err == -ENOENT ? "no" : err == -ENODATA ? "stripped" : "bad",
		       (unsigned long long)address, (unsigned long long)(now() - begin) / 1000);
	}
	close(fd);
}

static int look_at_modules(struct jit *jit, int pid)
{
	_cleanup_(maps__free) struct maps maps = {};
	_cleanup_close_ int fd = -1;
	char path[64];
	size_t i;
	int err;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	err = maps__read(fd, &maps);
	if (err)
		return err;
	for (i = 0; i < maps.n; i++)
		if (maps.items[i].inode && !maps.items[i].offset && maps.items[i].path_len &&
		    maps.items[i].path[0] == '/')
			look_at_module(jit, pid, &maps.items[i]);
	return 0;
}

static void put_symbol(void *ctx, const char *name, uint64_t start, uint64_t size)
{
	bool *first = ctx;

	printf("%s[%llu, %llu, ", *first ? "" : ", ", (unsigned long long)start,
	       (unsigned long long)size);
	*first = false;
	put_string(name);
	putchar(']');
}

static void put_object(struct jit *jit, const struct jit_object *o)
{
	struct jit_unwind unwind = {};
	uint32_t id = o->id, i;
	bool first = true;

	printf("{\"object\": %u, \"source\": \"%s\", \"image\": %llu, \"image_size\": %llu, "
	       "\"born_after\": %llu, \"born_by\": %llu, \"died_by\": %llu, \"lines\": %s, \"ranges\": [",
	       id, source_names[o->source], (unsigned long long)o->image,
	       (unsigned long long)o->image_size, (unsigned long long)o->life.born_after,
	       (unsigned long long)o->life.born_by, (unsigned long long)o->life.died_by,
	       o->has_lines ? "true" : "false");
	for (i = 0; i < o->n_ranges; i++)
		printf("%s[%llu, %llu]", i ? ", " : "", (unsigned long long)o->ranges[i].start,
		       (unsigned long long)o->ranges[i].end);
	printf("], \"symbols\": [");
	jit__each_symbol(jit, id, put_symbol, &first);
	printf("]");
	if (!jit__take_unwind(jit, id, &unwind)) {
		printf(", \"eh_frame\": {\"address\": %llu, \"whole\": %s, \"bytes\": \"",
		       (unsigned long long)unwind.address, unwind.whole ? "true" : "false");
		for (i = 0; i < unwind.len; i++)
			printf("%02x", unwind.eh_frame[i]);
		printf("\"}");
		free(unwind.eh_frame);
	}
	printf("}\n");
}

static void put_found(const struct jit *jit, uint64_t pc, uint64_t time)
{
	struct jit_found found;

	if (jit__find(jit, pc, time, &found)) {
		printf("{\"found\": false}\n");
		return;
	}
	printf("{\"found\": true, \"name\": ");
	if (found.name)
		put_string(found.name);
	else
		printf("null");
	printf(", \"start\": %llu, \"size\": %llu, \"source\": \"%s\", \"trampoline\": %s, \"object\": %u, "
	       "\"doubtful\": %s}\n",
	       (unsigned long long)found.start, (unsigned long long)found.size,
	       source_names[found.source],
	       found.kind == JIT_KIND_PY_TRAMPOLINE ? "true" : "false", found.object,
	       found.doubtful ? "true" : "false");
}

static uint64_t poll_ns, polls, gap_ns; /* gap: the longest without a look, which a busy machine makes longer */

static void put_counts(const struct jit *jit)
{
	printf("{\"polls\": %llu, \"poll_us\": %.3f, \"gap_ns\": %llu, \"bytes\": %zu, \"taken\": %llu, \"torn\": %llu}\n",
	       (unsigned long long)polls, polls ? (double)poll_ns / 1e3 / (double)polls : 0, (unsigned long long)gap_ns,
	       jit__bytes(jit), (unsigned long long)jit->counts.taken, (unsigned long long)jit->counts.torn);
	poll_ns = polls = 0;
}

static void feed(struct jit *jit, const char *path, int *fd, uint64_t *offset,
		 int (*to)(struct jit *jit, const void *bytes, size_t len))
{
	static char bytes[1 << 16];
	ssize_t len;

	if (!path)
		return;
	if (*fd < 0)
		*fd = open(path, O_RDONLY | O_CLOEXEC);
	while (*fd >= 0 && (len = pread(*fd, bytes, sizeof(bytes), (off_t)*offset)) > 0) {
		if (to(jit, bytes, (size_t)len))
			return;
		*offset += (uint64_t)len;
	}
}

static void command(struct jit *jit, struct host_reader *memory, const char *line)
{
	unsigned long long pc, time;
	const struct jit_object *o;

	if (sscanf(line, "find %llx %llu", &pc, &time) == 2) {
		put_found(jit, pc, time);
	} else if (!strncmp(line, "objects", 7)) {
		for (o = jit__object(jit, 0); o; o = jit__object(jit, o->id + 1))
			put_object(jit, o);
		printf("{\"end\": true}\n");
	} else if (!strncmp(line, "counts", 6)) {
		put_counts(jit);
	} else if (!strncmp(line, "poll", 4)) {
		printf("{\"poll\": %d}\n", jit__poll(jit, memory, true));
	} else if (sscanf(line, "done %llu", &time) == 1) {
		jit__done(jit, time);
		printf("{\"done\": true}\n");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct fd_reader memory = {.reader = {.read = read_fd}};
	struct pollfd input = {.fd = 0, .events = POLLIN};
	int pid = argc > 1 ? atoi(argv[1]) : 0, interval = argc > 2 ? atoi(argv[2]) : 20;
	const char *map = argc > 3 ? argv[3] : NULL, *dump = argc > 4 ? argv[4] : NULL;
	int map_fd = -1, dump_fd = -1, err = 0;
	uint64_t map_at = 0, dump_at = 0, begin, looked = 0;
	char line[256], path[64];
	struct jit *jit;

	if (pid <= 0)
		return 2;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory.fd = open(path, O_RDONLY | O_CLOEXEC);
	if (memory.fd < 0 || jit__new(NULL, &jit) || look_at_modules(jit, pid))
		return 1;
	printf("{\"ready\": true}\n");
	fflush(stdout);
	setvbuf(stdin, NULL, _IONBF, 0); /* so that poll() tells of each line */
	for (;;) {
		begin = now();
		if (err != -EFAULT)
			err = jit__poll(jit, &memory.reader, false);
		poll_ns += now() - begin;
		polls++;
		if (looked && now() - looked > gap_ns)
			gap_ns = now() - looked;
		looked = begin;
		feed(jit, map, &map_fd, &map_at, jit__perf_map);
		feed(jit, dump, &dump_fd, &dump_at, jit__jitdump);
		if (poll(&input, 1, interval) > 0) {
			if (!fgets(line, sizeof(line), stdin))
				break;
			command(jit, &memory.reader, line);
		}
	}
	jit__free(jit);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* The walker in user space, over a living process.
 *
 *   walk_user PID FSBASE...
 *
 * For each thread, which must sleep, a line "thread FSBASE N LOSS", then one for
 * each frame, innermost first: "FLAGS LINE\tNAME\tFILE". Needs the right to read
 * the target's memory. tests/live/walk_user.py compares with what the target
 * says of itself.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "broker/process.h"
#include "cprofd/host.h"

enum { STRING_MAX = 4096, TABLE_MAX = 1 << 20, ROUNDS_MAX = 2048 };
#include "seen.h"

#include "name/lines.h"
#include "name/text.h"
#include "target/process.h"

static uint64_t read_word(uint64_t address)
{
	uint64_t value = 0;

	return host_read(&value, sizeof(value), address) ? 0 : value;
}

static uint32_t read_half(uint64_t address)
{
	uint32_t value = 0;

	return host_read(&value, sizeof(value), address) ? 0 : value;
}

static void put_string(const struct py_layout *l, uint64_t string, struct buf *to)
{
	uint64_t length = read_word(string + l->unicode_length);
	uint32_t state = read_half(string + l->unicode_state);
	unsigned kind = state >> l->state_kind_shift & 7;
	bool ascii = state >> l->state_ascii_shift & 1;
	char data[STRING_MAX];
	size_t len = length * kind;

	if (length > STRING_MAX || len > STRING_MAX ||
	    host_read(data, len, string + (ascii ? l->unicode_ascii_data : l->unicode_compact_data)) ||
	    text__from_unicode(data, len, kind, ascii, to))
		buf__puts(to, "?");
}

static int line_of(const struct py_layout *l, uint64_t code, int32_t offset, uint32_t *ret)
{
	uint64_t table = read_word(code + l->code_linetable), len = read_word(table + l->var_size);
	_cleanup_free_ char *bytes = len <= TABLE_MAX ? malloc(len + 1) : NULL;
	struct position position;
	int err;

	if (!bytes || host_read(bytes, len, table + l->bytes_data))
		return -EFAULT;
	err = lines__position(l->lines, bytes, len, read_half(code + l->code_firstlineno), offset,
			      &position);
	*ret = position.line;
	return err;
}

static int tell_frame(const struct py_layout *l, const struct py_frame *frame)
{
	_cleanup_(buf__free) struct buf text = {};
	uint64_t code = seen_find(frame->code)->code;
	uint32_t line = 0;
	int err = line_of(l, code, frame->offset, &line);

	if (err)
		fprintf(stderr, "line at %d: %s\n", frame->offset, strerror(-err));
	put_string(l, read_word(code + l->code_name), &text);
	buf__puts(&text, "\t");
	put_string(l, read_word(code + l->code_filename), &text);
	if (text.failed)
		return -ENOMEM;
	printf("%u %u\t%.*s\n", frame->flags, line, (int)text.len, text.data);
	return err;
}

/* Walks until every code object was met: as the sampler, which captures them on the way. */
static int walk_thread(const struct image *image, uint64_t thread_pointer)
{
	static struct py_walk walk;
	static struct py_out out;
	unsigned round;
	uint32_t i;
	int err = 0;

	walk.thread_pointer = thread_pointer;
	walk.hint = 0;
	walk.hint_until = 0;
	for (round = 0; round < ROUNDS_MAX; round++) {
		py_walk(&walk, image, &out);
		if (!walk.n_todo)
			break;
		for (i = 0; i < walk.n_todo; i++)
			*seen_find(walk.todo[i].key) = (struct seen){walk.todo[i].key, walk.todo[i].code};
		walk.now += PY_PROOF_NS / 2;
		walk.hint = walk.tstates[0].address;
	}
	printf("thread %" PRIu64 " %u %u\n", thread_pointer, walk.n, walk.loss);
	for (i = 0; i < walk.n; i++) {
		int failed = tell_frame(&image->layout, &out.frames[i]);

		err = err ? err : failed;
	}
	return walk.n_todo ? -ELOOP : err;
}

int main(int argc, char **argv)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	struct target_process process;
	struct target_problem problem = {};
	struct process_stat stat;
	struct image_key key;
	struct image image;
	char version[32];
	pid_t pid;
	int i, err;

	if (argc < 3)
		return 2;
	pid = atoi(argv[1]);
	err = process__open(pid, &fds, &stat);
	if (err) {
		fprintf(stderr, "process %d: %s\n", pid, strerror(-err));
		return 1;
	}
	key = (struct image_key){.arg_start = stat.arg_start, .start_data = stat.start_data};
	err = target_process__init(&process, pid, fds.mem, fds.maps, key);
	if (!err)
		err = target__identify(&process, &image, &key, version, &problem);
	if (err) {
		fprintf(stderr, "%s: %s\n", target_problem__sentence(problem.kind), problem.detail);
		return 1;
	}
	host_reader_current = &process.reader;
	for (i = 2; i < argc && !err; i++)
		err = walk_thread(&image, strtoull(argv[i], NULL, 0));
	target_process__free(&process);
	process__close(&fds);
	if (err)
		fprintf(stderr, "%s: %s\n", argv[i - 1], strerror(-err));
	return err ? 1 : 0;
}

/* SPDX-License-Identifier: MIT */
/* Files that JIT compilers write for perf, read as they grow:
 *
 *    /tmp/perf-PID.map   lines "7f3a10 40 name\n" (start and size in hex): only the broker can open it
 *    jit-PID.dump        binary records with code and unwind information; the process maps a page of it executable, so
 *                        that perf notices it: hence it is among the mappings here
 *
 * They are read at each tick, before samples ask. A file that became shorter, or has other bytes before the point where
 * reading stopped, was written anew. Both may lie on a file system that does not answer, so a thread of its own reads
 * (tail.c).
 *
 * How much is read is bounded: BYTES_TICK in a tick, and for the session BYTES_BURST at first, then BYTES_SECOND. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/blocking.h"
#include "modules/internal.h"

#define BYTES_BURST (16 << 20)
#define BYTES_SECOND (4u << 20)
#define BYTES_TICK (2u << 20)
/* Of a longer perf map the end is read: more would not be kept. */
#define MAP_BYTES ((uint64_t)JIT_BYTES_MAX)
/* Period at which a file that seems unchanged is read nevertheless. */
#define CLOSER_NS (1000 * MS)
/* Pause between two requests for the perf map while samples have code that no file names; doubles. */
#define PAUSE_FIRST (100 * MS)
#define PAUSE_LAST (10000 * MS)

struct jit *jit_files__jit(struct modules_process *process)
{
	if (!process->jit && !jit__new(NULL, &process->jit))
		jit__set_origin(process->jit, (uint32_t)process->id);
	return process->jit;
}

/* --- reading --- */

/* A token bucket: BYTES_SECOND flow in, BYTES_BURST is its size. */
static void refill(struct modules *modules, uint64_t now)
{
	uint64_t more = modules->bytes_at ? (now - modules->bytes_at) / 1000 * BYTES_SECOND / 1000000 : BYTES_BURST;

	if (more > BYTES_BURST)
		more = BYTES_BURST;
	if (modules->bytes_at && !more)
		return;
	modules->bytes_at = now;
	modules->bytes_left += (int64_t)more;
	if (modules->bytes_left > BYTES_BURST)
		modules->bytes_left = BYTES_BURST;
}

/* Objects that are known stay: they tell what was there before. */
static void restart(struct modules_process *process, struct jit_file *file)
{
	file->offset = file->n_last = 0;
	file->midline = false;
	if (file == &process->files->map)
		jit__perf_map_restart(process->jit);
	else
		jit__jitdump_restart(process->jit);
}

/* Keeps the last bytes for is_another(). `midline`: reading began within a line, whose rest is skipped. */
static int give_map(struct modules_process *process, struct jit_file *file, const char *bytes, size_t n)
{
	const char *line = bytes;
	size_t kept = n < sizeof(file->last) ? n : sizeof(file->last);

	memcpy(file->last, bytes + n - kept, kept);
	file->n_last = (uint32_t)kept;
	if (file->midline) {
		line = memchr(bytes, '\n', n);
		file->midline = !line;
		line = line ? line + 1 : bytes + n;
	}
	return jit__perf_map(process->jit, line, n - (size_t)(line - bytes));
}

/* Was it truncated or replaced? Then nothing of the piece is of use. */
static bool is_another(const struct jit_file *file, const struct tail_piece *piece)
{
	return piece->size < file->offset || piece->n < file->n_last ||
	       (file->n_last && memcmp(piece->bytes, file->last, file->n_last));
}

/* Reads one piece, which begins n_last bytes before the offset so that they can be compared. 0: the end was reached; 1:
 * there may be more; -errno. Machine code in a jitdump is skipped without reading it. */
static int read_piece(struct modules *modules, struct modules_process *process, struct jit_file *file, bool *ret_changed)
{
	bool map = file == &process->files->map;
	struct tail_piece piece;
	size_t n;
	int err = tail__read(modules->tail, file->id, file->fd, file->offset - file->n_last, &piece);

	if (err)
		return err;
	if (file->offset && is_another(file, &piece)) {
		restart(process, file);
		return 1;
	}
	if (map && !file->offset && piece.size > MAP_BYTES) {
		file->offset = piece.size - MAP_BYTES;
		file->midline = true;
		return 1;
	}
	n = piece.n - file->n_last;
	piece.bytes += file->n_last;
	if (n)
		err = map ? give_map(process, file, piece.bytes, n) : jit__jitdump(process->jit, piece.bytes, n);
	if (err)
		return err;
	*ret_changed |= n;
	file->offset += n;
	modules->bytes_left -= (int64_t)n;
	modules->counts.file_bytes += n;
	if (!map && file->offset < piece.size)
		file->offset += jit__jitdump_skip(process->jit, piece.size - file->offset);
	if (file->offset < piece.size && n)
		return 1;
	jit__file_ended(process->jit, map ? JIT_SOURCE_PERF_MAP : JIT_SOURCE_JITDUMP, piece.begun);
	file->ended = piece.begun;
	file->removed = !piece.links;
	return 0;
}

static void drop(struct jit_file *file)
{
	if (file->fd >= 0 && file->owned)
		blocking__close(file->fd);
	*file = (struct jit_file){.fd = -1, .id = file->id, .ended = file->ended};
}

/* Of its size and last change, as far as is known without asking its file system, which may not answer. 0: not
 * known. */
static uint64_t stamp_of(int fd)
{
	struct statx now;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE | STATX_MTIME | STATX_NLINK, &now))
		return 0;
	return ((now.stx_size * 0x9e3779b97f4a7c15ull ^ (uint64_t)now.stx_mtime.tv_sec) * 0x100000001b3ull ^ now.stx_mtime.tv_nsec ^
		(uint64_t)!now.stx_nlink << 40) | 1;
}

/* Most often nothing was written since: the same size and time of change. Times have a coarse clock and network file
 * systems cache them, so each CLOSER_NS it is read nevertheless. */
static bool is_quiet(struct modules_process *process, struct jit_file *file)
{
	uint64_t begun = modules__clock();

	if (file->behind || !file->stamp || begun >= file->read_at + CLOSER_NS || stamp_of(file->fd) != file->stamp)
		return false;
	jit__file_ended(process->jit, file == &process->files->map ? JIT_SOURCE_PERF_MAP : JIT_SOURCE_JITDUMP, begun);
	file->ended = begun;
	return true;
}

static bool read_on(struct modules *modules, struct modules_process *process, struct jit_file *file, uint64_t *left)
{
	uint64_t before = modules->counts.file_bytes;
	unsigned pieces = BYTES_TICK / TAIL_PIECE + 4;
	bool news = false;
	uint64_t stamp;
	int more = 1;

	if (file->fd < 0 || !jit_files__jit(process))
		return false;
	if (is_quiet(process, file) || (!modules->tail && tail__new(&modules->tail)))
		return false;
	stamp = stamp_of(file->fd);
	file->read_at = modules__clock();
	while (more == 1 && *left > modules->counts.file_bytes - before && modules->bytes_left > 0 && pieces--)
		more = read_piece(modules, process, file, &news);
	*left -= modules->counts.file_bytes - before < *left ? modules->counts.file_bytes - before : *left;
	file->behind = more == 1 || more == -EAGAIN;
	file->stamp = stamp; /* from before the reading: what was written meanwhile is read next time */
	if (more < 0 && more != -EAGAIN) { /* of a jitdump that goes no further */
		if (file->owned)
			blocking__close(file->fd);
		file->fd = -1;
	}
	return news;
}

/* --- finding --- */

/* Code that no file holds: only then is there a JIT compiler, and the broker is asked for its files. */
static bool has_code(const struct modules_process *process)
{
	for (uint32_t i = 0; i < process->n; i++)
		if (!process->code[i].file || process->code[i].file->jitdump || files__is_memory(process->code[i].file))
			return true;
	return false;
}

static bool is_due(const struct jit_files *files, uint64_t now)
{
	return !files->asked && (!files->asked_at || ((files->map.removed || files->wanted) &&
						      now >= files->asked_at + files->pause));
}

/* Asks the broker for the perf map, with growing pauses while there is none. One question at a time in the whole
 * session. */
static void ask(struct modules *modules, struct modules_process *process, uint64_t now)
{
	struct jit_files *files = process->files;

	if (modules->map_asked || !is_due(files, now))
		return;
	files->pause = !files->pause ? PAUSE_FIRST : files->pause < PAUSE_LAST ? files->pause * 2 : PAUSE_LAST;
	files->asked_at = now;
	files->asked = true;
	files->wanted = false;
	modules->map_asked = process->id;
	if (modules->host->open_perf_map(modules->host, process->pid)) {
		files->asked = false;
		modules->map_asked = 0;
	}
}

/* The same file opened again is closed; another one begins anew. */
static void take_map(struct modules *modules, struct modules_process *process, int fd)
{
	struct jit_file *map = &process->files->map, fresh = {.fd = fd, .id = ++modules->last_jit_file, .owned = true, .behind = true};
	struct statx id;

	/* AT_STATX_DONT_SYNC: its file system, which may not answer, is left alone. */
	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &id)) {
		blocking__close(fd);
		return;
	}
	fresh.device = (uint64_t)id.stx_dev_major << 32 | id.stx_dev_minor;
	fresh.inode = id.stx_ino;
	if (map->fd >= 0 && map->device == fresh.device && map->inode == fresh.inode) {
		blocking__close(fd);
		return;
	}
	if (process->jit)
		jit__perf_map_restart(process->jit);
	drop(map);
	*map = fresh;
	process->files->pause = 0;
	process->files->wanted = false;
	process->files->asked_at = modules__clock();
}

void modules__perf_map(struct modules *modules, int fd, int32_t own)
{
	struct modules_process *process = modules->processes;

	while (process && process->id != modules->map_asked)
		process = process->next;
	modules->map_asked = 0;
	if (process && process->files) {
		process->files->asked = false;
		if (own > 0)
			process->files->own = own;
		/* Who keeps answers asks again for code that nothing names, so that it is missed again. */
		modules->answers++;
	}
	if (fd >= 0 && process && process->files && !process->closed)
		take_map(modules, process, fd);
	else if (fd >= 0)
		blocking__close(fd);
}

/* The jitdump that it writes itself: one that a parent wrote is mapped in a forked child, too. */
static void find_dump(struct modules *modules, struct modules_process *process)
{
	struct jit_file *dump = &process->files->dump;
	const struct file *found = NULL;

	for (uint32_t i = 0; process->files->own && i < process->n; i++) {
		const struct file *file = process->code[i].file;

		if (file && file->jitdump == process->files->own && file->fd >= 0 && (!found || file->seen.id > found->seen.id))
			found = file; /* a former one may be mapped still */
	}
	if (!found || (dump->inode == found->inode && dump->device == found->seen.id))
		return;
	if (process->jit)
		jit__jitdump_restart(process->jit);
	*dump = (struct jit_file){.fd = found->fd,
				  .id = ++modules->last_jit_file,
				  .device = found->seen.id,
				  .inode = found->inode,
				  .behind = true};
}

void jit_files__scan(struct modules *modules, struct modules_process *process, uint64_t now)
{
	if (!process->files && has_code(process)) {
		process->files = calloc(1, sizeof(*process->files));
		if (process->files)
			process->files->map.fd = process->files->dump.fd = -1;
	}
	if (!process->files)
		return;
	ask(modules, process, now);
	find_dump(modules, process);
}

/* What was written later than that was not read yet. */
static uint64_t known_since(const struct jit_files *files)
{
	uint64_t map = files->map.fd < 0 ? UINT64_MAX : files->map.ended, dump = files->dump.fd < 0 ? UINT64_MAX : files->dump.ended;

	return map < dump ? map : dump;
}

bool jit_files__poll(struct modules *modules, struct modules_process *process, uint64_t now)
{
	struct jit_files *files = process->files;
	uint64_t left = BYTES_TICK, since;
	bool news;

	if (!files)
		return false;
	refill(modules, now);
	since = known_since(files);
	news = read_on(modules, process, &files->map, &left);
	news |= read_on(modules, process, &files->dump, &left);
	if (files->map.removed) /* another one may have its name */
		ask(modules, process, now);
	if (files->dump.removed && files->dump.fd >= 0) {
		process->poll_soon = true;
		files->dump.fd = -1; /* all was read; it is closed with its mapping */
	}
	if (!news)
		return false;
	files->news = modules__clock();
	jit_tables__replaced(process, since);
	jit_tables__prepare(modules, process);
	return true;
}

bool jit_files__current(const struct modules_process *process)
{
	const struct jit_files *files = process->files;

	return !files || !((files->map.fd >= 0 && files->map.behind) || (files->dump.fd >= 0 && files->dump.behind));
}

bool jit_files__known(const struct modules_process *process, enum jit_source source, uint64_t time)
{
	const struct jit_file *file = !process->files		      ? NULL
				      : source == JIT_SOURCE_PERF_MAP ? &process->files->map
								      : &process->files->dump;

	return !file || !file->id || time <= file->ended;
}

bool jit_files__awaited(const struct modules_process *process)
{
	return process->files && process->files->asked;
}

void jit_files__miss(const struct modules_process *process)
{
	if (process->files)
		process->files->wanted = true;
}

void jit_files__close(struct modules_process *process)
{
	if (!process->files)
		return;
	drop(&process->files->map);
	drop(&process->files->dump);
}

void jit_files__free(struct modules *modules, struct modules_process *process, uint64_t now)
{
	if (!process->files)
		return;
	jit_files__close(process);
	jit_tables__free(modules, process, now);
	free(process->files);
	process->files = NULL;
}

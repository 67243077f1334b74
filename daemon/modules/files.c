/* SPDX-License-Identifier: MIT */
/* Files: one for each that somebody maps code of, from its first mapping to its table in a pool.
 *
 *    files__get()     a mapping of a file that is new             FILE_NEW
 *    files__ask()     the broker is asked for it, one at a time   FILE_ASKED
 *    modules__file()  its descriptor came; a worker reads it      FILE_DONE, MODULE_WAITS
 *    files__done()    its segments and its table are here         MODULE_READY, or MODULE_BARE: it has no table
 *
 * Most files that a process maps are never on a stack. So the table of a file is made when a walk stops in it; until
 * then it is MODULE_LATER. Files that every stack goes through have theirs at once (is_common).
 *
 * A file is known by device and inode while it is open, since a file that is open keeps its inode. One that is written
 * to meanwhile is another file. */
#include <errno.h>
#include <string.h>

#include "base/blocking.h"
#include "base/cleanup.h"
#include "modules/internal.h"

#define TRIES 3u
/* Bytes of the vDSO, which has some pages. */
#define IMAGE_MAX (64u << 10)
/* Of a file: so often, and so long, is code followed that walks stopped in. */
#define FOLLOWS_MAX 256u
#define FOLLOW_NS (3000 * MS)
#define KEPT_BYTES (1u << 20) /* a larger table is not stored each time */

/* As /proc/PID/maps names it. */
static const char vdso[] = "[vdso]";

static bool is_vdso(const struct mapping *mapping)
{
	return mapping->path_len == sizeof(vdso) - 1 &&
	       !memcmp(mapping->path, vdso, sizeof(vdso) - 1);
}

/* Was it written to since? A compiler or package manager may write a file anew in place: then mappings of before have
 * other code than the file. */
static bool changed(const struct file *file)
{
	struct stat stat;

	return file->fd >= 0 && !blocking__fstat(file->fd, &stat) &&
	       (stat.st_size != file->size || stat.st_mtim.tv_sec != file->mtime_s ||
		stat.st_mtim.tv_nsec != file->mtime_ns);
}

/* perf's convention: jit-PID.dump. */
static int32_t jitdump_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	int32_t pid;
	int end = 0;

	return slash && sscanf(slash, "/jit-%10d.dump%n", &pid, &end) == 1 && end && pid > 0 && !slash[end] ? pid : 0;
}

/* Only known once a worker has read the file: an ELF file may lie in /dev/shm, too. */
bool files__is_memory(const struct file *file)
{
	static const char *const names[] = {"/memfd:", "/dev/zero", "/SYSV", "/dev/shm/"};
	bool memory = false;

	if (file->seen.state == MODULE_WAITS || file->segments.n || file->image)
		return false;
	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		memory |= !strncmp(file->seen.path, names[i], strlen(names[i]));
	return memory;
}

/* NULL: MODULES_MAX of them, or no memory. Ids are positions in modules->files + 1; files stay for the whole
 * session. */
static struct file *add(struct modules *modules, const struct mapping *mapping)
{
	struct file *file, **files;

	if (modules->n_files == MODULES_MAX)
		return NULL;
	files = reallocarray(modules->files, modules->n_files + 1, sizeof(*files));
	if (!files)
		return NULL;
	modules->files = files;
	file = calloc(1, sizeof(*file));
	if (!file)
		return NULL;
	file->seen.path = strndup(mapping->path, mapping->path_len);
	if (!file->seen.path) {
		free(file);
		return NULL;
	}
	file->seen.id = ++modules->n_files;
	file->fd = -1;
	file->jitdump = jitdump_of(file->seen.path);
	if (file->jitdump) /* its code lies elsewhere */
		file->seen.state = MODULE_BARE;
	file->major = mapping->major;
	file->minor = mapping->minor;
	file->inode = mapping->inode;
	files[file->seen.id - 1] = file;
	return file;
}

/* Does every stack go through it? The first file is the program. */
static bool is_common(const struct file *file)
{
	const char *name = basename(file->seen.path);

	return file->seen.id == 1 || file->image || !strncmp(name, "libc.", 5) ||
	       !strncmp(name, "libc-", 5) || !strncmp(name, "ld-", 3) || !strncmp(name, "libpython", 9);
}

/* In which order files get their tables: see enum job_rank. */
static enum job_rank rank_of(const struct modules *modules, const struct file *file)
{
	return file->urgent ? JOB_WANTED : is_common(file) ? JOB_COMMON : JOB_OTHER;
}

/* The job is the worker's, or gone. Also copies an image in memory, as the job may outlive it. */
static int hand_over(struct modules *modules, const struct file *file, struct job *job)
{
	int err = 0;

	if (file->image) {
		job->bytes = malloc(file->image_size);
		job->size = file->image_size;
		if (job->bytes)
			memcpy(job->bytes, file->image, file->image_size);
		else
			err = -ENOMEM;
	}
	err = err ?: worker__give(modules->worker, job);
	if (err)
		job__free(job);
	return err;
}

/* An open file, or an image in memory, goes to a worker. */
static void give(struct modules *modules, struct file *file)
{
	bool read = file->seen.state == MODULE_LATER, tables = modules->tables && (file->urgent || is_common(file));
	struct job *job = calloc(1, sizeof(*job));

	file->state = FILE_DONE;
	if (!job || file->jitdump) {
		free(job);
		return;
	}
	*job = (struct job){.fd = file->fd,
			    .tables = tables,
			    .descriptor = !file->image && !read,
			    .to_pool = !file->image && tables,
			    .rank = rank_of(modules, file),
			    .size = (uint64_t)file->size,
			    .module = file->seen.id};
	hand_over(modules, file, job);
}

/* Before it is open: the broker is asked for it next. Before its job is done: that is moved to the front. */
void files__want(struct modules *modules, struct file *file)
{
	if (file->urgent || !file__is_pending(file))
		return;
	file->urgent = true;
	if (file->seen.state == MODULE_LATER)
		give(modules, file);
	else if (file->state == FILE_NEW)
		modules->hot = file;
	else
		worker__hurry(modules->worker, file->seen.id);
}

/* --- code that is followed when a walk stops in it --- */

/* Has a worker follow the code around `vaddrs`, and make another table from the one that there is. */
static void follow(struct modules *modules, struct file *file)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return;
	file->follows++;
	*job = (struct job){.fd = file->fd,
			    .rank = JOB_WANTED,
			    .size = file->table.size,
			    .module = file->seen.id,
			    .before = file->table.at,
			    .n_vaddrs = file->n_vaddrs,
			    .last = file->follows >= FOLLOWS_MAX || file->follow_ns > FOLLOW_NS,
			    .keeps = file->table.size <= KEPT_BYTES || !(file->follows & (file->follows - 1))};
	memcpy(job->vaddrs, file->vaddrs, sizeof(job->vaddrs));
	file->n_vaddrs = 0;
	file->following = !hand_over(modules, file, job);
}

/* Keeps the addresses in order, each once. While a job runs, they are gathered for the next (files__tick()). */
void files__follow(struct modules *modules, struct file *file, uint64_t vaddr)
{
	uint32_t i = file->n_vaddrs;

	if (file->seen.state != MODULE_READY || !file->table.at || file->followed ||
	    file->n_vaddrs == UNWIND_VADDRS_MAX)
		return;
	while (i && file->vaddrs[i - 1] > vaddr)
		i--;
	if (i && file->vaddrs[i - 1] == vaddr)
		return;
	memmove(&file->vaddrs[i + 1], &file->vaddrs[i], (file->n_vaddrs - i) * sizeof(vaddr));
	file->vaddrs[i] = vaddr;
	file->n_vaddrs++;
	modules->follows = true;
	if (!file->following)
		follow(modules, file);
}

void files__tick(struct modules *modules)
{
	if (!modules->follows)
		return;
	modules->follows = false;
	for (uint32_t i = 0; i < modules->n_files; i++) {
		modules->follows |= modules->files[i]->following;
		if (modules->files[i]->n_vaddrs && !modules->files[i]->following)
			follow(modules, modules->files[i]);
	}
}

/* Takes the new table. The old one is retired: walks that began before may still use it. */
static int followed(struct modules *modules, struct file *file, struct job *job)
{
	struct pool_table table = {};

	if (job->table && !room__table(modules, job, &table))
		return -EAGAIN;
	file->following = false;
	file->follow_ns += job->ns;
	file->followed |= job->last || !table.at;
	if (!table.at)
		return 0;
	room__retire(modules, file->table.pool, file->table.at, file->table.size, modules->now);
	modules->counts.table_bytes -= file->table.size;
	file->table = table;
	processes__dirty(modules);
	return 0;
}

/* The vDSO is no file: its image is copied from the process's memory. All processes of a kernel have the same one or
 * two, so they are compared by their bytes. */
static struct file *get_vdso(struct modules *modules, struct modules_process *process,
			     const struct mapping *mapping)
{
	size_t size = mapping->end - mapping->start;
	_cleanup_free_ char *image = NULL;
	struct file *file;

	if (size > IMAGE_MAX)
		return NULL;
	image = malloc(size);
	if (!image || process->mem.reader.read(&process->mem.reader, image, size, mapping->start))
		return NULL;
	for (uint32_t i = 0; i < modules->n_files; i++) {
		file = modules->files[i];
		if (file->image && file->image_size == size && !memcmp(file->image, image, size))
			return file;
	}
	file = add(modules, mapping);
	if (!file)
		return NULL;
	file->image = take_ptr(image);
	file->image_size = size;
	give(modules, file);
	return file;
}

struct file *files__get(struct modules *modules, struct modules_process *process,
			const struct mapping *mapping)
{
	struct file *file;
	uint32_t i;

	if (is_vdso(mapping))
		return get_vdso(modules, process, mapping);
	/* Anonymous memory, the heap, a stack: code there is a JIT's. */
	if (!mapping->inode)
		return NULL;
	for (i = modules->n_files; i > 0;
	     i--) { /* the newest first: an older one may have changed */
		file = modules->files[i - 1];
		if (file->inode == mapping->inode && file->major == mapping->major &&
		    file->minor == mapping->minor && !file->image)
			break;
	}
	if (!i || changed(file))
		file = add(modules, mapping);
	if (file && file->state == FILE_NEW) {
		file->pid = process->pid;
		file->start = mapping->start;
		file->end = mapping->end;
	}
	return file;
}

static bool is_askable(const struct file *file)
{
	return file && file->state == FILE_NEW && file->failed < TRIES && file->pid;
}

/* What a walk waits for; then the program; then those that were seen last, which are those at the top of memory: the
 * loader and libc, and on to what was loaded last. */
static struct file *next_file(const struct modules *modules)
{
	if (is_askable(modules->hot))
		return modules->hot;
	if (modules->n_files && is_askable(modules->files[0]))
		return modules->files[0];
	for (uint32_t i = modules->n_files; i > 0; i--)
		if (is_askable(modules->files[i - 1]))
			return modules->files[i - 1];
	return NULL;
}

void files__ask(struct modules *modules)
{
	struct file *file;

	while (!modules->asked && (file = next_file(modules))) {
		file->state = FILE_ASKED;
		modules->asked = file;
		if (modules->host->open_file(modules->host, file->pid, file->start, file->end)) {
			modules->asked = NULL;
			file->state = FILE_NEW;
			file->failed++;
			return;
		}
	}
}

static bool is_another(const struct modules *modules, uint64_t inode)
{
	for (uint32_t i = 0; i < modules->n_files; i++)
		if (modules->files[i]->inode == inode)
			return true;
	return false;
}

/* An answer to files__ask(). The descriptor is checked against the mapping: between the question and the opening, the
 * process may have mapped another file at that place. */
void modules__file(struct modules *modules, int fd)
{
	struct file *file = modules->asked;
	struct stat stat;

	modules->asked = NULL;
	if (!file) {
		if (fd >= 0)
			blocking__close(fd);
		return;
	}
	if (fd >= 0 && !blocking__fstat(fd, &stat) && stat.st_ino != file->inode &&
	    (is_another(modules, stat.st_ino) || !processes__maps(modules, file))) {
		/* Another took its place while it was opened. */
		blocking__close(fd);
		file->state = FILE_NEW;
		file->pid = 0;
	} else if (fd < 0 || blocking__fstat(fd, &stat)) {
		if (fd >= 0)
			blocking__close(fd);
		/* The next process that maps it, or the next reading of this one's mappings, tries again. */
		file->state = FILE_NEW;
		file->pid = 0;
		if (++file->failed == TRIES) {
			file->seen.state = MODULE_BARE;
			processes__dirty(modules);
		}
	} else {
		file->fd = fd;
		file->size = stat.st_size;
		file->mtime_s = stat.st_mtim.tv_sec;
		file->mtime_ns = stat.st_mtim.tv_nsec;
		give(modules, file);
	}
	files__ask(modules);
}

static enum module_state state_of(const struct modules *modules, const struct file *file, const struct job *job)
{
	if (file->table.at || !modules->tables)
		return MODULE_READY;
	return job->tables || job->error ? MODULE_BARE : MODULE_LATER;
}

int files__done(struct modules *modules, struct job *job)
{
	struct file *file = modules->files[job->module - 1];
	int err;

	if (job->before)
		return followed(modules, file, job);
	job->rank = rank_of(modules, file);
	err = job->to_pool && job->wanted ? room__give(modules, job) : 0;
	if (err)
		return err;
	room__unused(modules, job);
	if (job->table && !room__table(modules, job, &file->table))
		return -EAGAIN;
	file->segments = job->segments;
	if (job->descriptor)
		file->descriptor_at = job->descriptor_at;
	file->seen.build_id_size = job->identity.build_id_size;
	memcpy(file->seen.build_id, job->identity.build_id, sizeof(file->seen.build_id));
	file->seen.state = state_of(modules, file, job);
	if (file->seen.state == MODULE_LATER && file->urgent) /* since the job began */
		give(modules, file);
	processes__dirty(modules);
	modules->answers++;
	return 0;
}

void files__free(struct modules *modules)
{
	for (uint32_t i = 0; i < modules->n_files; i++) {
		struct file *file = modules->files[i];

		if (file->fd >= 0)
			close(file->fd);
		free(file->image);
		free(file->seen.path);
		free(file);
	}
	free(modules->files);
}

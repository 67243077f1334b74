/* SPDX-License-Identifier: MIT */
/* weave_live PID STOPS MICROSECONDS INTERPRETER: stops a living Python by ptrace, STOPS times, and
 * prints the woven stack of its first thread: native frames from libunwind, Python frames from the
 * walker in user space. INTERPRETER: the file that has the eval loop.
 *
 * For each stop a line "stop PYTHON-LOSS NATIVE-CUT WEAVE-LOSS GUESS LOOPS", then, outermost first,
 * "P NAME", "N FILE SYMBOL" (SYMBOL may be "?"), "X KIND". */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libunwind-ptrace.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "broker/process.h"
#include "cprofd/host.h"

enum { STRING_MAX = 4096, ROUNDS_MAX = 2048, FILES_MAX = 64, DEPTH_MAX = 512 };
#include "seen.h"

#include "modules/segments.h"
#include "name/text.h"
#include "target/process.h"
#include "weave/eval_ranges.h"

/* --- Python --- */

static struct py_walk walk;
static struct py_out out;

static void walk_python(const struct image *image, const struct user_regs_struct *regs)
{
	const uint64_t values[16] = {regs->rax, regs->rbx, regs->rcx, regs->rdx,
				     regs->rsi, regs->rdi, regs->rbp, regs->rsp,
				     regs->r8,	regs->r9,  regs->r10, regs->r11,
				     regs->r12, regs->r13, regs->r14, regs->r15};
	unsigned round;
	uint32_t i;

	walk.thread_pointer = regs->fs_base;
	walk.hint = walk.hint_until = 0;
	walk.repairs = 1;
	memcpy(walk.registers, values, sizeof(values));
	for (round = 0; round < ROUNDS_MAX; round++) {
		walk.now += PY_PROOF_NS / 2;
		py_walk(&walk, image, &out);
		if (walk.loss && walk.n <= 1)
			py_walk_repair(&walk, image, &out);
		if (!walk.n_todo)
			break;
		for (i = 0; i < walk.n_todo; i++)
			*seen_find(walk.todo[i].key) =
				(struct seen){walk.todo[i].key, walk.todo[i].code};
	}
}

static void print_python(const struct py_layout *l, uint64_t key)
{
	_cleanup_(buf__free) struct buf text = {};
	uint64_t string = 0, length = 0;
	uint32_t state = 0;
	char data[STRING_MAX];
	unsigned kind;
	bool ascii;

	host_read(&string, 8, seen_find(key)->code + l->code_name);
	host_read(&length, 8, string + l->unicode_length);
	host_read(&state, 4, string + l->unicode_state);
	kind = state >> l->state_kind_shift & 7;
	ascii = state >> l->state_ascii_shift & 1;
	if (length * kind > sizeof(data) ||
	    host_read(data, length * kind,
		      string + (ascii ? l->unicode_ascii_data : l->unicode_compact_data)) ||
	    text__from_unicode(data, length * kind, kind, ascii, &text))
		buf__puts(&text, "?");
	printf("P %.*s\n", (int)text.len, text.data);
}

/* --- native --- */

static struct module {
	char path[512];
	struct symbol_file *symbols;
	struct segments segments;
} modules[FILES_MAX];

static struct eval_ranges ranges;
static const char *interpreter;

static int open_file(void *context, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}
static const struct symbol_opener opener = {.open = open_file};

static struct module *module_of(const char *path)
{
	struct module *module = modules;
	struct elf_bytes bytes;
	int fd;

	while (module < modules + FILES_MAX - 1 && module->path[0] && strcmp(module->path, path))
		module++;
	if (module->path[0])
		return module;
	snprintf(module->path, sizeof(module->path), "%s", path);
	fd = open_file(NULL, path);
	if (fd >= 0 && !elf_bytes__init_fd(&bytes, fd))
		segments__read(&bytes, &module->segments);
	if (fd >= 0 && symbol_file__open(fd, path, &opener, &module->symbols))
		close(fd);
	return module;
}

struct found {
	char name[256];
	const char *file;
	enum frame_role role;
};

static void find_native(pid_t pid, uint64_t address, struct found *ret)
{
	_cleanup_fclose_ FILE *maps = NULL;
	struct symbol symbol = {};
	struct module *module;
	uint64_t start, end, offset, bias, vaddr;
	char line[1024], path[512];

	*ret = (struct found){.name = "?", .file = "?"};
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		path[0] = '\0';
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %*s %*s %511s", &start,
			   &end, &offset, path) < 3 ||
		    address < start || address >= end || path[0] != '/')
			continue;
		module = module_of(path);
		ret->file = strrchr(module->path, '/') + 1;
		if (!module->symbols ||
		    segments__bias(&module->segments, offset, start, &bias))
			return;
		vaddr = address - bias;
		if (!symbol_file__find(module->symbols, vaddr, &symbol))
			snprintf(ret->name, sizeof(ret->name), "%s", symbol.name.data);
		if (!strcmp(path, interpreter)) {
			ret->role = eval_ranges__role(&ranges, vaddr, NULL);
			if (ret->role == WEAVE_CODE)
				ret->role = frame_role__of(ret->name[0] == '?' ? NULL : ret->name);
			if (ret->role == WEAVE_EVAL)
				strcpy(ret->name, "_PyEval_EvalFrameDefault");
		}
		symbol__free(&symbol);
		return;
	}
}

static struct found natives[DEPTH_MAX];
static uint8_t roles[DEPTH_MAX];

static uint32_t walk_native(unw_addr_space_t space, void *upt, pid_t pid, bool *ret_whole)
{
	unw_cursor_t cursor;
	unw_word_t pc;
	uint32_t n = 0;
	int more = 1;

	*ret_whole = false;
	if (unw_init_remote(&cursor, space, upt))
		return 0;
	for (; more > 0 && n < DEPTH_MAX; more = unw_step(&cursor)) {
		if (unw_get_reg(&cursor, UNW_REG_IP, &pc) || !pc)
			break;
		find_native(pid, n ? pc - 1 : pc, &natives[n]);
		roles[n] = (uint8_t)natives[n].role;
		n++;
	}
	*ret_whole = n && !strcmp(natives[n - 1].name, "_start");
	return n;
}

/* --- */

static void print_stop(const struct image *image, uint32_t n, bool native_whole)
{
	static struct weave_item items[DEPTH_MAX + RECORD_PY_FRAMES_MAX + WEAVE_ITEMS_MORE];
	const struct weave_input in = {.python = out.frames,
				       .n_python = walk.n,
				       .python_whole = !walk.loss,
				       .native = roles,
				       .n_native = n,
				       .native_whole = native_whole,
				       .eval_known = ranges.n > 0};
	struct weave_result woven;
	uint32_t i, loops = 0;

	weave(&in, items, &woven);
	for (i = 0; i < n; i++)
		loops += roles[i] == WEAVE_EVAL;
	printf("stop %u %d %u %d %u\n", walk.loss, !native_whole, woven.loss, woven.guess, loops);
	for (i = woven.n; i--;) {
		if (items[i].kind == WEAVE_PYTHON)
			print_python(&image->layout, out.frames[items[i].index].code);
		else if (items[i].kind == WEAVE_NATIVE)
			printf("N %s %s\n", natives[items[i].index].file,
			       natives[items[i].index].name);
		else
			printf("X %u\n", items[i].kind);
	}
}

static int run(pid_t pid, unsigned stops, unsigned interval, const struct image *image)
{
	unw_addr_space_t space = unw_create_addr_space(&_UPT_accessors, 0);
	void *upt = _UPT_create(pid);
	struct user_regs_struct regs;
	bool whole = false;
	uint32_t n;
	int status;

	unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
	if (!upt || ptrace(PTRACE_SEIZE, pid, 0, 0))
		return 1;
	for (; stops; stops--) {
		usleep(interval + (unsigned)random() % (interval + 1));
		if (ptrace(PTRACE_INTERRUPT, pid, 0, 0) || waitpid(pid, &status, __WALL) != pid ||
		    !WIFSTOPPED(status) || ptrace(PTRACE_GETREGS, pid, 0, &regs))
			return 1;
		walk_python(image, &regs);
		n = walk_native(space, upt, pid, &whole);
		print_stop(image, n, whole);
		ptrace(PTRACE_CONT, pid, 0, 0);
	}
	_UPT_destroy(upt);
	unw_destroy_addr_space(space);
	return 0;
}

int main(int argc, char **argv)
{
	struct process_fds fds = PROCESS_FDS_NONE;
	struct target_process process;
	struct target_problem problem = {};
	struct process_stat stat;
	struct image_key key;
	struct image image;
	struct module *module;
	struct elf_bytes file;
	char version[32];
	int err, fd;

	if (argc < 5)
		return 2;
	interpreter = argv[4];
	module = module_of(interpreter);
	fd = open_file(NULL, interpreter);
	if (!module->symbols || elf_bytes__init_fd(&file, fd) ||
	    eval_ranges__find(&file, module->symbols, &ranges)) {
		fprintf(stderr, "%s: no eval loop\n", interpreter);
		return 1;
	}
	err = process__open(atoi(argv[1]), &fds, &stat);
	if (err)
		return 1;
	key = (struct image_key){.arg_start = stat.arg_start, .start_data = stat.start_data};
	err = target_process__init(&process, atoi(argv[1]), fds.mem, fds.maps, key);
	if (!err)
		err = target__identify(&process, &image, &key, version, &problem);
	if (err) {
		fprintf(stderr, "%s: %s\n", target_problem__sentence(problem.kind), problem.detail);
		return 1;
	}
	host_reader_current = &process.reader;
	return run(atoi(argv[1]), (unsigned)atoi(argv[2]), (unsigned)atoi(argv[3]), &image);
}

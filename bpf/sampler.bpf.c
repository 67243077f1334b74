/* The sampler: what runs in the kernel.
 *
 * `sample` runs at each tick of a thread's cpu-clock event, on the thread that
 * the tick interrupted, so nothing of it moves while it is walked. It looks up
 * the image of the process, walks the Python frames, copies code objects that
 * it meets for the first time, and writes one record. It never waits and never
 * updates a shared hash map: what it remembers lies in plain arrays whose
 * entries are single words, so that CPUs may race on them.
 *
 * `on_fork`, `on_exec`, `on_exit` follow the life of the target's processes.
 */
#include "kernel.h"
#include "cprofd/record.h"

/* --- maps --- */

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4 << 20);
} ring SEC(".maps");

/* Written by the engine: which layout an image has. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct image_key);
	__type(value, struct image);
} images SEC(".maps");

/* Processes whose life is reported. Never in an engine's hands. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, __u32);
} targets SEC(".maps");

const volatile __u32 follow_children = 0;
/* Keys of code objects whose record went out: sets of four. */
#define SEEN_SETS 8192u
__u64 seen[SEEN_SETS * 4];
__u32 seen_turn;

static __always_inline __u32 seen_set(__u64 key)
{
	return (__u32)(key >> 20) & (SEEN_SETS - 1);
}

static __always_inline int py_seen(__u64 key)
{
	__u32 i = seen_set(key) * 4;

	if (i > SEEN_SETS * 4 - 4)
		return 0;
	return seen[i] == key || seen[i + 1] == key || seen[i + 2] == key || seen[i + 3] == key;
}

static __always_inline void seen_add(__u64 key)
{
	__u32 i = seen_set(key) * 4, way;

	if (i > SEEN_SETS * 4 - 4)
		return;
	for (way = 0; way < 4; way++) {
		if (!seen[i + way] || seen[i + way] == key) {
			seen[i + way] = key;
			return;
		}
	}
	seen[i + (seen_turn++ & 3)] = key;
}

#include "cprofd/pywalk.h"
#include "native.h"

/* Samples and counters: one ring per CPU (the broker sets the number), written in place and read through mmap. The one
 * writer is the tick, which does not nest on a CPU; no lock, no copy, no wake-up (the reader looks every 20 ms). */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, struct sample_ring);
} samples SEC(".maps");

/* What a CPU works with and remembers. */
#define HINTS 64u
struct cpu_scratch {
	struct py_walk walk;
	/* The image of the process that ticked last: a look-up in a hash map touches more. */
	struct image_key image_key;
	__u64 image_until;      /* CLOCK_MONOTONIC ns */
	struct image image;
	__u64 tail;             /* of the ring of samples, as seen last */
	/* Thread states found before, by tid. Only a hint: the walker proves it. */
	struct {
		__u64 tid;
		__u64 tstate;
		__u64 until;
		__u64 cframe, caller;
	} hints[HINTS];
} __attribute__((aligned(4096)));
#define IMAGE_NS (1ull << 24) /* 17 ms: how late a change of the engine's may be seen */

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, BPF_F_MMAPABLE); /* values begin with a page */
	__type(key, __u32);
	__type(value, struct cpu_scratch);
} scratch SEC(".maps");

/* The record of one code object while it is put together, and the line table that is on its way. */
#define CAPTURE_BYTES 65536u
struct capture {
	__u64 pending_key;    /* a line table longer than one record goes on here */
	__u32 pending_offset;
	__u32 position;       /* bytes used of data */
	__u64 source;         /* of the string in hand */
	__u32 parts;
	__u32 incomplete;     /* something could not be read: try again at the next sight */
	__u8 raw[64];
	__u8 data[CAPTURE_BYTES + 32768];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct capture);
} captures SEC(".maps");

/* --- helpers --- */

static __always_inline void fill_task(struct record_task *to, struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;

	to->tgid = task->tgid;
	to->tid = task->pid;
	to->process_start = leader->start_boottime;
	to->thread_start = task->start_boottime;
	to->exec = task->self_exec_id;
	to->_pad = 0;
	__builtin_memcpy(to->comm, task->comm, 16);
}

static __always_inline void fill_header(struct record_header *header, __u16 kind, __u32 size, __u32 cpu,
					__u64 time, struct task_struct *task)
{
	header->size = size;
	header->kind = kind;
	header->cpu = cpu;
	header->time = time;
	fill_task(&header->task, task);
}

static __always_inline void count_loss(struct sampler_counts *c, __u32 loss)
{
	if (loss < SAMPLER_LOSSES)
		c->losses[loss]++;
}

/* --- code objects --- */

/* Copies one Python string as a part; 0, or 1 when it could not be read. */
static __always_inline int put_string(struct capture *cap, const struct py_layout *l, __u16 kind,
				      __u64 string, __u32 max)
{
	__u32 at = cap->position, size, state, unit, padded;
	struct part_string *part;
	__u64 data, length;
	long err;

	if (at > CAPTURE_BYTES)
		return 1;
	if (!string || bpf_probe_read_user(cap->raw, 64, (void *)string)) {
		cap->incomplete = 1;
		return 1;
	}
	length = py_u64(cap->raw, 64, l->unicode_length);
	state = py_u32(cap->raw, 64, l->unicode_state);
	unit = (state >> l->state_kind_shift) & 7;
	if (length >> 31 || (unit != 1 && unit != 2 && unit != 4))
		return 1;
	part = (struct part_string *)(cap->data + at);
	part->kind = unit;
	part->ascii = (state >> l->state_ascii_shift) & 1;
	part->_pad = 0;
	part->length = length;
	data = string + (part->ascii ? l->unicode_ascii_data : l->unicode_compact_data);
	size = length > max ? max : (__u32)length;
	size *= unit;
	if (size > max)
		size = max;
	host_barrier(size);
	if (size > RECORD_STRING_MAX)
		return 1;
	err = size ? bpf_probe_read_user(part->data, size, (void *)data) : 0;
	if (err) {
		cap->incomplete = 1;
		return 1;
	}
	padded = (size + 7) & ~7u;
	part->part.kind = kind;
	part->part.loss = 0;
	part->part.size = sizeof(*part) + padded;
	cap->position = at + sizeof(*part) + padded;
	cap->parts++;
	return 0;
}

struct variables_context {
	struct capture *cap;
	const struct py_layout *l;
	__u64 items;
	__u32 n;
};

static long put_variable(__u32 i, void *context)
{
	struct variables_context *v = context;
	__u64 name = 0;

	if (bpf_probe_read_user(&name, 8, (void *)(v->items + (__u64)i * 8)))
		return 1;
	if (put_string(v->cap, v->l, PART_NAME, name, RECORD_VARIABLE_MAX))
		return 1;
	v->n++;
	return 0;
}

static __always_inline void put_variables(struct capture *cap, const struct py_layout *l, __u64 tuple)
{
	struct variables_context v = {.cap = cap, .l = l};
	__u32 at = cap->position, parts = cap->parts, total;
	struct part_variables *part;
	__u64 size = 0;

	if (at > CAPTURE_BYTES - 4096)
		return;
	if (!tuple || bpf_probe_read_user(&size, 8, (void *)(tuple + l->var_size)) || size >> 31)
		return;
	total = size;
	part = (struct part_variables *)(cap->data + at);
	part->part.kind = PART_VARIABLES;
	part->part.loss = 0;
	part->total = total;
	cap->position = at + sizeof(*part);
	v.items = tuple + l->tuple_items;
	bpf_loop(total < RECORD_VARIABLES_MAX ? total : RECORD_VARIABLES_MAX, put_variable, &v, 0);
	part->n = v.n;
	part->part.size = cap->position - at;
	cap->parts = parts + 1;
}

/* A piece of the line table from `offset` on; bytes left after it. */
static __always_inline __u32 put_lines(struct capture *cap, const struct py_layout *l, __u64 table,
				       __u32 total, __u32 offset)
{
	__u32 at = cap->position, size, padded;
	struct part_bytes *part;

	if (at > CAPTURE_BYTES || offset > total)
		return 0;
	size = total - offset;
	if (size > RECORD_LINES_MAX)
		size = RECORD_LINES_MAX;
	host_barrier(size);
	if (size > RECORD_LINES_MAX)
		return 0;
	part = (struct part_bytes *)(cap->data + at);
	if (size && bpf_probe_read_user(part->data, size, (void *)(table + l->bytes_data + offset))) {
		cap->incomplete = 1;
		return total - offset;
	}
	padded = (size + 7) & ~7u;
	part->part.kind = PART_LINES;
	part->part.loss = 0;
	part->part.size = sizeof(*part) + padded;
	part->offset = offset;
	part->length = size;
	cap->position = at + sizeof(*part) + padded;
	cap->parts++;
	return total - offset - size;
}

struct capture_context {
	struct py_walk *walk;
	const struct image *image;
	struct capture *cap;
	struct sampler_counts *counts;
	const struct record_header *tick; /* of the sample: time, cpu and task */
};

/* Sends todo[i]. */
static long capture_code(__u32 i, void *context)
{
	struct capture_context *c = context;
	struct py_walk *walk = c->walk;
	struct capture *cap = c->cap;
	const struct py_layout *l = &c->image->layout;
	struct record_code *record = (struct record_code *)cap->data;
	struct py_todo *todo;
	__u64 code, key, name, qualname, table, size = 0;
	__u32 offset = 0, left, length;

	if (i >= RECORD_CODES_PER_TICK)
		return 1;
	todo = &walk->todo[i];
	code = todo->code;
	key = todo->key;
	if (bpf_probe_read_user(walk->code, PY_RAW_CODE, (void *)code)) {
		count_loss(c->counts, LOSS_CODE_READ);
		return 0;
	}
	cap->position = sizeof(*record);
	cap->parts = 0;
	cap->incomplete = 0;
	table = py_u64(walk->code, PY_RAW_CODE, l->code_linetable);
	if (!table || bpf_probe_read_user(&size, 8, (void *)(table + l->var_size)) || size >> 31) {
		cap->incomplete = 1;
		size = 0;
	}
	record->key = key;
	record->address = code;
	record->first_line = py_u32(walk->code, PY_RAW_CODE, l->code_firstlineno);
	record->code_flags = py_u32(walk->code, PY_RAW_CODE, l->code_flags);
	record->arg_count = py_u32(walk->code, PY_RAW_CODE, l->code_argcount);
	record->lines_total = size;
	if (l->frames == PY_FRAMES_OBJECTS) {
		__u64 bytes = 0;

		bpf_probe_read_user(&bytes, 8,
				    (void *)(py_u64(walk->code, PY_RAW_CODE, l->code_instructions) +
					     l->var_size));
		record->code_size = bytes;
	} else {
		record->code_size = 2 * py_u32(walk->code, PY_RAW_CODE, l->var_size);
	}
	if (cap->pending_key == key) {
		offset = cap->pending_offset;
	} else {
		name = py_u64(walk->code, PY_RAW_CODE, l->code_name);
		put_string(cap, l, PART_NAME, name, RECORD_STRING_MAX);
		if (l->code_qualname != PY_ABSENT) {
			qualname = py_u64(walk->code, PY_RAW_CODE, l->code_qualname);
			if (qualname != name)
				put_string(cap, l, PART_QUALNAME, qualname, RECORD_STRING_MAX);
		}
		put_string(cap, l, PART_FILE, py_u64(walk->code, PY_RAW_CODE, l->code_filename),
			   RECORD_STRING_MAX);
		put_variables(cap, l, py_u64(walk->code, PY_RAW_CODE, l->code_varnames));
	}
	left = put_lines(cap, l, table, size, offset);
	record->parts = cap->parts;
	length = cap->position;
	host_barrier(length);
	if (length > CAPTURE_BYTES)
		return 0;
	record->header = *c->tick;
	record->header.kind = RECORD_CODE;
	record->header.size = length;
	if (bpf_ringbuf_output(&ring, cap->data, length, BPF_RB_NO_WAKEUP)) {
		count_loss(c->counts, LOSS_RING_FULL);
		return 0;
	}
	c->counts->captures++;
	c->counts->bytes += length;
	if (cap->incomplete) {
		count_loss(c->counts, LOSS_PAGE_FAULT);
		return 0;
	}
	if (left) {
		/* The rest comes with the next sight of this code on this CPU. */
		cap->pending_key = key;
		cap->pending_offset = size - left;
		return 0;
	}
	if (cap->pending_key == key)
		cap->pending_key = 0;
	seen_add(key);
	return 0;
}

/* --- the tick --- */

static __always_inline const struct image *image_of(struct cpu_scratch *own, const struct image_key *key,
						    __u64 now)
{
	const struct image *image;

	if (own->image_key.arg_start == key->arg_start && own->image_key.start_data == key->start_data &&
	    now < own->image_until)
		return &own->image;
	image = bpf_map_lookup_elem(&images, key);
	if (!image)
		return NULL;
	own->image = *image;
	own->image_key = *key;
	own->image_until = now + IMAGE_NS;
	return &own->image;
}

static __always_inline void fill_registers(__u64 *to, struct bpf_perf_event_data *ctx)
{
	to[0] = ctx->regs.r15;
	to[1] = ctx->regs.r14;
	to[2] = ctx->regs.r13;
	to[3] = ctx->regs.r12;
	to[4] = ctx->regs.rbp;
	to[5] = ctx->regs.rbx;
	to[6] = ctx->regs.r11;
	to[7] = ctx->regs.r10;
	to[8] = ctx->regs.r9;
	to[9] = ctx->regs.r8;
	to[10] = ctx->regs.rax;
	to[11] = ctx->regs.rcx;
	to[12] = ctx->regs.rdx;
	to[13] = ctx->regs.rsi;
	to[14] = ctx->regs.rdi;
	to[15] = 0;
}

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 cpu = bpf_get_smp_processor_id(), size, slot;
	struct cpu_scratch *own = bpf_map_lookup_elem(&scratch, &cpu);
	struct sample_ring *samples_ring = bpf_map_lookup_elem(&samples, &cpu);
	struct sampler_counts *c;
	struct record_sample *record;
	struct part_py_frames *part;
	struct image_key key = {};
	struct py_out *out;
	struct py_walk *walk;
	const struct image *image;
	struct mm_struct *mm;
	__u64 head, time, room = sizeof(struct py_out) + (native ? sizeof(struct native_out) : 0);

	if (!own || !samples_ring)
		return 0;
	walk = &own->walk;
	c = &samples_ring->counts;
	c->ticks++;
	mm = task->mm;
	if (!mm)
		return 0;
	head = samples_ring->head;
	if (head + room - own->tail > SAMPLE_RING_BYTES) {
		own->tail = samples_ring->tail;
		if (head + room - own->tail > SAMPLE_RING_BYTES) {
			count_loss(c, LOSS_RING_FULL);
			return 0;
		}
	}
	out = (struct py_out *)(samples_ring->data + (head & (SAMPLE_RING_BYTES - 1)));
	time = bpf_ktime_get_ns();
	key.arg_start = mm->arg_start;
	key.start_data = mm->start_data;
	image = image_of(own, &key, time);
	record = (struct record_sample *)out->head;
	part = (struct part_py_frames *)(out->head + sizeof(*record) / 8);
	record->cpu_time = task->se.sum_exec_runtime;
	record->flags = (__s64)PT_REGS_IP(&ctx->regs) < 0 ? SAMPLE_IN_KERNEL : 0;
	record->loss = 0;
	record->parts = 1;
	fill_header(&record->header, RECORD_SAMPLE, 0, cpu, time, task);
	walk->n = 0;
	walk->loss = 0;
	if (!image) {
		record->loss = LOSS_PROCESS_UNKNOWN;
		count_loss(c, LOSS_PROCESS_UNKNOWN);
	} else if (image->runtime) {
		const struct record_task *t = &record->header.task;

		slot = t->tid & (HINTS - 1);
		walk->fsbase = task->thread.fsbase;
		walk->now = time;
		walk->salt = py_mix(t->process_start, t->tgid | (__u64)t->exec << 32);
		walk->hint = own->hints[slot].tid == t->tid ? own->hints[slot].tstate : 0;
		walk->hint_until = own->hints[slot].until;
		walk->hint_cframe = own->hints[slot].cframe;
		walk->hint_caller = own->hints[slot].caller;
		py_walk(walk, image, out);
		if (!walk->n_tstates)
			record->flags |= SAMPLE_NO_PYTHON;
		if (walk->hint_until != own->hints[slot].until) {
			own->hints[slot].tid = t->tid;
			own->hints[slot].tstate = walk->tstates[0].address;
			own->hints[slot].until = walk->hint_until;
		}
		own->hints[slot].cframe = walk->tstates[0].cframe;
		own->hints[slot].caller = walk->tstates[0].caller;
		if (walk->loss && walk->n < 2 && !(record->flags & SAMPLE_IN_KERNEL)) {
			fill_registers(walk->registers, ctx);
			py_walk_repair(walk, image, out);
		}
		if (walk->loss)
			count_loss(c, walk->loss);
		if (walk->n_todo) {
			struct capture_context cc = {.walk = walk,
						     .image = image,
						     .cap = bpf_map_lookup_elem(&captures, &cpu),
						     .counts = c,
						     .tick = &record->header};

			if (cc.cap)
				bpf_loop(walk->n_todo, capture_code, &cc, 0);
			if (walk->n_todo >= RECORD_CODES_PER_TICK)
				count_loss(c, LOSS_CAPTURE_LIMIT);
		}
	} else {
		record->flags |= SAMPLE_NO_PYTHON;
	}
	size = walk->n * (__u32)sizeof(struct py_frame);
	part->n = walk->n;
	part->_pad = 0;
	part->part.kind = PART_PY_FRAMES;
	part->part.loss = walk->loss;
	part->part.size = sizeof(*part) + size;
	size += sizeof(*record) + sizeof(*part);
	if (native)
		size = native_part(ctx, task, &key, record, (__u8 *)out, size, c->losses);
	record->header.size = size;
	c->samples++;
	c->bytes += size;
	/* The head moves last, in one store: a reader sees whole records only. */
	asm volatile("" ::: "memory");
	*(volatile __u64 *)&samples_ring->head = head + size;
	return 0;
}

/* --- the life of processes --- */

static __always_inline int is_target(__u32 tgid)
{
	return bpf_map_lookup_elem(&targets, &tgid) != NULL;
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
	__u32 tgid = child->tgid, one = 1;
	struct record_fork fork = {};
	struct record_event clone = {};

	if (!is_target(parent->tgid))
		return 0;
	if (tgid == (__u32)parent->tgid) {
		fill_header(&clone.header, RECORD_CLONE, sizeof(clone), bpf_get_smp_processor_id(),
			    bpf_ktime_get_ns(), child);
		bpf_ringbuf_output(&ring, &clone, sizeof(clone), BPF_RB_NO_WAKEUP);
		return 0;
	}
	if (!follow_children)
		return 0;
	bpf_map_update_elem(&targets, &tgid, &one, BPF_ANY);
	fill_header(&fork.header, RECORD_FORK, sizeof(fork), bpf_get_smp_processor_id(),
			    bpf_ktime_get_ns(), child);
	fork.parent_tgid = parent->tgid;
	fork.parent_exec = parent->self_exec_id;
	bpf_ringbuf_output(&ring, &fork, sizeof(fork), BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
	struct record_event event = {};

	if (!is_target(task->tgid))
		return 0;
	fill_header(&event.header, RECORD_EXEC, sizeof(event), bpf_get_smp_processor_id(),
		    bpf_ktime_get_ns(), task);
	event.cpu_time = task->se.sum_exec_runtime;
	event.old_tid = old_pid;
	bpf_ringbuf_output(&ring, &event, sizeof(event), BPF_RB_FORCE_WAKEUP);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct record_event event = {};
	__u32 tgid = task->tgid;
	int dead;

	if (!is_target(tgid))
		return 0;
	/* signal->live was counted down already when the tracepoint fires. */
	dead = task->signal->live.counter == 0;
	fill_header(&event.header, RECORD_EXIT, sizeof(event), bpf_get_smp_processor_id(),
		    bpf_ktime_get_ns(), task);
	event.cpu_time = task->se.sum_exec_runtime;
	event.group_dead = dead;
	event.exit_code = task->exit_code;
	bpf_ringbuf_output(&ring, &event, sizeof(event), dead ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
	if (dead)
		bpf_map_delete_elem(&targets, &tgid);
	return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

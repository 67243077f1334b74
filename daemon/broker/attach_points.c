/* SPDX-License-Identifier: MIT */
/* Types of vmlinux's BTF that attach points need, remembered by name while kernel_types.c goes through that BTF. libbpf
 * is given a handler of our own for these sections, so that it does not search for the types again;
 * expected_attach_type and attach_btf_id are then set here, as its own handler would. */
#include "broker/attach_points.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

/* Iterators attach to a function, tracepoints to a typedef of one (kernel/bpf/verifier.c,
 * bpf_check_attach_target()). */
static struct point {
	const char *section, *name;
	uint32_t kind, type; /* type: BTF type id; 0: not found yet */
	enum bpf_attach_type attach;
} points[] = {
	{"iter/task", "bpf_iter_task", BTF_KIND_FUNC, 0, BPF_TRACE_ITER},
	{"tp_btf/sched_switch", "btf_trace_sched_switch", BTF_KIND_TYPEDEF, 0, BPF_TRACE_RAW_TP},
	{"tp_btf/sched_waking", "btf_trace_sched_waking", BTF_KIND_TYPEDEF, 0, BPF_TRACE_RAW_TP},
};
#define POINTS (sizeof(points) / sizeof(*points))

void attach_points__found(uint32_t kind, const char *name, uint32_t type)
{
	for (size_t i = 0; i < POINTS; i++)
		if (points[i].kind == kind && !strcmp(points[i].name, name))
			points[i].type = type;
}

/* The id that was reported, or the one that libbpf finds by its own, slow search (also if kernel_types.c failed
 * half-way). */
static int type_of(const struct bpf_program *program, enum bpf_attach_type attach)
{
	const char *section = bpf_program__section_name(program), *name = strchr(section, '/');

	for (size_t i = 0; i < POINTS; i++)
		if (points[i].type && points[i].attach == attach && !strcmp(points[i].section, section))
			return (int)points[i].type;
	return name ? libbpf_find_vmlinux_btf_id(name + 1, attach) : -EINVAL;
}

/* Called by libbpf before it loads a program. So far the program had a type for which libbpf needs no BTF of
 * vmlinux; now it gets its real type. */
static int prepare(struct bpf_program *program, struct bpf_prog_load_opts *options, long attach)
{
	int type = type_of(program, (enum bpf_attach_type)attach);

	if (type < 0)
		return type;
	options->expected_attach_type = (enum bpf_attach_type)attach;
	options->attach_btf_id = (uint32_t)type;
	return bpf_program__set_type(program, BPF_PROG_TYPE_TRACING);
}

/* Registered once and never removed: opened objects point to the handlers. */
void attach_points__use(void)
{
	static const struct {
		const char *sections;
		enum bpf_attach_type attach;
	} handlers[] = {{"iter+", BPF_TRACE_ITER}, {"tp_btf+", BPF_TRACE_RAW_TP}};
	static bool registered;

	for (size_t i = 0; i < sizeof(handlers) / sizeof(*handlers) && !registered; i++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, options, .cookie = handlers[i].attach, .prog_prepare_load_fn = prepare);

		libbpf_register_prog_handler(handlers[i].sections, BPF_PROG_TYPE_RAW_TRACEPOINT, handlers[i].attach, &options);
	}
	registered = true;
}

struct bpf_link *attach_points__attach(struct bpf_program *program)
{
	if (bpf_program__type(program) != BPF_PROG_TYPE_TRACING)
		return bpf_program__attach(program);
	if (bpf_program__expected_attach_type(program) == BPF_TRACE_ITER)
		return bpf_program__attach_iter(program, NULL);
	return bpf_program__attach_trace(program);
}

/* SPDX-License-Identifier: MIT */
/* The tables of events: for each kind its members in the order of docs/protocol.md, with JSON key, type and
 * offset in the struct. A new member is one line here; encoder and decoder need no change.
 *
 *     M(U64, thread.time, "time")    event.thread.time <-> "time":12345, which must be there
 *
 * Rules for changes, so that old readers read new recordings and the reverse: a new member is optional or
 * sparse; in rows it comes last; nothing is ever removed or given another meaning within one major version. */
#include "events/fields.h"

#define EVENT_NAME(id, name) [EVENT_##id] = name,
const char *const event_names[EVENT_KIND_COUNT] = {EVENT_KINDS(EVENT_NAME)};

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define LIST(array) {array, N(array)}
/* M: mandatory; O: optional for readers; S: sparse, left out if it is empty. */
#define M(type, member, key) {key, FIELD_##type, FIELD_REQUIRED, offsetof(struct event, member)}
#define O(type, member, key) {key, FIELD_##type, FIELD_OPTIONAL, offsetof(struct event, member)}
#define S(type, member, key) {key, FIELD_##type, FIELD_SPARSE, offsetof(struct event, member)}

/* Members of each event: offsets are into struct event. */
static const struct field hello[] = {
	M(U32, hello.major, "major"),
	M(U32, hello.minor, "minor"),
	O(STRING, hello.server, "server"),
};
static const struct field session[] = {
	M(U32, session.id, "id"),
	M(I32, session.pid, "pid"),
	M(U32, session.rate, "rate"),
	O(STRING, session.mode, "mode"),
	M(U64, session.monotonic, "monotonic"),
	O(U64, session.boottime, "boottime"),
	O(U64, session.realtime, "realtime"),
	O(STRING, session.boot_id, "boot_id"),
	O(STRING, session.command, "command"),
	O(BOOL, session.subprocesses, "subprocesses"),
	O(BOOL, session.native, "native"),
	O(BOOL, session.idle, "idle"),
	S(STRING, session.machine, "machine"),
};
static const struct field epoch[] = {
	M(U32, epoch.number, "number"),
	M(U64, epoch.time, "time"),
};
static const struct field process[] = {
	M(U32, process.id, "id"),
	M(I32, process.pid, "pid"),
	O(I32, process.parent, "parent"),
	O(U64, process.start, "start"),
	O(U32, process.exec, "exec"),
	M(U64, process.time, "time"),
	O(STRING, process.name, "name"),
	O(STRING, process.python, "python"),
	S(STRING, process.unsupported, "unsupported"),
	S(STRING, process.container, "container"),
};
static const struct field thread[] = {
	M(U32, thread.id, "id"),
	M(U32, thread.process, "process"),
	M(I32, thread.tid, "tid"),
	O(U64, thread.start, "start"),
	M(U64, thread.time, "time"),
	O(STRING, thread.name, "name"),
};
/* "rows" itself has a form of its own, below. */
static const struct field rows[] = {
	M(U32, rows.first, "first"),
};
static const struct field ending[] = {
	M(U32, ending.id, "id"),
	M(U64, ending.time, "time"),
	O(U64, ending.wall, "wall"),
	O(U64, ending.cpu, "cpu"),
};
static const struct field unit_end[] = {
	M(U32, unit_end.id, "id"),
	M(U64, unit_end.time, "time"),
	S(STRING, unit_end.name, "name"),
	S(STRING, unit_end.signature, "signature"),
	S(STRING, unit_end.file, "file"),
	S(U32, unit_end.line, "line"),
	S(U32, unit_end.object, "object"),
};
static const struct field ledger[] = {
	M(U64, ledger.time, "time"),
	M(U64, ledger.samples, "samples"),
	M(U64, ledger.whole, "whole"),
};
static const struct field gap[] = {
	M(U64, gap.time, "time"),
	O(U64, gap.events, "events"),
	O(U64, gap.bytes, "bytes"),
};
static const struct field part[] = {
	M(U64, part.time, "time"),
};
static const struct field trigger[] = {
	M(U64, trigger.time, "time"),
	M(STRING, trigger.condition, "condition"),
	S(U64, trigger.value, "value"),
	S(U64, trigger.span, "span"),
	S(STRING, trigger.name, "name"),
	S(I32, trigger.tid, "tid"),
};
static const struct field end[] = {
	M(U64, end.time, "time"),
	O(STRING, end.reason, "reason"),
	O(STRING, end.detail, "detail"),
};

/* Samples and unit_ends have no members but columns. */
const struct field_list event_fields[EVENT_KIND_COUNT] = {
	[EVENT_HELLO] = LIST(hello),
	[EVENT_SESSION] = LIST(session),
	[EVENT_EPOCH] = LIST(epoch),
	[EVENT_PROCESS] = LIST(process),
	[EVENT_THREAD] = LIST(thread),
	[EVENT_MODULES] = LIST(rows),
	[EVENT_FUNCTIONS] = LIST(rows),
	[EVENT_FRAMES] = LIST(rows),
	[EVENT_STACKS] = LIST(rows),
	[EVENT_CLASSES] = LIST(rows),
	[EVENT_UNITS] = LIST(rows),
	[EVENT_LINES] = LIST(rows),
	[EVENT_UNIT_NAME] = LIST(unit_end),
	[EVENT_UNIT_END] = LIST(unit_end),
	[EVENT_THREAD_END] = LIST(ending),
	[EVENT_PROCESS_END] = LIST(ending),
	[EVENT_LEDGER] = LIST(ledger),
	[EVENT_GAP] = LIST(gap),
	[EVENT_PART] = LIST(part),
	[EVENT_TRIGGER] = LIST(trigger),
	[EVENT_END] = LIST(end),
};

/* Rows: arrays in this order. The keys are documentation. */
static const struct field module_row[] = {
	{"name", FIELD_STRING, FIELD_REQUIRED, offsetof(struct module_row, name)},
	{"build_id", FIELD_STRING, FIELD_REQUIRED, offsetof(struct module_row, build_id)},
};
static const struct field function_row[] = {
	{"name", FIELD_STRING, FIELD_REQUIRED, offsetof(struct function_row, name)},
	{"file", FIELD_STRING, FIELD_REQUIRED, offsetof(struct function_row, file)},
	{"line", FIELD_U32, FIELD_REQUIRED, offsetof(struct function_row, line)},
	{"module", FIELD_STRING, FIELD_OPTIONAL, offsetof(struct function_row, module)},
	{"kind", FIELD_U8, FIELD_OPTIONAL, offsetof(struct function_row, kind)},
};
static const struct field frame_row[] = {
	{"function", FIELD_U32, FIELD_REQUIRED, offsetof(struct frame_row, function)},
	{"offset", FIELD_I32, FIELD_REQUIRED, offsetof(struct frame_row, offset)},
	{"line", FIELD_U32, FIELD_OPTIONAL, offsetof(struct frame_row, line)},
	{"column", FIELD_U32, FIELD_OPTIONAL, offsetof(struct frame_row, column)},
};
static const struct field stack_row[] = {
	{"parent", FIELD_U32, FIELD_REQUIRED, offsetof(struct stack_row, parent)},
	{"frame", FIELD_U32, FIELD_REQUIRED, offsetof(struct stack_row, frame)},
};

static const struct field class_row[] = {
	{"name", FIELD_STRING, FIELD_REQUIRED, offsetof(struct class_row, name)},
	{"detail", FIELD_STRING, FIELD_OPTIONAL, offsetof(struct class_row, detail)},
};

static const struct field unit_row[] = {
	{"parent", FIELD_U32, FIELD_REQUIRED, offsetof(struct unit_row, parent)},
	{"thread", FIELD_U32, FIELD_REQUIRED, offsetof(struct unit_row, thread)},
	{"kind", FIELD_U8, FIELD_REQUIRED, offsetof(struct unit_row, kind)},
	{"compiler", FIELD_STRING, FIELD_REQUIRED, offsetof(struct unit_row, compiler)},
	{"name", FIELD_STRING, FIELD_REQUIRED, offsetof(struct unit_row, name)},
	{"signature", FIELD_STRING, FIELD_REQUIRED, offsetof(struct unit_row, signature)},
	{"time", FIELD_U64, FIELD_REQUIRED, offsetof(struct unit_row, time)},
	{"trigger", FIELD_U32, FIELD_SPARSE, offsetof(struct unit_row, trigger)},
	{"file", FIELD_STRING, FIELD_SPARSE, offsetof(struct unit_row, file)},
	{"line", FIELD_U32, FIELD_SPARSE, offsetof(struct unit_row, line)},
	{"object", FIELD_U32, FIELD_SPARSE, offsetof(struct unit_row, object)},
};

static const struct field source_line_row[] = {
	{"parent", FIELD_U32, FIELD_REQUIRED, offsetof(struct source_line_row, parent)},
	{"depth", FIELD_U32, FIELD_REQUIRED, offsetof(struct source_line_row, depth)},
	{"file", FIELD_STRING, FIELD_REQUIRED, offsetof(struct source_line_row, file)},
	{"line", FIELD_U32, FIELD_REQUIRED, offsetof(struct source_line_row, line)},
};

const struct row_form event_rows_form[EVENT_KIND_COUNT] = {
	[EVENT_MODULES] = {LIST(module_row), sizeof(struct module_row), 0},
	[EVENT_FUNCTIONS] = {LIST(function_row), sizeof(struct function_row), 0},
	[EVENT_FRAMES] = {LIST(frame_row), sizeof(struct frame_row), 0},
	[EVENT_STACKS] = {LIST(stack_row), sizeof(struct stack_row), 1},
	[EVENT_CLASSES] = {LIST(class_row), sizeof(struct class_row), 1},
	[EVENT_UNITS] = {LIST(unit_row), sizeof(struct unit_row), 1},
	[EVENT_LINES] = {LIST(source_line_row), sizeof(struct source_line_row), 1},
};

static const struct field ledger_stop[] = {
	{"loss", FIELD_STRING, FIELD_REQUIRED, offsetof(struct ledger_stop, loss)},
	{"module", FIELD_STRING, FIELD_REQUIRED, offsetof(struct ledger_stop, module)},
	{"offset", FIELD_U64, FIELD_REQUIRED, offsetof(struct ledger_stop, offset)},
	{"count", FIELD_U64, FIELD_REQUIRED, offsetof(struct ledger_stop, count)},
	{"function", FIELD_STRING, FIELD_OPTIONAL, offsetof(struct ledger_stop, function)},
};
const struct row_form ledger_stop_form = {LIST(ledger_stop), sizeof(struct ledger_stop), 0};

static const struct field ledger_native[] = {
	O(U64, ledger.native, "native"),
	O(U64, ledger.native_whole, "native_whole"),
	O(U64, ledger.stops_more, "stops_more"),
};
const struct field_list ledger_native_fields = LIST(ledger_native);

/* Columns besides "t". All are optional: a column of zeros is left out. */
static const struct field sample_columns[] = {
	{"wall", FIELD_U64, FIELD_OPTIONAL, offsetof(struct sample_row, wall)},
	{"cpu", FIELD_U64, FIELD_OPTIONAL, offsetof(struct sample_row, cpu)},
	{"thread", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, thread)},
	{"stack", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, stack)},
	{"class", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, class_id)},
	{"unit", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, unit)},
	{"cause", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, cause)},
	{"how", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, how)},
	{"caller", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, caller)},
	{"call", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, call)},
	{"others", FIELD_U64, FIELD_OPTIONAL, offsetof(struct sample_row, others)},
	{"given", FIELD_U64, FIELD_OPTIONAL, offsetof(struct sample_row, given)},
	{"line", FIELD_U32, FIELD_OPTIONAL, offsetof(struct sample_row, line)},
};
static const struct field unit_end_columns[] = {
	{"id", FIELD_U32, FIELD_OPTIONAL, offsetof(struct unit_end_row, id)},
};

const struct column_form event_columns_form[EVENT_KIND_COUNT] = {
	[EVENT_SAMPLES] = {LIST(sample_columns), sizeof(struct sample_row), offsetof(struct sample_row, time)},
	[EVENT_UNIT_ENDS] = {LIST(unit_end_columns), sizeof(struct unit_end_row), offsetof(struct unit_end_row, time)},
};

/* SPDX-License-Identifier: MIT */
/* Native frames through the whole pipeline: records -> collect -> weave -> name -> profile -> events -> a recording
 * -> exporters, with a synthetic code map. Expectations are written by hand. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "book.h"
#include "collect/collect.h"
#include "export/export.h"
#include "fake_codemap.h"
#include "profile/profile.h"
#include "records.h"

#define MS 1000000ull
#define T0 (1000 * 1000 * MS)
#define BOOT (500 * 1000 * MS)

/* --- a process of four modules --- */

struct row {
	uint64_t start, end, module;
	const char *module_name, *name, *file;
	uint8_t kind, role;
};

#define KERNEL 0xffffffff81000000

/* Functions of 0x100 bytes; where two lines hold an address, the one after the change counts. */
static const struct row rows[] = {
	{0x1000, 0x1100, 0, "python3.11", "_start", NULL, LOCATION_INTERPRETER, WEAVE_CODE},
	{0x1100, 0x1200, 0, "python3.11", "Py_RunMain", NULL, LOCATION_INTERPRETER, WEAVE_CODE},
	{0x1200, 0x1300, 0, "python3.11", "_PyEval_EvalFrameDefault", NULL, LOCATION_INTERPRETER,
	 WEAVE_EVAL},
	{0x1300, 0x1400, 0, "python3.11", "PyObject_Vectorcall", NULL, LOCATION_INTERPRETER,
	 WEAVE_CODE},
	{0x1400, 0x1500, 0, "python3.11", "_PyEvalFrameClearAndPop", NULL, LOCATION_INTERPRETER,
	 WEAVE_CODE},
	{0x2000, 0x2100, 1, "_ctypes.so", "_call_function_pointer", "callproc.c", LOCATION_LIBRARY,
	 WEAVE_CODE},
	{0x2100, 0x2200, 1, "_ctypes.so", "closure_fcn", "callbacks.c", LOCATION_LIBRARY, WEAVE_CODE},
	{0x3000, 0x3100, 2, "libLLVM-14.so.1", "llvm::legacy::PassManagerImpl::run(llvm::Module&)",
	 NULL, LOCATION_LIBRARY, WEAVE_CODE},
	{0x3100, 0x3101, 2, "libLLVM-14.so.1", "libLLVM-14.so.1+0x3100", NULL, LOCATION_LIBRARY,
	 WEAVE_CODE},
	{0x4000, 0x4100, 3, "[numba]", "foo(array(float64, 1d, C))", NULL, LOCATION_JIT, WEAVE_CODE},
	{0x4000, 0x4100, 4, "[numba]", "bar(int64)", NULL, LOCATION_JIT, WEAVE_CODE},
	{KERNEL, KERNEL + 0x100, LOCATION_MODULE_KERNEL, "kernel", "read_zero", NULL, LOCATION_KERNEL, WEAVE_CODE},
	{KERNEL + 0x100, KERNEL + 0x200, LOCATION_MODULE_KERNEL, "kernel", "ksys_read", NULL, LOCATION_KERNEL, WEAVE_CODE},
};
#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

struct made_up {
	struct codemap codemap;
	uint64_t changed; /* when bar() took the place of foo() */
	unsigned asked, lines_asked;
	unsigned lines_slow; /* so many times -EAGAIN */
	bool no_eval;
	int eval;     /* what is said then */
	bool unnamed; /* names of module 2 are being read */
	bool hidden;  /* the kernel's */
	bool strange; /* it is not known that module 0 is the interpreter */
	bool wide;    /* module 2 has no lines */
	uint64_t news;
	uint64_t file_news;
};

static struct made_up made_up;

static int find(struct codemap *self, const struct record_task *task, uint64_t address,
		uint64_t time, struct code_location *ret)
{
	struct made_up *m = (struct made_up *)self;
	size_t i;

	m->asked++;
	assert_int_equal(task->tgid, 10);
	for (i = 0; i < N_ROWS; i++) {
		const struct row *row = &rows[i];

		if (address < row->start || address >= row->end ||
		    (row->module == 3 && time >= m->changed))
			continue;
		if (row->kind == LOCATION_KERNEL && m->hidden)
			return -EACCES;
		*ret = (struct code_location){.module = row->module,
				      .function = i,
				      .module_name = row->module_name,
				      .name = row->name,
				      .vaddr = address,
				      .start = row->start,
				      .kind = row->kind,
				      .role = row->role,
				      .stable = row->kind != LOCATION_JIT};
		if (row->module == 0 && m->strange)
			ret->kind = LOCATION_LIBRARY;
		if (row->module == 2 && m->wide) {
			ret->lineless = true;
			ret->from = row->start;
			ret->to = row->end;
		}
		if (row->module == 2 && m->unnamed) {
			ret->pending = true;
			ret->function = address | 1ull << 63;
			ret->start = address;
			ret->name = "libLLVM-14.so.1+?";
		}
		return 0;
	}
	return -ENOENT;
}

static uint64_t changes(struct codemap *self, const struct record_task *task, uint64_t time)
{
	const struct made_up *m = (struct made_up *)self;

	return (time >= m->changed) + m->news;
}

static uint64_t stable(struct codemap *self, const struct record_task *task, uint64_t time)
{
	return ((struct made_up *)self)->file_news;
}

/* As find() says it. */
static int name(struct codemap *self, uint64_t module, uint64_t vaddr, struct code_location *ret)
{
	const struct record_task anybody = {.tgid = 10};

	assert_true(module == 2);
	assert_int_equal(find(self, &anybody, vaddr, 0, ret), 0);
	return ret->pending ? -EAGAIN : 0;
}

static int eval_known(struct codemap *self, const struct record_task *task, uint64_t time)
{
	const struct made_up *m = (struct made_up *)self;

	return m->no_eval ? m->eval : 1;
}

static int line(struct codemap *self, uint64_t module, uint64_t vaddr, const char **ret_file,
		uint32_t *ret_line, uint32_t *ret_column)
{
	struct made_up *m = (struct made_up *)self;
	size_t i;

	m->lines_asked++;
	if (m->lines_slow) {
		m->lines_slow--;
		return -EAGAIN;
	}
	for (i = 0; i < N_ROWS; i++)
		if (rows[i].module == module && vaddr >= rows[i].start && vaddr < rows[i].end &&
		    rows[i].file) {
			*ret_file = rows[i].file;
			*ret_line = 100 + (uint32_t)(vaddr - rows[i].start);
			*ret_column = 3;
			return 0;
		}
	return -ENOENT;
}

/* --- the way --- */

static struct collect_sink sink;
static struct collector *collector;
static struct profile *profile;
static struct book *book;
static struct wire wire;
static struct rec rec;
static struct record_task task;

static int on_code(struct collect_sink *self, const struct record_code *code)
{
	return profile__code(profile, code);
}
static int on_sample(struct collect_sink *self, const struct sample *sample)
{
	return profile__sample(profile, sample);
}

/* A second sink: the recording. */
struct file {
	struct event_sink sink;
	struct recording_writer *writer;
	struct buf line;
	int fd;
};
static struct file file;

static int on_event(struct event_sink *self, const struct event *event)
{
	file.line.len = 0;
	assert_int_equal(event__encode(event, &file.line), 0);
	return recording_writer__lines(file.writer, file.line.data, file.line.len);
}

static void code(uint64_t key, const char *name, uint32_t first_line)
{
	rec_code_whole(&rec, T0, &task, key, name, "x.py", first_line);
	assert_int_equal(collector__record(collector, rec.data, rec.size), 0);
}

static int set_up(void **state)
{
	const struct event_session session = {.id = 1,
					      .pid = 10,
					      .rate = 1000,
					      .mode = "cpu",
					      .monotonic = T0,
					      .boottime = T0 + BOOT,
					      .boot_id = "id",
					      .command = "python3 x.py",
					      .native = true};
	const struct profile_options options = {.rate = 1000, .codemap = &made_up.codemap};
	const struct profile_process process = {.tgid = 10,
						.process_start = T0 + BOOT - 100 * MS,
						.lines = PY_LINES_LINETABLE,
						.name = "python3 x.py",
						.python = "3.11.2",
						.time = T0};

	made_up = (struct made_up){.codemap = {find, name, changes, eval_known, line},
				   .changed = UINT64_MAX};
	sink = (struct collect_sink){.code = on_code, .sample = on_sample};
	task = rec_task(10, 10, 0, process.process_start, "python3");
	book = book_new();
	memset(&wire, 0, sizeof(wire));
	wire_add(&wire, 0, &book->sink);
	file = (struct file){.sink = {on_event}, .fd = memfd_create("recording", MFD_CLOEXEC)};
	assert_int_equal(recording_writer__new(file.fd, true, &file.writer), 0);
	wire_add(&wire, 1, &file.sink);
	assert_int_equal(collector__new(&sink, &collector), 0);
	assert_int_equal(profile__new(&options, &wire.sink, &profile), 0);
	assert_int_equal(profile__begin(profile, &session), 0);
	assert_int_equal(profile__process(profile, &process), 0);
	code(1, "main", 10);
	code(2, "work", 20);
	code(3, "callback", 30);
	return 0;
}

static int tear_down(void **state)
{
	profile = profile__free(profile);
	collector = collector__free(collector);
	recording_writer__free(file.writer);
	buf__free(&file.line);
	close(file.fd);
	wire_free(&wire);
	free(book);
	return 0;
}

static unsigned samples;
static bool leaf_only;

static void sample_cut(const struct py_frame *python, uint32_t n, uint16_t loss, const uint64_t *pc,
		       uint32_t n_native, uint16_t native_loss)
{
	uint64_t time = T0 + ++samples * MS;
	struct record_sample *record = rec_sample(&rec, time, &task, samples * MS);

	record->flags = n ? 0 : SAMPLE_NO_PYTHON;
	rec_frames(&rec, loss, python, n);
	rec_native(&rec, native_loss, pc, n_native);
	if (leaf_only)
		((struct part_native_frames *)(rec.data + rec.size -
					       sizeof(struct part_native_frames) - 8 * n_native))
			->flags = 0;
	assert_int_equal(collector__record(collector, rec.data, rec.size), 0);
}

#define N(array) (sizeof(array) / sizeof((array)[0]))
#define SAMPLE(python, native) sample_cut(python, N(python), 0, native, N(native), 0)

static void flush(uint64_t now)
{
	assert_int_equal(collector__flush(collector, UINT64_MAX), 0);
	assert_int_equal(profile__tick(profile, now), 0);
}

static void end(void)
{
	flush(T0 + 900 * MS);
	assert_int_equal(profile__end(profile, T0 + 1000 * MS, "duration", ""), 0);
	assert_int_equal(recording_writer__flush(file.writer), 0);
	samples = 0;
}

static const struct book_function *function(const char *name)
{
	const struct book_function *found = NULL;
	uint32_t i;

	for (i = 0; i < book->n_functions; i++)
		if (!strcmp(book->functions[i].name, name)) {
			assert_null(found); /* each once */
			found = &book->functions[i];
		}
	assert_non_null(found);
	return found;
}

static char *exported(const char *format, bool lines)
{
	const struct export_options options = {.lines = lines};
	struct export_report report;
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	assert_int_equal(export__run(format, file.fd, &options, out, &report), 0);
	fclose(out);
	return text;
}

static void has(const char *text, const char *want)
{
	if (!strstr(text, want))
		fail_msg("no %s in:\n%s", want, text);
}

/* --- the cases --- */

/* main() calls work(), which calls C by ctypes, which calls back. */
static const struct py_frame nested[] = {{.code = 3, .offset = 2, .flags = PY_FRAME_ENTRY},
					 {.code = 2, .offset = 4},
					 {.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};
static const uint64_t nested_pc[] = {
	NATIVE_EXACT | 0x3010, 0x1280, 0x1340, 0x2180, 0x2080, 0x1290, 0x1150, 0x1020};

static void a_woven_stack(void **state)
{
	char *text;

	SAMPLE(nested, nested_pc);
	SAMPLE(nested, nested_pc);
	end();
	assert_string_equal(
		book_stack(book, book->samples[0].stack),
		"_start:0;Py_RunMain:0;main:13;work:22;_call_function_pointer:227;closure_fcn:227;"
		"PyObject_Vectorcall:0;callback:31;"
		"llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	assert_int_equal(book->samples[0].stack, book->samples[1].stack);
	assert_int_equal(function("main")->kind, FUNCTION_PYTHON);
	assert_int_equal(function("_start")->kind, FUNCTION_INTERPRETER);
	assert_int_equal(function("closure_fcn")->kind, FUNCTION_NATIVE);
	assert_string_equal(function("closure_fcn")->file, "callbacks.c");
	assert_int_equal(function("closure_fcn")->line, 100);
	assert_int_equal(book->ledger.whole, 2);
	assert_string_equal(book->losses, "");
	/* The second sample asked for nothing: the answers are kept. The eval loop was asked for,
	 * and is not shown. */
	assert_int_equal(made_up.asked, 8);
	text = exported("collapsed", false);
	has(text, "_start (python3.11);Py_RunMain (python3.11);main (x.py:10);work (x.py:20);"
		  "_call_function_pointer (callproc.c:100);closure_fcn (callbacks.c:100);"
		  "PyObject_Vectorcall (python3.11);callback (x.py:30);"
		  "llvm::legacy::PassManagerImpl::run(llvm::Module&) (libLLVM-14.so.1) ");
	free(text);
	text = exported("collapsed", true);
	has(text, "_call_function_pointer (callproc.c:227);closure_fcn (callbacks.c:227);");
	has(text, "Py_RunMain (python3.11);main (x.py:13);work (x.py:22);");
	free(text);
	text = exported("speedscope", false);
	has(text, "{\"name\":\"closure_fcn\",\"file\":\"callbacks.c\",\"line\":100}");
	has(text, "{\"name\":\"llvm::legacy::PassManagerImpl::run(llvm::Module&)\","
		  "\"file\":\"libLLVM-14.so.1\"}");
	assert_null(strstr(text, "EvalFrameDefault"));
	free(text);
}

static void a_call_that_begins(void **state)
{
	static const struct py_frame python[] = {{.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};
	static const uint64_t pc[] = {NATIVE_EXACT | 0x1204, 0x1340, 0x1290, 0x1150};

	SAMPLE(python, pc);
	end();
	assert_string_equal(
		book_stack(book, book->samples[0].stack),
		"Py_RunMain:0;main:13;PyObject_Vectorcall:0;_PyEval_EvalFrameDefault:0");
	assert_int_equal(book->ledger.whole, 1);
	assert_string_equal(book->losses, "");
}

static void code_of_a_jit_at_one_address(void **state)
{
	static const uint64_t pc[] = {NATIVE_EXACT | 0x4020, 0x1290, 0x1150};
	static const struct py_frame python[] = {{.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};

	made_up.changed = T0 + 2 * MS;
	SAMPLE(python, pc);
	SAMPLE(python, pc); /* at the instant of the change, in one flush with the other */
	end();
	assert_string_equal(book_stack(book, book->samples[0].stack),
			    "Py_RunMain:0;main:13;foo(array(float64, 1d, C)):0");
	assert_string_equal(book_stack(book, book->samples[1].stack),
			    "Py_RunMain:0;main:13;bar(int64):0");
	assert_int_equal(function("bar(int64)")->kind, FUNCTION_JIT);
}

static void a_return_address_is_looked_up_before_itself(void **state)
{
	/* The call is the last instruction of work()'s caller, closure_fcn. */
	static const uint64_t pc[] = {NATIVE_EXACT | 0x3100, 0x2200, 0x1100};

	sample_cut(NULL, 0, 0, pc, 3, 0);
	end();
	assert_string_equal(book_stack(book, book->samples[0].stack),
			    "_start:0;closure_fcn:355;libLLVM-14.so.1+0x3100:0");
	assert_int_equal(book->frames[book->stacks[2].frame].offset, 0xff);
}

static void cut_stacks_say_so(void **state)
{
	static const uint64_t nowhere[] = {0x9999, 0x1290, 0x1150};
	static const struct py_frame one[] = {{.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};

	sample_cut(nested, 3, 0, nested_pc, 5, LOSS_NATIVE_NO_RULE);
	sample_cut(nested, 1, LOSS_FRAME_DEPTH, nested_pc, N(nested_pc), 0);
	SAMPLE(one, nested_pc);
	SAMPLE(one, nowhere);
	sample_cut(one, 1, 0, NULL, 0, LOSS_NATIVE_PENDING);
	sample_cut(NULL, 0, LOSS_TSTATE_READ, nowhere + 2, 1, 0);
	end();
	assert_string_equal(
		book_stack(book, book->samples[0].stack),
		"main:13;work:22;(cut: native code without call frame information);"
		"_call_function_pointer:227;closure_fcn:227;PyObject_Vectorcall:0;callback:31;"
		"llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	assert_string_equal(
		book_stack(book, book->samples[1].stack),
		"_start:0;Py_RunMain:0;_PyEval_EvalFrameDefault:0;_call_function_pointer:227;"
		"closure_fcn:227;PyObject_Vectorcall:0;"
		"(cut: the Python stack was deeper than the record);callback:31;"
		"llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	/* A loop too many, and only the innermost can be it. */
	assert_string_equal(
		book_stack(book, book->samples[2].stack),
		"_start:0;Py_RunMain:0;main:13;_call_function_pointer:227;closure_fcn:227;"
		"PyObject_Vectorcall:0;_PyEval_EvalFrameDefault:0;"
		"llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	assert_string_equal(book_stack(book, book->samples[3].stack),
			    "Py_RunMain:0;main:13;(unknown native code)");
	assert_string_equal(book_stack(book, book->samples[4].stack),
			    "main:13;(cut: the unwind table of a library was still being built)");
	assert_string_equal(book_stack(book, book->samples[5].stack),
			    "(cut: the thread state could not be read);Py_RunMain:0");
	assert_string_equal(book->losses,
			    "tstate_read=1 frame_depth=1 native_pending=1 native_no_rule=1 ");
	assert_int_equal(book->ledger.samples, 6);
	assert_int_equal(book->ledger.whole, 2);
	assert_int_equal(book->ledger.native, 6);
	assert_int_equal(book->ledger.native_whole, 4);
	assert_int_equal(book->ledger.stops_more, 0);
	assert_string_equal(book->stops, "native_no_rule _ctypes.so+0x207f _call_function_pointer=1 "
					 "native_pending +0x0 =1 ");
}

/* The sums of the ledger and of the exported file are exact; the function of a JIT is one place. */
static void where_stacks_end(void **state)
{
	static const uint64_t jit_a[] = {NATIVE_EXACT | 0x4020}, jit_b[] = {NATIVE_EXACT | 0x4030};
	static const uint64_t nowhere[] = {0x9999};
	char *text;

	SAMPLE(nested, nested_pc);
	sample_cut(nested, 3, 0, jit_a, 1, LOSS_NATIVE_NO_RULE);
	sample_cut(nested, 3, 0, jit_b, 1, LOSS_NATIVE_NO_RULE);
	sample_cut(nested, 3, 0, jit_b, 1, LOSS_NATIVE_NO_RULE);
	sample_cut(nested, 3, 0, jit_b, 1, LOSS_NATIVE_REGISTER);
	sample_cut(nested, 3, 0, nowhere, 1, LOSS_NATIVE_MAPPING);
	end();
	assert_int_equal(book->ledger.native, 6);
	assert_int_equal(book->ledger.native_whole, 1);
	assert_string_equal(book->stops, "native_no_rule [numba]+0x4000 foo(array(float64, 1d, C))=3 "
					 "native_register [numba]+0x4000 foo(array(float64, 1d, C))=1 "
					 "native_mapping +0x9998 =1 ");
	text = exported("speedscope", false);
	has(text, "\"native\":{\"samples\":6,\"whole\":1,\"stops\":[{\"loss\":\"native_no_rule\","
		  "\"module\":\"[numba]\",\"offset\":16384,\"function\":\"foo(array(float64, 1d, C))\","
		  "\"count\":3},");
	has(text, "{\"loss\":\"native_mapping\",\"module\":\"\",\"offset\":39320,\"function\":\"\","
		  "\"count\":1}],\"stops_more\":0}");
	free(text);
}

/* More places than there is room for: nothing is lost from the sums, what is met often stays. */
static void places_without_number(void **state)
{
	uint64_t sum = 0, far[1];
	uint32_t i;

	for (i = 0; i < 3000; i++) {
		far[0] = NATIVE_EXACT | (i % 3 ? 0x100000 + i * 16 : 0x3010);
		sample_cut(nested, 3, 0, far, 1, LOSS_NATIVE_NO_RULE);
	}
	flush(T0 + 4000 * MS);
	assert_int_equal(profile__end(profile, T0 + 4000 * MS, "duration", ""), 0);
	samples = 0;
	assert_int_equal(book->ledger.native, 3000);
	assert_int_equal(book->ledger.native_whole, 0);
	assert_int_equal(book->ledger.n_stops, 16);
	sum = book->stop_counts;
	assert_int_equal(sum + book->ledger.stops_more, 3000);
	has(book->stops, "native_no_rule libLLVM-14.so.1+0x3010 "
			 "llvm::legacy::PassManagerImpl::run(llvm::Module&)=1000 ");
}

/* A loss that turns out to be none is not in the ledger, whatever the sampler's counter says. */
static void an_excused_loss(void **state)
{
	struct sampler_counts counts = {.ticks = 3, .samples = 3};

	counts.losses[LOSS_PROCESS_UNKNOWN] = 3;
	profile__excuse(profile, LOSS_PROCESS_UNKNOWN, 2);
	profile__counts(profile, &counts);
	SAMPLE(nested, nested_pc);
	end();
	assert_string_equal(book->losses, "process_unknown=1 ");
}

static void the_leaf_alone(void **state)
{
	static const uint64_t called[] = {NATIVE_EXACT | 0x3010}, eval[] = {NATIVE_EXACT | 0x1210};

	leaf_only = true;
	SAMPLE(nested, called);
	SAMPLE(nested, eval);
	leaf_only = false;
	end();
	assert_string_equal(book_stack(book, book->samples[0].stack),
			    "main:13;work:22;callback:31;"
			    "llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	assert_string_equal(book_stack(book, book->samples[1].stack),
			    "main:13;work:22;callback:31");
	assert_string_equal(book->losses, "");
	assert_int_equal(book->ledger.whole, 2);
	assert_int_equal(book->ledger.native, 0); /* nothing was walked */
}

static void what_does_not_match_is_named(void **state)
{
	static const uint64_t none[] = {NATIVE_EXACT | 0x3010, 0x1150};
	static const uint64_t many[] = {
		NATIVE_EXACT | 0x3010, 0x1290, 0x1340, 0x1290, 0x1340, 0x1290, 0x1150};
	static const uint64_t cut[] = {NATIVE_EXACT | 0x1210, 0x1340, 0x1290};
	static const struct py_frame one[] = {{.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};

	SAMPLE(nested, none);
	SAMPLE(one, many);
	sample_cut(nested, 3, 0, cut, 3, LOSS_NATIVE_REGISTER);
	end();
	assert_string_equal(book_stack(book, book->samples[0].stack),
			    "main:13;work:22;callback:31;(cut: the interpreter's eval loop was not "
			    "found: native frames were left out)");
	assert_string_equal(
		book_stack(book, book->samples[1].stack),
		"Py_RunMain:0;main:13;(cut: native and Python frames did not match: frames were "
		"left out);llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	has(book->losses, "weave_count=1 weave_no_eval=1 weave_guess=1 ");
	assert_int_equal(book->ledger.whole, 0);
}

static void lines_that_are_read_slowly(void **state)
{
	made_up.lines_slow = UINT32_MAX;
	SAMPLE(nested, nested_pc);
	flush(T0 + 200 * MS);
	assert_int_equal(book->n_samples, 0); /* rows wait */
	assert_true(UINT32_MAX - made_up.lines_slow > 8); /* all are asked for, not the first alone */
	made_up.lines_slow = 0;
	end();
	assert_int_equal(book->n_samples, 1);
	assert_string_equal(function("closure_fcn")->file, "callbacks.c");
}

static void lines_that_never_come(void **state)
{
	unsigned i;

	made_up.lines_slow = UINT32_MAX;
	SAMPLE(nested, nested_pc);
	for (i = 0; i < 2 * 100; i++)
		flush(T0 + 200 * MS + i * 100 * MS);
	assert_int_equal(book->n_samples, 1);
	end();
	assert_string_equal(function("closure_fcn")->file, "");
}

/* The frames of work()'s two native callees; told again only when there is something to tell. */
static void lines_that_come_late(void **state)
{
	const uint64_t other_pc[] = {
		NATIVE_EXACT | 0x3010, 0x1280, 0x1340, 0x2180, 0x2090, 0x1290, 0x1150, 0x1020};
	uint32_t functions, frames;
	unsigned i;

	made_up.lines_slow = UINT32_MAX;
	SAMPLE(nested, nested_pc);
	for (i = 0; i < 2 * 100; i++)
		flush(T0 + 200 * MS + i * 100 * MS);
	assert_int_equal(book->n_samples, 1);
	assert_string_equal(function("closure_fcn")->file, "");
	functions = book->n_functions;
	frames = book->n_frames;
	made_up.lines_slow = 0;
	for (i = 0; i < 100; i++)
		flush(T0 + 21000 * MS + i * 100 * MS);
	assert_int_equal(book->n_functions, functions); /* until it is met again */
	samples = 40000;
	SAMPLE(nested, nested_pc);
	SAMPLE(nested, other_pc); /* a function that is known for long gets a line for one more address */
	SAMPLE(nested, nested_pc);
	for (i = 0; i < 200; i++)
		flush(T0 + 41000 * MS + i * 100 * MS);
	assert_int_equal(book->n_samples, 4);
	assert_string_equal(book_stack(book, book->samples[0].stack),
			    "_start:0;Py_RunMain:0;main:13;work:22;_call_function_pointer:0;closure_fcn:0;"
			    "PyObject_Vectorcall:0;callback:31;"
			    "llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	assert_string_equal(book_stack(book, book->samples[1].stack),
			    "_start:0;Py_RunMain:0;main:13;work:22;_call_function_pointer:227;closure_fcn:227;"
			    "PyObject_Vectorcall:0;callback:31;"
			    "llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
	assert_int_equal(book->samples[3].stack, book->samples[1].stack);
	assert_int_equal(book->n_functions, functions + 2);
	assert_int_equal(book->n_frames, frames + 3);
	made_up.lines_slow = 3;
	samples = 70000;
	SAMPLE(nested, ((uint64_t[]){NATIVE_EXACT | 0x3010, 0x1280, 0x1340, 0x2180, 0x20a0, 0x1290, 0x1150, 0x1020}));
	flush(T0 + 80000 * MS);
	assert_int_equal(book->n_samples, 4); /* it waits for that line */
	end();
	has(book_stack(book, book->samples[4].stack), "_call_function_pointer:259;closure_fcn:227;");
}

static void a_new_epoch_tells_again(void **state)
{
	SAMPLE(nested, nested_pc);
	flush(T0 + 200 * MS);
	assert_int_equal(profile__rotate(profile, T0 + 201 * MS), 0);
	samples = 300;
	SAMPLE(nested, nested_pc);
	end();
	assert_int_equal(book->epochs, 2);
	assert_int_equal(function("closure_fcn")->kind, FUNCTION_NATIVE);
	assert_int_equal(book->n_stacks, 9);
	has(book_stack(book, book->samples[1].stack),
	    "_start:0;Py_RunMain:0;main:13;work:22;_call");
}

static uint32_t build_id(uint64_t module, const uint8_t **ret)
{
	static const uint8_t ids[][3] = {[1] = {0xab, 0x0c, 0x01}, [2] = {0xff, 0x00, 0x7f}};

	if (module != 1 && module != 2)
		return 0;
	*ret = ids[module];
	return module == 1 ? 3 : 1;
}

/* Of files on a stack that have one; in each epoch, and for who joins late. */
static void files_have_build_ids(void **state)
{
	static const char ids[] = "libLLVM-14.so.1=ff _ctypes.so=ab0c01 ";
	struct book *late = book_new();

	made_up.codemap.build_id = build_id;
	SAMPLE(nested, nested_pc);
	flush(T0 + 200 * MS);
	assert_string_equal(book->modules, ids);
	assert_int_equal(profile__rotate(profile, T0 + 201 * MS), 0);
	assert_string_equal(book->modules, "");
	samples = 300;
	SAMPLE(nested, nested_pc);
	flush(T0 + 500 * MS);
	assert_int_equal(profile__replay(profile, &late->sink), 0);
	assert_string_equal(late->modules, ids);
	end();
	assert_string_equal(book->modules, ids);
	free(late);
}

static unsigned count(const char *function)
{
	unsigned i, n = 0;

	for (i = 0; i < book->n_functions; i++)
		n += !strcmp(book->functions[i].name, function);
	return n;
}

static void names_that_are_read_slowly(void **state)
{
	uint64_t other[N(nested_pc)];

	memcpy(other, nested_pc, sizeof(other));
	other[0] += 0x10;
	made_up.unnamed = true;
	SAMPLE(nested, nested_pc);
	SAMPLE(nested, other);
	flush(T0 + 200 * MS);
	assert_int_equal(book->n_samples, 0); /* rows wait */
	made_up.unnamed = false;
	made_up.news++;
	SAMPLE(nested, nested_pc); /* the same address, named meanwhile */
	end();
	assert_int_equal(book->n_samples, 3);
	assert_int_equal(count("llvm::legacy::PassManagerImpl::run(llvm::Module&)"), 1);
	assert_int_equal(book->samples[0].stack, book->samples[2].stack);
	assert_int_not_equal(book->samples[0].stack, book->samples[1].stack);
	has(book_stack(book, book->samples[1].stack), "llvm::legacy::PassManagerImpl::run(llvm::Module&)");
}

/* A JIT's news are about its own code: what is of files is not asked for again, also not in the
 * sample after the next, whose outer frames differ from the last one's. */
static void steady_places(void **state)
{
	static const uint64_t other[] = {NATIVE_EXACT | 0x4020, 0x1290, 0x1150, 0x1020};
	static const uint64_t more[] = {NATIVE_EXACT | 0x4020, 0x1290, 0x1290, 0x1150, 0x1020};
	static const struct py_frame python[] = {{.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};
	static const struct py_frame twice[] = {{.code = 2, .offset = 4, .flags = PY_FRAME_ENTRY},
						{.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};
	unsigned asked;

	made_up.codemap.stable = stable;
	SAMPLE(python, other);
	SAMPLE(nested, nested_pc);
	flush(T0 + 100 * MS);
	asked = made_up.asked;
	made_up.changed = T0; /* bar() */
	samples = 200;
	SAMPLE(nested, nested_pc);
	SAMPLE(python, other);
	SAMPLE(twice, more);
	flush(T0 + 300 * MS);
	assert_int_equal(made_up.asked, asked + 1); /* the JIT's */
	assert_string_equal(book_stack(book, book->samples[0].stack),
			    "_start:0;Py_RunMain:0;main:13;foo(array(float64, 1d, C)):0");
	assert_int_equal(book->samples[2].stack, book->samples[1].stack);
	assert_string_equal(book_stack(book, book->samples[3].stack),
			    "_start:0;Py_RunMain:0;main:13;bar(int64):0");
	assert_string_equal(book_stack(book, book->samples[4].stack),
			    "_start:0;Py_RunMain:0;main:13;work:22;bar(int64):0");
	made_up.file_news++;
	samples = 400;
	SAMPLE(nested, nested_pc);
	flush(T0 + 500 * MS);
	assert_int_equal(made_up.asked, asked + 1 + N(nested_pc));
	end();
}

/* Of a function without lines all addresses are one frame, and asked for once, until files change. */
static void functions_without_lines(void **state)
{
	uint64_t other[N(nested_pc)];
	unsigned asked;

	memcpy(other, nested_pc, sizeof(other));
	made_up.codemap.stable = stable;
	made_up.wide = true;
	SAMPLE(nested, nested_pc);
	flush(T0 + 100 * MS);
	asked = made_up.asked;
	samples = 200;
	other[0] = NATIVE_EXACT | 0x3000;
	SAMPLE(nested, other);
	other[0] = 0x3100; /* a return address: the byte before */
	SAMPLE(nested, other);
	flush(T0 + 300 * MS);
	assert_int_equal(made_up.asked, asked);
	samples = 400;
	other[0] = NATIVE_EXACT | 0x3100; /* the next function */
	SAMPLE(nested, other);
	flush(T0 + 500 * MS);
	assert_int_equal(made_up.asked, asked + 1);
	made_up.file_news++;
	samples = 600;
	SAMPLE(nested, nested_pc);
	flush(T0 + 700 * MS);
	assert_int_equal(made_up.asked, asked + 1 + N(nested_pc));
	end();
	assert_int_equal(book->samples[0].stack, book->samples[1].stack);
	assert_int_equal(book->samples[0].stack, book->samples[2].stack);
	assert_int_not_equal(book->samples[0].stack, book->samples[3].stack);
	assert_int_equal(book->samples[0].stack, book->samples[4].stack);
	has(book_stack(book, book->samples[2].stack), "llvm::legacy::PassManagerImpl::run(llvm::Module&):0");
}

/* What was told stays, what comes is told right; what was not told yet is told right, too. */
static void an_interpreter_that_is_known_late(void **state)
{
	static const struct py_frame python[] = {{.code = 1, .offset = 6, .flags = PY_FRAME_ENTRY}};
	static const uint64_t pc[] = {NATIVE_EXACT | 0x1310, 0x1290, 0x1150};
	unsigned kinds[FUNCTION_INTERPRETER + 1] = {};
	uint32_t i;

	made_up.strange = true;
	SAMPLE(python, pc);
	flush(T0 + 200 * MS);
	made_up.strange = false;
	made_up.news++;
	samples = 300;
	SAMPLE(python, pc);
	SAMPLE(nested, nested_pc);
	end();
	assert_int_equal(book->n_samples, 3);
	assert_int_not_equal(book->samples[0].stack, book->samples[1].stack);
	for (i = 0; i < book->n_functions; i++)
		if (!strcmp(book->functions[i].name, "PyObject_Vectorcall"))
			kinds[book->functions[i].kind]++;
	assert_int_equal(kinds[FUNCTION_NATIVE], 1);
	assert_int_equal(kinds[FUNCTION_INTERPRETER], 1);
	assert_int_equal(function("_start")->kind, FUNCTION_INTERPRETER);
}

static void names_that_never_come(void **state)
{
	unsigned i;

	made_up.unnamed = true;
	SAMPLE(nested, nested_pc);
	for (i = 0; i < 300; i++)
		flush(T0 + 200 * MS + i * 100 * MS);
	assert_int_equal(book->n_samples, 1);
	end();
	has(book_stack(book, book->samples[0].stack), "libLLVM-14.so.1+?");
}

static void an_eval_loop_that_is_being_looked_for(void **state)
{
	made_up.no_eval = true;
	made_up.eval = -EAGAIN;
	SAMPLE(nested, nested_pc);
	end();
	has(book->losses, "native_pending=1 ");
	assert_null(strstr(book->losses, "weave_no_eval"));
}

/* Two frames of the kernel on top of what is in user space. */
static void kernel_sample(const struct py_frame *python, uint32_t n)
{
	uint64_t time = T0 + ++samples * MS;
	struct record_sample *record = rec_sample(&rec, time, &task, samples * MS);
	const uint64_t pc[] = {KERNEL + 0x10, KERNEL + 0x200}; /* a return address behind its function */
	struct part_kernel_frames *part;

	record->flags = SAMPLE_IN_KERNEL;
	rec_frames(&rec, 0, python, n);
	part = rec_part(&rec, PART_KERNEL_FRAMES, 0, sizeof(*part), sizeof(pc));
	part->n = N(pc);
	memcpy(part->pc, pc, sizeof(pc));
	assert_int_equal(collector__record(collector, rec.data, rec.size), 0);
}

static void the_kernel(void **state)
{
	kernel_sample(nested, N(nested));
	end();
	assert_string_equal(book_stack(book, book->samples[0].stack),
			    "main:13;work:22;callback:31;ksys_read:0;read_zero:0");
	assert_int_equal(function("read_zero")->kind, FUNCTION_KERNEL);
	assert_int_equal(book->ledger.whole, 1);
}

static void a_kernel_that_hides(void **state)
{
	made_up.hidden = true;
	kernel_sample(nested, N(nested));
	end();
	assert_string_equal(book_stack(book, book->samples[0].stack), "main:13;work:22;callback:31;[kernel]:0");
	has(book->losses, "kernel_hidden=1 ");
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_woven_stack),
		TEST(files_have_build_ids),
		TEST(a_call_that_begins),
		TEST(code_of_a_jit_at_one_address),
		TEST(a_return_address_is_looked_up_before_itself),
		TEST(cut_stacks_say_so),
		TEST(where_stacks_end),
		TEST(places_without_number),
		TEST(an_excused_loss),
		TEST(the_leaf_alone),
		TEST(what_does_not_match_is_named),
		TEST(lines_that_are_read_slowly),
		TEST(lines_that_never_come),
		TEST(lines_that_come_late),
		TEST(a_new_epoch_tells_again),
		TEST(names_that_are_read_slowly),
		TEST(an_interpreter_that_is_known_late),
		TEST(steady_places),
		TEST(functions_without_lines),
		TEST(names_that_never_come),
		TEST(an_eval_loop_that_is_being_looked_for),
		TEST(the_kernel),
		TEST(a_kernel_that_hides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Operations of HLO text: as JAX 0.12 and older versions write it, and malformed text. */
#include <errno.h>
#include <unistd.h>

#include "export/hlo.h"
#include "export_util.h"

/* JAX 0.12, compiled.as_text() (shortened): where an operation is of stands in tables. */
static const char NEW[] =
	"HloModule jit_work, is_scheduled=true, entry_computation_layout={(f32[64,64]{1,0})->f32[]}\n"
	"\n"
	"FileNames\n"
	"1 \"/tmp/run.py\"\n"
	"2 \"/tmp/a \\\"b\\\".py\"\n"
	"\n"
	"FunctionNames\n"
	"1 \"<module>\"\n"
	"2 \"work\"\n"
	"\n"
	"FileLocations\n"
	"1 {file_name_id=1 function_name_id=1 line=10 end_line=10 column=2 end_column=17}\n"
	"2 {file_name_id=2 function_name_id=2 line=8 end_line=9 column=31 end_column=53}\n"
	"\n"
	"StackFrames\n"
	"1 {file_location_id=1 parent_frame_id=1}\n"
	"2 {file_location_id=2 parent_frame_id=2}\n"
	"\n"
	"\n"
	"%region_0.1 (sort.2: f32[], sort.3: f32[]) -> pred[] {\n"
	"  %sort.2 = f32[] parameter(0), metadata={op_name=\"sort\"}\n"
	"  ROOT %lt_to.1 = pred[] compare(%sort.2, %sort.3), direction=LT, metadata={op_name=\"lt_to\"}\n"
	"}\n"
	"\n"
	"ENTRY %main.1 (w.1: f32[64,64]) -> f32[] {\n"
	"  %w.1 = f32[64,64]{1,0} parameter(0), metadata={op_name=\"w\"}\n"
	"  %sort.9 = f32[512,64]{1,0} sort(%x.1), dimensions={1}, is_stable=true, to_apply=%region_0.1, "
	"metadata={op_name=\"jit(work)/jit(sort)/sort\" stack_frame_id=1}\n"
	"  %tanh_add_fusion.2 = f32[512,64]{1,0} fusion(%sort.9, %w.1), kind=kLoop, calls=%fused_computation.7, "
	"metadata={op_name=\"jit(work)/add\" stack_frame_id=2}, backend_config={\"a\":{\"kind\":\"b\"}}\n"
	"  ROOT %tuple.1 = (f32[], f32[64]{0}) tuple(%wrapped_sqrt, %tanh_add_fusion.2)\n"
	"}\n";

/* Older: the place is with each instruction, names have no percent sign. By the printer of XLA, not from a run. */
static const char OLD[] =
	"HloModule jit_other\n"
	"ENTRY main {\n"
	"  tanh.4 = f32[8]{0} tanh(x), metadata={op_type=\"tanh\" op_name=\"jit(other)/tanh[axis=\\\"i\\\"]\" source_file=\"/tmp/old.py\" source_line=44}\n"
	"  ROOT %tanh_add_fusion.2 = f32[8]{0} fusion(tanh.4), kind=kLoop, calls=fused_computation.7, metadata={op_name=\"jit(other)/sub\"}\n"
	"}\n";

/* JAX 0.12 (shortened): a cumulative sum, which XLA splits; and all of a program is fusions, none with an op_name of its own. */
static const char SPLIT[] =
	"HloModule jit_cum, is_scheduled=true\n"
	"\n"
	"FileNames\n"
	"1 \"/tmp/cum.py\"\n"
	"\n"
	"FileLocations\n"
	"1 {file_name_id=1 function_name_id=1 line=14 end_line=14 column=2 end_column=17}\n"
	"\n"
	"StackFrames\n"
	"1 {file_location_id=1 parent_frame_id=1}\n"
	"\n"
	"%region_0.1 (reduce_window_sum.3: f32[], reduce_window_sum.4: f32[]) -> f32[] {\n"
	"  %reduce_window_sum.3 = f32[] parameter(0), metadata={op_name=\"an_argument\"}\n"
	"  ROOT %reduce_window_sum.5 = f32[] add(%reduce_window_sum.3, %reduce_window_sum.4), metadata={op_name=\"reduce_window_sum\"}\n"
	"}\n"
	"\n"
	"%fused_computation.3 (param_0.9: f32[500,25,16]) -> f32[500,2,16] {\n"
	"  %param_0.9 = f32[500,25,16]{2,1,0} parameter(0), metadata={op_name=\"x\" stack_frame_id=1}\n"
	"  %constant.10 = f32[] constant(0), metadata={op_name=\"jit(cum)/jit(cumsum)\" stack_frame_id=1}\n"
	"  %mul.3 = f32[500,32]{1,0} multiply(%bitcast.10, %constant.10), metadata={op_name=\"mul\"}\n"
	"  ROOT %bitcast.9 = f32[500,2,16]{2,1,0} bitcast(%mul.3)\n"
	"}\n"
	"\n"
	"%wrapped_reduce-window_computation (param_0.12: f32[500,25,16], param_1.11: f32[]) -> f32[500,25,16] {\n"
	"  %param_0.12 = f32[500,25,16]{2,1,0} parameter(0)\n"
	"  ROOT %reduce-window.4 = f32[500,25,16]{2,1,0} reduce-window(%param_0.12, %param_1.11), window={size=1x1x16 pad=0_0x0_0x15_0}, to_apply=%region_0.1\n"
	"}\n"
	"\n"
	"ENTRY %main.3 (x.1: f32[500,400]) -> f32[500,400] {\n"
	"  %pad_bitcast_fusion = f32[500,2,16]{2,1,0} fusion(%x.1), kind=kLoop, calls=%fused_computation.3\n"
	"  ROOT %wrapped_reduce-window = f32[500,25,16]{2,1,0} fusion(%pad_bitcast_fusion, %constant.2), kind=kLoop, "
	"calls=%wrapped_reduce-window_computation, backend_config={\"outer_dimension_partitions\":[\"2\"]}\n"
	"}\n";

static void is_op(struct hlo *hlo, const char *function, const char *name, const char *file, uint32_t line)
{
	const struct hlo_op *op = hlo__find(hlo, function);

	assert_non_null(op);
	assert_string_equal(op->name, name);
	assert_string_equal(op->file, file);
	assert_int_equal(op->line, line);
}

static void an_instruction_has_its_operation_and_line(void **state)
{
	struct hlo *hlo;

	assert_int_equal(hlo__new(NEW, sizeof(NEW) - 1, &hlo), 0);
	is_op(hlo, "tanh_add_fusion.2", "jit(work)/add", "/tmp/a \"b\".py", 8);
	is_op(hlo, "fused_computation.7", "jit(work)/add", "/tmp/a \"b\".py", 8);
	is_op(hlo, "region_0.1", "jit(work)/jit(sort)/sort", "/tmp/run.py", 10);
	is_op(hlo, "lt_to.1", "lt_to", "", 0);
	assert_null(hlo__find(hlo, "tuple.1"));
	assert_null(hlo__find(hlo, "tanh_add_fusion"));
	assert_int_equal(hlo__found(hlo), 4);
	hlo__free(hlo);
}

static void a_fusion_is_of_what_it_calls(void **state)
{
	struct hlo *hlo;

	assert_int_equal(hlo__new(SPLIT, sizeof(SPLIT) - 1, &hlo), 0);
	is_op(hlo, "wrapped_reduce-window", "reduce_window_sum", "", 0);
	is_op(hlo, "wrapped_reduce-window_computation", "reduce_window_sum", "", 0);
	/* Its root says nothing: the last instruction with a line, before later ones without. */
	is_op(hlo, "pad_bitcast_fusion", "jit(cum)/jit(cumsum)", "/tmp/cum.py", 14);
	is_op(hlo, "pad_bitcast_fusion_kernel", "jit(cum)/jit(cumsum)", "/tmp/cum.py", 14);
	assert_null(hlo__find(hlo, "param_0.9"));
	assert_null(hlo__find(hlo, "_kernel"));
	hlo__free(hlo);
}

static void older_text_has_it_with_the_instruction(void **state)
{
	struct hlo *hlo;

	assert_int_equal(hlo__new(OLD, sizeof(OLD) - 1, &hlo), 0);
	is_op(hlo, "tanh.4", "jit(other)/tanh[axis=\"i\"]", "/tmp/old.py", 44);
	is_op(hlo, "tanh_add_fusion.2", "jit(other)/sub", "", 0);
	hlo__free(hlo);
}

static void a_name_of_two_modules_is_of_none(void **state)
{
	char both[sizeof(NEW) + sizeof(OLD)];
	struct hlo *hlo;

	snprintf(both, sizeof(both), "%s%s", NEW, OLD);
	assert_int_equal(hlo__new(both, strlen(both), &hlo), 0);
	assert_null(hlo__find(hlo, "tanh_add_fusion.2"));
	is_op(hlo, "region_0.1", "jit(work)/jit(sort)/sort", "/tmp/run.py", 10);
	is_op(hlo, "tanh.4", "jit(other)/tanh[axis=\"i\"]", "/tmp/old.py", 44);
	hlo__free(hlo);
	snprintf(both, sizeof(both), "%s%s", OLD, OLD);
	assert_int_equal(hlo__new(both, strlen(both), &hlo), 0);
	is_op(hlo, "tanh_add_fusion.2", "jit(other)/sub", "", 0);
	hlo__free(hlo);
}

static void what_is_no_text_of_it_is_refused(void **state)
{
	static const char *const bad[] = {"", "\n", "HloModule x\n", "%a = b, metadata={op_name=\"\"}", "a = metadata={", "FileNames\n1 \"", "FileNames\n1",
					  "StackFrames\n1 {file_location_id=4294967297}\n", "%a = f32[] b(), metadata={op_name=", "= , metadata={op_name=\"x\"}"};
	struct hlo *hlo;
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(hlo__new(bad[i], strlen(bad[i]), &hlo), -EBADMSG);
	/* Cut anywhere it is read up to there, or refused. */
	for (i = 0; i < sizeof(NEW); i++)
		if (!hlo__new(NEW, i, &hlo))
			hlo__free(hlo);
	for (i = 0; i < sizeof(SPLIT); i++)
		if (!hlo__new(SPLIT, i, &hlo))
			hlo__free(hlo);
}

/* A kernel, its neighbour that the text does not name, and a Python function of the kernel's name. */
static const char RECORDING[] =
	"{\"ev\":\"hello\",\"major\":1,\"minor\":5}\n"
	"{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000000000}\n"
	"{\"ev\":\"epoch\",\"number\":1,\"time\":1000000000}\n"
	"{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000000000,\"name\":\"p\"}\n"
	"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000000000,\"name\":\"main\"}\n"
	"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"tanh_add_fusion.2\",\"\",0,\"JIT\",4],[\"call_kernel\",\"\",0,\"JIT\",4],"
	"[\"tanh_add_fusion.2\",\"f.py\",1,\"\",0]]}\n"
	"{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,2,0,0],[1,0,0,0],[2,2,3,0]]}\n"
	"{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,2],[1,1],[2,0]]}\n"
	"{\"ev\":\"samples\",\"t\":[1001000000],\"wall\":[1000000],\"cpu\":[1000000],\"stack\":[3]}\n"
	"{\"ev\":\"end\",\"time\":1001000000}\n";

static void only_jit_code_is_named(void **state)
{
	const char *const names[] = {"tanh_add_fusion.2", "call_kernel", "jit(work)/add"}, *const files[] = {"f.py", "JIT", "/tmp/a \"b\".py"};
	const uint64_t lines[] = {3, 0, 8};
	struct export_options options = {.lines = true};
	struct export_report report;
	int fd = memfd_create("recording", MFD_CLOEXEC);
	json_t *file, *samples, *frame;
	size_t i;

	assert_int_equal(write(fd, RECORDING, sizeof(RECORDING) - 1), sizeof(RECORDING) - 1);
	assert_int_equal(hlo__new(NEW, sizeof(NEW) - 1, &options.hlo), 0);
	file = export_json(fd, &options, &report);
	samples = json_array_get(json_object_get(profile_of(file, "main (7)"), "samples"), 0);
	assert_int_equal(json_array_size(samples), 3);
	for (i = 0; i < 3; i++) {
		frame = json_array_get(frames_of(file), (size_t)json_integer_value(json_array_get(samples, i)));
		assert_string_equal(text_of(frame, "name"), names[i]);
		assert_string_equal(text_of(frame, "file"), files[i]);
		assert_int_equal(number_of(frame, "line"), lines[i]);
	}
	assert_int_equal(hlo__found(options.hlo), 1);
	json_decref(file);
	hlo__free(options.hlo);
	close(fd);
}

/* As many computations as a large program has, each called once and long after it was read. */
static void many_computations(void **state)
{
	enum { N = 50000 };
	struct buf text = {};
	struct hlo *hlo;
	char name[32];
	int i;

	buf__puts(&text, "HloModule jit_many\n");
	for (i = 0; i < N; i++)
		buf__printf(&text, "%%fused.%d (p: f32[]) -> f32[] {\n  ROOT %%add.%d = f32[] add(%%p, %%p), metadata={op_name=\"op%d\"}\n}\n", i, i, i);
	buf__puts(&text, "ENTRY %main (x: f32[]) -> f32[] {\n");
	for (i = 0; i < N; i++)
		buf__printf(&text, "  %%fusion.%d = f32[] fusion(%%x), kind=kLoop, calls=%%fused.%d\n", i, i);
	buf__puts(&text, "}\n");
	assert_int_equal(hlo__new(text.data, text.len, &hlo), 0);
	for (i = 0; i < N; i += 1000) {
		snprintf(name, sizeof(name), "fusion.%d", i);
		assert_non_null(hlo__find(hlo, name));
		assert_int_equal(atoi(hlo__find(hlo, name)->name + 2), i);
	}
	hlo__free(hlo);
	buf__free(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_instruction_has_its_operation_and_line),
		cmocka_unit_test(a_fusion_is_of_what_it_calls),
		cmocka_unit_test(older_text_has_it_with_the_instruction),
		cmocka_unit_test(a_name_of_two_modules_is_of_none),
		cmocka_unit_test(what_is_no_text_of_it_is_refused),
		cmocka_unit_test(only_jit_code_is_named),
		cmocka_unit_test(many_computations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* diff: its statistics against values computed by numpy 1.24 and scipy 1.10 (the formulas of estimate.h written
 * again there, stats.t.ppf, stats.chi2.ppf), and whole comparisons of synthetic recordings. */
#include <math.h>
#include <unistd.h>

#include "diff/diff.h"
#include "diff/estimate.h"
#include "diff/gate.h"
#include "diff/internal.h"
#include "export_util.h"

static void near(double have, double want, double part)
{
	if (fabs(have - want) > part * fabs(want))
		fail_msg("%.12g is not %.12g", have, want);
}

static void quantiles(void **state)
{
	near(student__quantile(0.9995, 1), 636.619249, 1e-8);
	near(student__quantile(0.9995, 4), 8.61030158, 1e-8);
	near(student__quantile(0.9995, 10.5), 4.50740749, 1e-8);
	near(student__quantile(0.9995, 21), 3.81927716, 1e-8);
	near(student__quantile(0.975, 30), 2.04227246, 1e-8);
	near(student__quantile(0.9995, 1e6), 3.29053646, 1e-8);
	near(student__quantile(0.75, 3), 0.764892328, 1e-8);
	assert_true(student__quantile(0.5, 3) == 0);
}

/* The same numbers as in the other program: C's own old random generator, upper half. */
static void make_cells(uint32_t n, uint32_t seed, float *x, double *t)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		seed = (uint32_t)((seed * 1103515245ull + 12345) % (1ull << 31));
		t[i] = 1000 + (seed >> 16) % 500;
		seed = (uint32_t)((seed * 1103515245ull + 12345) % (1ull << 31));
		x[i] = (float)(100 + (seed >> 16) % 97);
	}
}

static struct estimate estimate_of(uint32_t n, uint32_t seed)
{
	float x[256];
	double t[256];

	make_cells(n, seed, x, t);
	return estimate__share(x, t, n);
}

static void shares(void **state)
{
	struct estimate a = estimate_of(60, 1), b = estimate_of(60, 7), c = estimate_of(200, 3),
			none;
	struct comparison comparison;
	double low, high;

	near(a.share, 0.118210777097, 1e-10);
	near(a.variance, 1.5073421075e-05, 1e-9);
	near(b.share, 0.116104261302, 1e-10);
	near(b.variance, 1.28801411477e-05, 1e-9);
	near(c.share, 0.119369669375, 1e-10);
	near(c.variance, 7.58004341886e-06, 1e-9);
	assert_true(estimate_of(ESTIMATE_CELLS_MIN - 1, 1).variance < 0);
	none = estimate__share(NULL, NULL, 0);
	assert_true(none.share == 0 && none.variance < 0);
	none.variance = -1;
	comparison = estimate__compare(&a, &c, &none, &none, 0, 0.999);
	near(comparison.margin, 0.0176514115074, 1e-8);
	near(comparison.change, c.share - a.share, 1e-12);
	assert_false(comparison.differs);
	comparison__range(&comparison, 1, &low, &high);
	near(low, comparison.change - comparison.margin, 1e-12);
	near(high, comparison.change + comparison.margin, 1e-12);
	comparison = estimate__compare(&a, &c, &none, &none, 1, 0.999);
	assert_true(comparison.margin > 3.2);
	/* A share of 11.8 % can fall by that and grow by the rest; a time can grow without end. */
	comparison__range(&comparison, 1, &low, &high);
	near(low, -a.share, 1e-12);
	near(high, 1 - a.share, 1e-12);
	comparison__range(&comparison, 0, &low, &high);
	assert_true(high > 3.2);
	comparison = estimate__compare(&a, &none, &none, &none, 0, 0.999);
	assert_true(comparison.margin < 0 && !comparison.differs);
}

/* 0.15, 0.165, 0.158 of 1000, 2000, 1000. */
static void check_name(const char *name, const char *expected)
{
	struct buf out = {};

	assert_int_equal(diff__put_name(&out, name), 0);
	assert_string_equal(out.data, expected);
	assert_int_equal(out.len, strlen(expected) + 1);
	buf__free(&out);
}

static void names_without_addresses(void **state)
{
	check_name("run_pass", "run_pass");
	check_name("", "");
	check_name("handler_0x7f21c0a81d30", "handler_0x…");
	check_name("JIT code at 0x7F3B5C0010", "JIT code at 0x…");
	check_name("(<function f at 0x7f21c0a81d30>, <function g at 0x7f21c0a81d31>)", "(<function f at 0x…>, <function g at 0x…>)");
	check_name("sub_401a30", "sub_…");
	check_name("FUN_00401a30 [clone .cold]", "FUN_… [clone .cold]");
	/* Offsets, short numbers, words. */
	check_name("libffi.so.8.1.2+0x6250abc", "libffi.so.8.1.2+0x6250abc");
	check_name("flags_0x10", "flags_0x10");
	check_name("sub_added", "sub_added");
	check_name("sub_facets", "sub_facets");
	check_name("resub_12345", "resub_12345");
	check_name("0x12345xyz", "0x12345xyz");
	check_name("{lambda(int)#1}", "{lambda(int)#1}");
	check_name("0x", "0x");
}

static void several_recordings(void **state)
{
	struct estimate of[] = {{150, 1000, 0.15, 1e-9, 10},
				{330, 2000, 0.165, 1e-9, 10},
				{158, 1000, 0.158, 1e-9, 10}};
	struct estimate between, one, all = estimate__join(of, 3, &between);
	struct comparison comparison;

	near(all.share, 0.1595, 1e-12);
	near(between.variance, 2.0015625e-05, 1e-9);
	assert_true(between.freedom == 2);
	near(all.variance, 1e-9 * (0.0625 + 0.25 + 0.0625), 1e-9);
	estimate__join(of, 1, &one);
	assert_true(one.variance < 0);
	/* Recordings that differ more than their blocks say: they are right, with 4 degrees of
	 * freedom. */
	comparison = estimate__compare(&all, &all, &between, &between, 0, 0.999);
	near(comparison.margin, 8.61030158 * sqrt(2 * 2.0015625e-05), 1e-6);
	/* ... and less: likewise. */
	of[0].variance = of[1].variance = of[2].variance = 1;
	all = estimate__join(of, 3, &between);
	comparison = estimate__compare(&all, &all, &between, &between, 0, 0.999);
	near(comparison.margin, 8.61030158 * sqrt(2 * 2.0015625e-05), 1e-6);
	/* One whose blocks tell nothing makes the side's blocks tell nothing. */
	of[1].variance = -1;
	assert_true(estimate__join(of, 3, &between).variance < 0);
}

/* A row of 40 against 18 all else, on a machine whose speed differs by a tenth; numpy's least squares. */
static void against_the_rest(void **state)
{
	static const double row[] = {39.1, 44.0, 36.2, 41.7, 40.3, 43.9, 47.2, 39.8, 45.1, 42.2},
			    rest[] = {17.0, 20.1, 15.9, 18.4, 17.9, 18.3, 20.4, 16.2, 19.0, 17.6};
	struct beside of[10];
	struct rest_change change;
	uint32_t i;

	for (i = 0; i < 10; i++)
		of[i] = (struct beside){row[i], rest[i], i >= 5};
	change = estimate__beside(of, 10, 0, 0.999);
	assert_true(change.known && change.differs);
	near(change.ratio, 1.06368419591, 1e-9);
	near(change.low, 1.03059486068, 1e-7);
	near(change.high, 1.09783593127, 1e-7);
	/* Few samples: as uncertain as their number says. */
	change = estimate__beside(of, 10, 4e-4, 0.999);
	near(change.low, 0.954641776596, 1e-7);
	assert_true(change.known && !change.differs);
	/* Whatever the speed: twice as slow altogether is no change. */
	for (i = 0; i < 10; i++)
		of[i] = (struct beside){rest[i] * (i >= 5 ? 4 : 2), rest[i] * (i >= 5 ? 2 : 1), i >= 5};
	change = estimate__beside(of, 10, 0, 0.999);
	near(change.ratio, 1, 1e-9);
	/* Three on a side are too few, and nothing is told of what is missing in one recording. */
	assert_false(estimate__beside(of + 2, 8, 0, 0.999).known);
	assert_true(estimate__beside(of + 1, 8, 0, 0.999).known);
	of[3].row = 0;
	assert_false(estimate__beside(of, 10, 0, 0.999).known);
	assert_false(estimate__beside(NULL, 0, 0, 0.999).known);
}

/* Of 12 even numbers, nearly normal. */
static double normal(uint32_t *seed)
{
	double sum = -6;
	uint32_t i;

	for (i = 0; i < 12; i++) {
		*seed = (uint32_t)((*seed * 1103515245ull + 12345) % (1ull << 31));
		sum += (*seed >> 8) / (double)(1u << 23);
	}
	return sum;
}

/* Recordings as a shared machine makes them: of speeds that differ by 14 %, with native code that goes along by 0.82 of it and
 * differs by 1.5 % of its own. How many of 4,000 comparisons of eight with eight are said to differ. */
static uint32_t found(double slower)
{
	uint32_t seed = 5, n = 0, i, k;

	for (i = 0; i < 4000; i++) {
		struct beside of[16];

		for (k = 0; k < 16; k++) {
			double speed = 0.14 * normal(&seed);

			of[k] = (struct beside){8e6 * exp(0.82 * speed + 0.015 * normal(&seed)) * (k % 2 ? slower : 1), 40e6 * exp(speed), k % 2};
		}
		n += estimate__beside(of, 16, 0, 0.999).differs;
	}
	return n;
}

static void a_shared_machine(void **state)
{
	uint32_t same = found(1), slower = found(1.05);

	print_message("%u of the same, %u of 5 %% slower ones, of 4000\n", same, slower);
	assert_true(same <= 8 && slower >= 3600);
}

static void cells_are_halved(void **state)
{
	struct series series = {};
	float cells[DIFF_CELLS] = {};
	uint32_t i;

	for (i = 0; i < 100; i++)
		assert_int_equal(series__add(&series, i / 2 * 3, 10), 0);
	assert_int_equal(series__add(&series, 5, 7), 0); /* late: it goes to the last cell */
	series__halve(&series);
	series__spread(&series, cells);
	for (i = 0; i < DIFF_CELLS; i++) {
		float want = 0;
		uint32_t j;

		for (j = 0; j < 50; j++)
			want += j * 3 / 2 == i ? 20 : 0;
		want += i == 49 * 3 / 2 ? 7 : 0;
		assert_true(cells[i] == want);
	}
	assert_int_equal(series.total, 1007);
	assert_int_equal(series.samples, 101);
	series__free(&series);
}

/* --- whole recordings --- */

static json_t *compare(const int *fds, uint32_t n, uint32_t before,
		       const struct diff_options *options, int *ret)
{
	struct diff *diff;
	size_t len;
	char *text = NULL;
	json_t *json = NULL;
	FILE *out = open_memstream(&text, &len);
	uint32_t i;

	assert_int_equal(diff__new(options, n, &diff), 0);
	for (i = 0; i < n; i++)
		assert_int_equal(diff__read(diff, fds[i], "it", i >= before), 0);
	*ret = diff__finish(diff);
	if (!*ret) {
		assert_int_equal(diff__text(diff, out), 0);
		rewind(out);
		assert_int_equal(diff__json(diff, out), 0);
		fclose(out);
		json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DISABLE_EOF_CHECK, NULL);
		assert_non_null(json);
	} else {
		fclose(out);
	}
	free(text);
	diff__free(diff);
	return json;
}

static json_t *rows_of(json_t *json, size_t table)
{
	return json_object_get(json_array_get(json_object_get(json, "tables"), table), "rows");
}

#define PAIRS 12

/* Recordings of one and the same: hardly anything is said to differ, and shares are those of the
 * generator. */
static void the_same_does_not_differ(void **state)
{
	const struct diff_options options = {.tables = 1u << REPORT_FUNCTION | 1u << REPORT_UNIT |
						       1u << REPORT_PHASE | 1u << REPORT_PASS,
					     .level = 0.999};
	size_t compared = 0, differ = 0, at, table;
	uint32_t i, f;
	int err;

	for (i = 0; i < PAIRS; i++) {
		struct synthetic s[2];
		int fds[2];
		json_t *json, *row, *told = json_object();
		uint64_t cpu = 0;
		char name[64];

		for (f = 0; f < 2; f++) {
			s[f] = (struct synthetic){.threads = 2,
						  .rate = 999,
						  .seconds = 8,
						  .depth = 8,
						  .seed = 100 + 2 * i + f,
						  .epoch_seconds = i % 3 * 2,
						  .units = true};
			fds[f] = made_up(&s[f]);
		}
		json = compare(fds, 2, 1, &options, &err);
		assert_int_equal(err, 0);
		for (table = 0; table < 4; table++)
			json_array_foreach(rows_of(json, table), at, row)
			{
				compared += json_object_get(row, "margin") != NULL;
				differ += json_is_true(json_object_get(row, "differs"));
			}
		json_array_foreach(rows_of(json, 3), at, row)
			json_object_set(told, text_of(row, "name"), json_object_get(row, "before"));
		for (f = 0; f < s[0].threads; f++)
			cpu += s[0].truth[f].cpu;
		for (f = 0; f < SYNTHETIC_FUNCTIONS; f++) {
			uint64_t self = s[0].truth[0].self[f] + s[0].truth[1].self[f];

			synthetic_name(f, name);
			if (self)
				assert_true(fabs(json_number_value(json_object_get(told, name)) -
						 (double)self / (double)cpu) < 1e-6);
		}
		json_decref(told);
		json_decref(json);
		for (f = 0; f < 2; f++) {
			close(fds[f]);
			synthetic_free(&s[f]);
		}
	}
	print_message("%zu of %zu differ\n", differ, compared);
	assert_true(compared > 1000 && (double)differ <= 0.002 * (double)compared);
}

/* Python functions of two programs, by hand. */
static int program(const char *function, const char *file)
{
	static const char head[] =
		"{\"ev\":\"hello\",\"major\":1,\"minor\":3}\n{\"ev\":\"session\",\"id\":1,\"pid\":"
		"7,\"rate\":1000,\"monotonic\":1000,"
		"\"command\":\"c\"}\n{\"ev\":\"epoch\",\"number\":1,\"time\":1000}\n{\"ev\":"
		"\"process\",\"id\":0,\"pid\":7,\"time\":1000,"
		"\"name\":\"p\"}\n{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":"
		"1000,\"name\":\"main\"}\n";
	int fd = memfd_create("recording", MFD_CLOEXEC);

	dprintf(fd,
		"%s{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"%s\",\"%s\",1,\"\",0],[\"loads\","
		"\"/usr/lib/python3.11/json/decoder.py\",9,"
		"\"\",0]]}\n{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,0,1,1],[1,0,9,1]]}\n{"
		"\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0],"
		"[1,1]]}\n{\"ev\":\"samples\",\"t\":[2001000,1000000],\"wall\":[1000000,1000000],"
		"\"cpu\":[1000000,1000000],"
		"\"stack\":[1,2]}\n{\"ev\":\"end\",\"time\":3001000,\"reason\":\"stopped\"}\n",
		head, function, file);
	return fd;
}

static void what_has_nothing_in_common(void **state)
{
	const struct diff_options options = {.tables = DIFF_TABLES, .level = 0.999},
				  compiles = {.tables = DIFF_TABLES,
					      .level = 0.999,
					      .per = DIFF_COMPILE};
	int one = program("f", "/a/x.py"), other = program("g", "/b/y.py"),
	    moved = program("f", "/elsewhere/x.py"), err;
	json_t *json;

	assert_null(compare((int[]){one, other}, 2, 1, &options, &err));
	assert_int_equal(err, -ENODATA);
	/* The same module in another place is the same. */
	json = compare((int[]){one, moved}, 2, 1, &options, &err);
	assert_int_equal(err, 0);
	assert_int_equal(json_array_size(json_object_get(json, "recordings")), 2);
	json_decref(json);
	assert_null(compare((int[]){one, moved}, 2, 1, &compiles, &err));
	assert_int_equal(err, -EDOM);
	close(one);
	close(other);
	close(moved);
}

/* --- compiles --- */

#define MS 1000000ull

/* A program that compiles, seen for a part of the time: 10 ms `early` before its first compile, if it is seen from its
 * begin; then compiles of `ms` each, 3 ms apart, of which the first is already going on otherwise, and the last goes on to
 * the end. A sample each ms; of a compile the first is in native code in no pass, the second in a pass, the third the
 * garbage collector's. Units are all told to have ended at the end. */
struct compiling {
	bool from_begin, epochs;
	const char *odd; /* NULL; or what each second compile is called */
	const uint32_t *ms;
	uint32_t n, last;
};

static void put_unit(int fd, uint32_t id, uint32_t parent, uint32_t kind, const char *name, uint64_t t)
{
	dprintf(fd, "{\"ev\":\"units\",\"first\":%u,\"rows\":[[%u,0,%u,\"Numba\",\"%s\",\"\",%llu,0,\"\",0]]}\n", id, parent, kind, name,
		(unsigned long long)t);
}

static void put_sample(int fd, uint64_t t, uint32_t class_id, uint32_t unit)
{
	dprintf(fd,
		"{\"ev\":\"samples\",\"t\":[%llu],\"wall\":[1000000],\"cpu\":[1000000],\"stack\":[1],\"class\":[%u],\"unit\":[%u]}\n",
		(unsigned long long)t, class_id, unit);
}

static void put_end(int fd, uint32_t id, uint64_t t)
{
	dprintf(fd, "{\"ev\":\"unit_end\",\"id\":%u,\"time\":%llu,\"name\":\"\",\"signature\":\"\",\"file\":\"\",\"line\":0}\n", id,
		(unsigned long long)t);
}

static void put_epoch(int fd, uint32_t number, uint64_t t)
{
	dprintf(fd,
		"{\"ev\":\"epoch\",\"number\":%u,\"time\":%llu}\n{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":%llu,\"name\":\"p\"}\n"
		"{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":%llu,\"name\":\"main\"}\n"
		"{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"f\",\"/a/x.py\",1,\"\",0]]}\n"
		"{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,0,1,1]]}\n{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0]]}\n"
		"{\"ev\":\"classes\",\"first\":1,\"rows\":[[\"interpreter\",\"\"],[\"compiler native\",\"\"],[\"GC\",\"\"]]}\n",
		number, (unsigned long long)t, (unsigned long long)t, (unsigned long long)t);
}

static int compiling(const struct compiling *how)
{
	int fd = memfd_create("recording", MFD_CLOEXEC);
	uint64_t t = 1000;
	uint32_t i, k, unit = 0, inner = 0, epoch = 1;

	dprintf(fd, "{\"ev\":\"hello\",\"major\":1,\"minor\":3}\n{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,"
		    "\"command\":\"c\"}\n");
	put_epoch(fd, epoch, t);
	for (i = 0; i < (how->from_begin ? 10u : 0u); i++)
		put_sample(fd, t += MS, 1, 0);
	for (i = 0; i < how->n; i++) {
		put_unit(fd, ++inner, 0, 0, how->odd && i % 2 ? how->odd : "f", t);
		unit = inner;
		for (k = 0; k < how->ms[i]; k++) {
			if (how->epochs && k == 4) { /* what goes on is told again */
				put_epoch(fd, ++epoch, t);
				put_unit(fd, inner = unit = 1, 0, 0, "f", t);
			}
			if (k == 1)
				put_unit(fd, ++inner, unit, 2, "pass", t);
			t += MS;
			put_sample(fd, t, k == 0 || k == 1 ? 2 : k == 2 ? 3 : 1, k == 1 ? inner : unit);
			if (k == 1)
				put_end(fd, inner, t);
		}
		for (k = 0; k < 3 && i + 1 < how->n; k++) {
			put_sample(fd, t + (k + 1) * MS, 1, 0);
			if (!k) /* it may come after a sample without it */
				put_end(fd, unit, t);
		}
		t += i + 1 < how->n ? 3 * MS : 0;
	}
	put_end(fd, unit, t);
	dprintf(fd, "{\"ev\":\"thread_end\",\"id\":0,\"time\":%llu,\"wall\":0,\"cpu\":0}\n{\"ev\":\"end\",\"time\":%llu,\"reason\":\"stopped\"}\n",
		(unsigned long long)t, (unsigned long long)t);
	return fd;
}

static json_t *row_named(json_t *rows, const char *name)
{
	json_t *row;
	size_t at;

	json_array_foreach(rows, at, row)
		if (!strcmp(text_of(row, "name"), name))
			return row;
	return NULL;
}

/* Compiles of 20, 30, 40 ms are whole, whatever is cut off before and after them. */
/* A long thread runs one() for 1 s of its own; short ones run 3 s, of which samples that met two() stand for 2 s. As report has it. */
static void what_samples_stand_for(void **state)
{
	const struct diff_options options = {.tables = 1u << REPORT_FUNCTION, .level = 0.999};
	int fd = memfd_create("recording", MFD_CLOEXEC), fds[2] = {fd, fd}, err;
	json_t *json, *row;
	uint64_t one = 0, two = 0, rest = 0, cpu;
	size_t at;

	dprintf(fd, "{\"ev\":\"hello\",\"major\":1,\"minor\":9}\n{\"ev\":\"session\",\"id\":1,\"pid\":7,\"rate\":1000,\"monotonic\":1000,"
		    "\"command\":\"c\"}\n{\"ev\":\"epoch\",\"number\":1,\"time\":1000}\n{\"ev\":\"process\",\"id\":0,\"pid\":7,\"time\":1000,"
		    "\"name\":\"p\"}\n{\"ev\":\"thread\",\"id\":0,\"process\":0,\"tid\":7,\"time\":1000,\"name\":\"main\"}\n"
		    "{\"ev\":\"thread\",\"id\":1,\"process\":0,\"tid\":8,\"time\":1000,\"name\":\"short\"}\n"
		    "{\"ev\":\"functions\",\"first\":0,\"rows\":[[\"one\",\"/p/a.py\",1,\"\",0],[\"two\",\"/p/a.py\",9,\"\",0]]}\n"
		    "{\"ev\":\"frames\",\"first\":0,\"rows\":[[0,0,1,1],[1,0,9,1]]}\n{\"ev\":\"stacks\",\"first\":1,\"rows\":[[0,0],[0,1]]}\n"
		    "{\"ev\":\"thread_end\",\"id\":1,\"time\":2900001000,\"wall\":2900000000,\"cpu\":2900000000}\n"
		    "{\"ev\":\"samples\",\"t\":[3000001000,1000000],\"wall\":[1100000000,1000000],\"cpu\":[1100000000,0],\"thread\":[0,0],"
		    "\"stack\":[1,2],\"others\":[0,2000000000],\"given\":[100000000,0]}\n"
		    "{\"ev\":\"end\",\"time\":3002001000,\"reason\":\"exited\"}\n");
	json = compare(fds, 2, 1, &options, &err);
	assert_int_equal(err, 0);
	json_array_foreach(rows_of(json, 0), at, row)
	{
		uint64_t ns = number_of(row, "before_ns");

		*(!strcmp(text_of(row, "name"), "one") ? &one : !strcmp(text_of(row, "name"), "two") ? &two : &rest) += ns;
	}
	cpu = number_of(json_array_get(json_object_get(json, "recordings"), 0), "time_ns");
	json_decref(json);
	close(fd);
	assert_int_equal(cpu, 4000000000);
	assert_int_equal(one, 1000000000);
	assert_int_equal(two, 2000000000);
	assert_int_equal(rest, 1000000000); /* (not sampled) */
}

static void cut_compiles_are_left_out(void **state)
{
	const struct diff_options options = {.tables = 1u << REPORT_CLASS | 1u << REPORT_UNIT | 1u << REPORT_PASS | 1u << REPORT_FUNCTION,
					     .level = 0.999,
					     .inclusive = true,
					     .per = DIFF_COMPILE};
	static const uint32_t ms[] = {7, 20, 30, 40, 9}, whole[] = {20, 30, 40, 9};
	const struct compiling how[] = {{.ms = ms, .n = 5}, {.from_begin = true, .ms = whole, .n = 4}, {.ms = ms, .n = 5, .epochs = true}};
	const double compiles[] = {5, 4, 5}, cut[] = {2, 1, 2}, gaps[] = {3, 2, 3};
	uint32_t i;
	json_t *json, *recording;
	int err;

	for (i = 0; i < 3; i++) {
		int fd = compiling(&how[i]), again = compiling(&how[i]);

		json = compare((int[]){fd, again}, 2, 1, &options, &err);
		assert_int_equal(err, 0);
		recording = json_array_get(json_object_get(json, "recordings"), 0);
		near(json_number_value(json_object_get(recording, "compiles")), compiles[i], 1e-9);
		near(json_number_value(json_object_get(recording, "compiles_cut")), cut[i], 1e-9);
		near(json_number_value(json_object_get(row_named(rows_of(json, 1), "f"), "before")), 30e6, 1e-9);
		near(json_number_value(json_object_get(row_named(rows_of(json, 1), "(outside of compiles)"), "before")), gaps[i] * 1e6, 1e-9);
		near(json_number_value(json_object_get(row_named(rows_of(json, 0), "GC"), "before")), 1e6, 1e-9);
		near(json_number_value(json_object_get(row_named(rows_of(json, 2), "pass"), "before")), 1e6, 1e-9);
		near(json_number_value(json_object_get(row_named(rows_of(json, 2), "(in no known pass)"), "before")), 1e6, 1e-9);
		/* All functions: without the collector. */
		near(json_number_value(json_object_get(row_named(rows_of(json, 3), "f"), "before")), 29e6 + gaps[i] * 1e6, 1e-9);
		json_decref(json);
		close(fd);
		close(again);
	}
}

/* Recordings of compiles that differ much among each other, each recording by as much slower than the first as `slower` says: the
 * interval is that of Welch's test of the means, which differ by that alone, whatever blocks say. */
static void compiles_are_as_sure_as_recordings_agree(void **state)
{
	const struct diff_options options = {.tables = 1u << REPORT_UNIT, .level = 0.999, .inclusive = true, .per = DIFF_COMPILE};
	static const uint32_t slower[] = {0, 1, 2, 5, 6, 7};
	uint32_t ms[6][65], i, k, noise = 1;
	int fds[6], err;
	json_t *json, *row;

	for (k = 0; k < 65; k++)
		for (noise = noise * 1103515245 + 12345, i = 0; i < 6; i++)
			ms[i][k] = 20 + noise / 65536 % 40 + slower[i];
	for (i = 0; i < 6; i++)
		fds[i] = compiling(&(struct compiling){.from_begin = true, .ms = ms[i], .n = 65});
	json = compare(fds, 6, 3, &options, &err);
	assert_int_equal(err, 0);
	row = row_named(rows_of(json, 0), "f");
	near(json_number_value(json_object_get(row, "change")), 5e6, 1e-6);
	/* Student's quantile of 4 degrees of freedom, and both sides' variance: 1 / 3 ms each. */
	near(json_number_value(json_object_get(row, "margin")), 8.6103 * sqrt(2.0 / 3) * 1e6, 1e-4);
	json_decref(json);
	for (i = 0; i < 6; i++)
		close(fds[i]);
}

/* A window cuts, too: from the middle of the compile of 20 ms, or to the middle of that of 40. */
static void a_window_cuts_compiles(void **state)
{
	static const uint32_t ms[] = {7, 20, 30, 40, 9};
	const struct compiling how = {.ms = ms, .n = 5};
	const uint64_t windows[][2] = {{15 * MS, 0}, {0, 90 * MS}, {31 * MS, 64 * MS}};
	const double want[] = {35e6, 25e6, 30e6};
	uint32_t i;
	json_t *json;
	int err;

	for (i = 0; i < 3; i++) {
		const struct diff_options options = {.filter = {.from = windows[i][0], .to = windows[i][1]},
						     .tables = 1u << REPORT_UNIT,
						     .level = 0.999,
						     .inclusive = true,
						     .per = DIFF_COMPILE};
		int fd = compiling(&how), again = compiling(&how);

		json = compare((int[]){fd, again}, 2, 1, &options, &err);
		assert_int_equal(err, 0);
		near(json_number_value(json_object_get(row_named(rows_of(json, 0), "f"), "before")), want[i], 1e-9);
		json_decref(json);
		close(fd);
		close(again);
	}
}

/* Stacks are the same where the program's script is called otherwise. */
static void scripts_are_the_same_by_place(void **state)
{
	const struct diff_options options = {.tables = 1u << REPORT_FUNCTION, .level = 0.999, .flame = true};
	static const char *const files[] = {"/a/one.py", "/b/two.py"};
	struct diff *diff;
	size_t len, at;
	char *text = NULL, functions[128];
	FILE *out = open_memstream(&text, &len);
	json_t *json, *frame;
	int fds[2], i, scripts = 0;

	assert_int_equal(diff__new(&options, 2, &diff), 0);
	for (i = 0; i < 2; i++) {
		snprintf(functions, sizeof(functions), "<module>\",\"%s\",1,\"\",0],[\"helper", files[i]);
		fds[i] = program(functions, "/a/lib.py");
		assert_int_equal(diff__read(diff, fds[i], "it", i), 0);
	}
	assert_int_equal(diff__finish(diff), 0);
	assert_int_equal(diff__speedscope(diff, out), 0);
	fclose(out);
	json = json_loadb(text, len, 0, NULL);
	assert_non_null(json);
	json_array_foreach(json_object_get(json_object_get(json, "shared"), "frames"), at, frame)
		if (!strcmp(text_of(frame, "name"), "<module>")) {
			scripts++;
			assert_string_equal(text_of(frame, "file"), "__main__");
		}
	assert_int_equal(scripts, 1);
	json_decref(json);
	diff__free(diff);
	free(text);
	for (i = 0; i < 2; i++)
		close(fds[i]);
}

static json_t *total_named(json_t *json, const char *what)
{
	json_t *total;
	size_t at;

	json_array_foreach(json_object_get(json, "totals"), at, total)
		if (!strcmp(text_of(total, "what"), what))
			return total;
	return NULL;
}

/* Compiles that are gone in every recording are told as that, and what all took stands first. */
static void what_is_gone_is_said(void **state)
{
	const struct diff_options options = {.tables = 1u << REPORT_UNIT, .level = 0.999, .inclusive = true};
	static const uint32_t before[3][6] = {{20, 10, 30, 12, 25, 11}, {21, 10, 30, 12, 25, 11}, {20, 10, 30, 13, 25, 11}};
	static const uint32_t after[3][3] = {{20, 30, 25}, {21, 30, 25}, {20, 31, 25}};
	json_t *json, *total, *row;
	int fds[6], err, i;

	for (i = 0; i < 3; i++) {
		fds[i] = compiling(&(struct compiling){.from_begin = true, .odd = "sort", .ms = before[i], .n = 6});
		fds[3 + i] = compiling(&(struct compiling){.from_begin = true, .ms = after[i], .n = 3});
	}
	json = compare(fds, 6, 3, &options, &err);
	assert_int_equal(err, 0);
	total = total_named(json, "compiles");
	near(json_number_value(json_object_get(total, "change")), -3, 1e-9);
	near(json_number_value(json_object_get(total, "margin")), 0, 1e-9);
	assert_true(json_is_true(json_object_get(total, "differs")));
	total = total_named(json, "compiling");
	near(json_number_value(json_object_get(total, "before")), (108 + 109 + 109) * 1e6 / 3, 1e-7);
	near(json_number_value(json_object_get(total, "after")), (75 + 76 + 76) * 1e6 / 3, 1e-7);
	assert_true(json_is_true(json_object_get(total, "differs")));
	/* 10 ms before the first, 3 between. */
	near(json_number_value(json_object_get(total_named(json, "time"), "before")), (108 + 109 + 109) * 1e6 / 3 + 25e6, 1e-7);
	row = row_named(rows_of(json, 0), "sort");
	assert_string_equal(text_of(row, "only"), "before");
	near(json_number_value(json_object_get(row, "after_ns")), 0, 1e-9);
	assert_null(json_object_get(row_named(rows_of(json, 0), "f"), "only"));
	json_decref(json);
	/* One side against itself: nothing. */
	json = compare((int[]){fds[3], fds[4], fds[4], fds[3]}, 4, 2, &options, &err);
	assert_int_equal(err, 0);
	assert_false(json_is_true(json_object_get(total_named(json, "time"), "differs")));
	assert_null(json_object_get(row_named(rows_of(json, 0), "f"), "only"));
	json_decref(json);
	/* One recording a side: no interval; the compile is gone all the same. */
	json = compare((int[]){fds[0], fds[3]}, 2, 1, &options, &err);
	assert_int_equal(err, 0);
	assert_null(json_object_get(total_named(json, "compiles"), "margin"));
	assert_string_equal(text_of(row_named(rows_of(json, 0), "sort"), "only"), "before");
	json_decref(json);
	for (i = 0; i < 6; i++)
		close(fds[i]);
}

/* Three compiles a recording before, and six after: 75 to 76 ms of compiles before, 108 to 109 after (1 ms of each the collector,
 * whose time is in no other share). The new ones are of a function whose name is markup. */
static void limits_of_growth(void **state)
{
	static const uint32_t more[3][6] = {{20, 10, 30, 12, 25, 11}, {21, 10, 30, 12, 25, 11}, {20, 10, 30, 13, 25, 11}};
	static const uint32_t few[3][3] = {{20, 30, 25}, {21, 30, 25}, {20, 31, 25}};
	const struct diff_options options = {.tables = 1u << REPORT_UNIT, .level = 0.999, .inclusive = true};
	static const struct {
		const char *limits, *line, *unknown;
		uint32_t recordings, exceeded, light;
		double least;
		bool back; /* what is after is before */
	} cases[] = {
		{"compiles>99%", "outermost compiles: 3.000 -> 6.000, +100.0 %, surely more than +100.0 % (limit 99 %)\n", NULL, 6, 1, 0, 0, false},
		{"compiles>100%", "", NULL, 6, 0, 0, 0, false},
		{"compiling>30%,total>200%", "time of compiles: 0.076 s -> 0.109 s, +43.6 %, surely more than", NULL, 6, 1, 0, 0, false},
		{"compiling>60%", "", NULL, 6, 0, 0, 0, false},
		{"unit>5%", "unit a|b`c: new, 0.030 s\n", NULL, 6, 1, 0, 0, false},
		{"unit>5%,compiles>0%", "unit a|b`c: new", NULL, 6, 2, 0, 0, false},
		/* 30 of 134 ms; it is no growth of totals that a row's least weight is about */
		{"unit>5%", "unit a|b`c: new, 0.030 s\n", NULL, 6, 1, 0, 0.2, false},
		{"unit>5%", "", NULL, 6, 0, 1, 0.3, false},
		{"unit>5%,compiles>99%", "outermost compiles: ", NULL, 6, 1, 1, 0.9, false},
		{"total>3%", "", "total", 2, 0, 0, 0.9, false},
		{"total>3%", "", "total", 2, 0, 0, 0, false}, /* one recording a side */
		{"total>3%", "", "total", 2, 0, 0, 0.2, true}, /* ... that fell */
	};
	static const char *const wrong[] = {"", "total", "total>3", "total>%", "total>3%,", "total>-1%", "total>inf%", "total>nan%", "thread>3%", "tot>3%", "unit>5%unit>5%"};
	int fds[6], i;
	size_t at;

	for (i = 0; i < 3; i++) {
		fds[i] = compiling(&(struct compiling){.from_begin = true, .ms = few[i], .n = 3});
		fds[3 + i] = compiling(&(struct compiling){.from_begin = true, .odd = "a|b`c", .ms = more[i], .n = 6});
	}
	for (at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
		uint32_t n = cases[at].recordings;
		struct diff_limits limits = {};
		struct diff_verdict verdict;
		struct diff *diff;
		char *text = NULL;
		size_t len;
		FILE *out = open_memstream(&text, &len);

		assert_null(diff_limits__parse(cases[at].limits, &limits));
		limits.least = cases[at].least;
		assert_int_equal(diff__new(&options, n, &diff), 0);
		for (i = 0; i < (int)n; i++)
			assert_int_equal(diff__read(diff, fds[n == 6 ? i : 3 * (cases[at].back ? 1 - i : i)], "it", i >= (int)n / 2), 0);
		assert_int_equal(diff__finish(diff), 0);
		assert_int_equal(diff__judge(diff, &limits, "", out, &verdict), 0);
		fflush(out);
		assert_int_equal(verdict.exceeded, cases[at].exceeded);
		assert_int_equal(verdict.light, cases[at].light);
		assert_memory_equal(text, cases[at].line, strlen(cases[at].line));
		assert_int_equal(!verdict.unknown, !cases[at].unknown);
		if (verdict.unknown)
			assert_string_equal(verdict.unknown, cases[at].unknown);
		rewind(out);
		assert_int_equal(diff__markdown(diff, &limits, out), 0);
		fclose(out);
		assert_int_equal(!strstr(text, "\nNot counted: 1 more, by less than "), !cases[at].light);
		if (strstr(cases[at].limits, "unit")) {
			assert_int_equal(!strstr(text, "- `unit a\\|b'c: new, 0.030 s`\n"), cases[at].light);
			assert_non_null(strstr(text, "| `a\\|b'c` **new** | 0.000 % | "));
		}
		assert_null(strstr(text, "b`c"));
		free(text);
		diff__free(diff);
	}
	for (at = 0; at < sizeof(wrong) / sizeof(wrong[0]); at++)
		assert_non_null(diff_limits__parse(wrong[at], &(struct diff_limits){}));
	for (i = 0; i < 6; i++)
		close(fds[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles),
		cmocka_unit_test(shares),
		cmocka_unit_test(names_without_addresses),
		cmocka_unit_test(several_recordings),
		cmocka_unit_test(against_the_rest),
		cmocka_unit_test(a_shared_machine),
		cmocka_unit_test(cells_are_halved),
		cmocka_unit_test(the_same_does_not_differ),
		cmocka_unit_test(what_has_nothing_in_common),
		cmocka_unit_test(what_samples_stand_for),
		cmocka_unit_test(cut_compiles_are_left_out),
		cmocka_unit_test(a_window_cuts_compiles),
		cmocka_unit_test(compiles_are_as_sure_as_recordings_agree),
		cmocka_unit_test(what_is_gone_is_said),
		cmocka_unit_test(scripts_are_the_same_by_place),
		cmocka_unit_test(limits_of_growth),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Makes rows for the functions that code_bare.c found. Each is followed from its first instruction, with the state of a
 * function that was just called.
 *
 * A jump from one function into another, with something on the stack, shows how the other is entered: it is then
 * followed a second time, with that state as well. The cold part of a function (gcc's NAME.cold) is entered in no other
 * way. */
#include "unwind/code_file.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/array.h"
#include "base/order.h"
#include "base/search.h"

#define BYTES_MAX (256u << 20) /* of code that one call may follow */
/* The same for a file that is not a JIT object: samples wait for its table, and so do other files (OpenBLAS has kernels
 * for every CPU: 0.6 s of following). The smallest functions come first; others are followed when a walk stops in one
 * of them (table__follow()). */
#define FILE_BYTES (64u << 10)
/* Walks are likely to stop in neighbours of such a function next: these are followed in the same job. */
#define AROUND_BYTES (16u << 10)
#define ARRIVALS_MAX 4096u /* jumps from one function into another */
/* Bytes of an entry of a PLT. */
#define STUB 16u

/* --- following --- */

/* From a state of code.h to a row of the builder, by way of call frame information. */
static int take_row(struct code_rows *rows, uint64_t pc, const struct code_state *state, int why)
{
	struct builder *b = ((struct following *)rows)->b;
	struct cfi_cie cie = {.signal = state && state->signal};
	struct cfi_state cfi;

	if (state)
		why = code_state__cfi(state, &cfi);
	return b->rows_of.row(&b->rows_of, pc, &cie, why < 0 ? &cfi : NULL, why);
}

/* The function that contains `at`, or NULL; they no longer overlap. */
static struct bare *holder(struct following *f, uint64_t at)
{
	uint32_t low = SEARCH(i, f->n_bare, f->bare[i].start <= at);

	return low && at - f->bare[low - 1].start < f->bare[low - 1].size ? &f->bare[low - 1]
									  : NULL;
}

/* Without this, a loop of jumps between two functions would add the same arrival again and again. */
static bool is_known(const struct following *f, const struct arrival *arrival)
{
	uint32_t i;

	for (i = 0; i < f->n_arrivals; i++)
		if (f->arrivals[i].at == arrival->at &&
		    !memcmp(&f->arrivals[i].state, &arrival->state, sizeof(arrival->state)))
			return true;
	return false;
}

/* A path leaves one function for `target` in another. An ordinary tail call needs nothing; otherwise the state is an
 * entry for the second pass. In the second pass new ones come too late: their function is refused. */
static int take_arrival(struct code_rows *rows, uint64_t target, const struct code_state *state)
{
	struct following *f = (struct following *)rows;
	struct bare *to = holder(f, target);
	struct arrival arrival = {.at = target};
	int err;

	if (!to || (target == to->start && code_state__is_fresh(state)))
		return 0;
	memcpy(&arrival.state, state, sizeof(*state));
	if (is_known(f, &arrival))
		return 0;
	if (f->again || f->n_arrivals == ARRIVALS_MAX) {
		to->refused = !to->later;
		return 0;
	}
	if (to->size <= FILE_BYTES && f->n_vaddrs)
		to->later = false; /* the other part of a function that is being followed */
	err = ARRAY_RESERVE(f->arrivals, f->n_arrivals, f->arrivals_capacity);
	if (err)
		return err;
	memcpy(&f->arrivals[f->n_arrivals++], &arrival, sizeof(arrival));
	to->entered = true;
	return 0;
}

/* Beyond ENTRIES_MAX they are left out: code that only they reach gets UNWIND_UNSUPPORTED_CODE_REACHED. */
static int add_entry(struct following *f, struct code_entry entry)
{
	if (f->n_entries == ENTRIES_MAX)
		return 0;
	return ARRAY_ADD(f->entries, f->n_entries, f->entries_capacity, entry);
}

/* The entries of a function: its start, symbols inside it (`inside`), and jumps from other functions. */
static int make_entries(struct following *f, const struct bare *bare, const uint8_t *bytes, const uint64_t *inside,
			uint32_t n_inside)
{
	uint64_t at;
	uint32_t i;
	int err = 0;

	for (i = 0; !err && f->again && i < f->n_arrivals; i++) {
		at = f->arrivals[i].at - bare->start;
		if (at < bare->size)
			err = add_entry(f, (struct code_entry){.at = (uint32_t)at, .state = &f->arrivals[i].state});
	}
	if (!err && !bare->cold && !bare->stubs)
		err = add_entry(f, (struct code_entry){});
	for (i = 0; !err && i < n_inside; i++)
		err = add_entry(f, (struct code_entry){.at = (uint32_t)(inside[i] - bare->start)});
	/* On its first use a PLT stub goes on after its jump (lazy binding): an entry of its own. */
	for (at = bare->head ? STUB : 0; !err && bare->stubs && at + STUB <= bare->size && f->n_entries + 1 < ENTRIES_MAX; at += STUB) {
		err = add_entry(f, (struct code_entry){.at = (uint32_t)at});
		if (!err && bytes[at] == 0xff && bytes[at + 1] == 0x25)
			err = add_entry(f, (struct code_entry){.at = (uint32_t)at + 6});
	}
	return err;
}

/* Follows one function; in the second pass once more, with more entries. f->bytes is the budget of the whole call. */
static int follow(struct following *f, struct bare *bare, const uint64_t *inside, uint32_t n_inside)
{
	const Elf64_Shdr *section = following__section(f, bare->start);
	struct code_function function = {.address = bare->start};
	_cleanup_free_ uint8_t *bytes = NULL;
	bool left_out = bare->later || bare->hopeless || bare->size > CODE_FUNCTION_MAX ||
			bare->size > f->bytes;
	uint64_t size = bare->size;
	int err = 0;

	if (!left_out) {
		bytes = malloc(size);
		if (!bytes)
			return -ENOMEM;
		if (elf_bytes__read(f->source,
				    section->sh_offset + (bare->start - section->sh_addr), bytes,
				    size))
			return 0;
		/* Only what is read counts, and in both passes. */
		f->bytes -= size;
	}
	/* In the first pass it begins a function of the builder; in the second its rows are made anew. */
	if (bare->function == UINT32_MAX)
		err = builder__begin(f->b, bare->start, size, &bare->function);
	else
		builder__again(f->b, bare->function);
	if (err)
		return err == -ENOENT ? 0 : err;
	function.bytes = bytes;
	function.size = (uint32_t)size;
	function.half = bare->cold || bare->entered;
	f->n_entries = 0;
	err = left_out ? 0 : make_entries(f, bare, bytes, inside, n_inside);
	if (err)
		return err;
	function.entries = f->entries;
	function.n_entries = f->n_entries;
	if (!function.n_entries)
		return take_row(&f->rows, bare->start, NULL,
				bare->later    ? f->unfollowed
				: !left_out || bare->hopeless ? UNWIND_UNSUPPORTED_CODE_REACHED
					       : UNWIND_UNSUPPORTED_CODE_LIMIT);
	return code__run(f->decoder, &function, &f->rows);
}

/* Did a walk stop in this function? */
static bool is_wanted(const struct following *f, const struct bare *bare)
{
	uint32_t low = SEARCH(i, f->n_vaddrs, f->vaddrs[i] < bare->start);

	return low < f->n_vaddrs && f->vaddrs[low] - bare->start < bare->size;
}

/* From the function at `at` in both directions, the nearer one first, until AROUND_BYTES (shared by all places) are
 * used. */
static void take_around(struct following *f, uint32_t at)
{
	uint64_t left = AROUND_BYTES / f->n_vaddrs;
	uint32_t low = at, high = at + 1;

	while ((low || high < f->n_bare) && left) {
		bool up = !low || (high < f->n_bare && f->bare[high].start - f->bare[at].start <
							       f->bare[at].start - f->bare[low - 1].start);
		struct bare *bare = &f->bare[up ? high++ : --low];

		if (bare->size > left)
			return;
		left -= bare->size;
		bare->later = false;
	}
}

/* Sets `later` for the functions that are not followed now: the largest, so that the rest fits into the limit; or with
 * places, those in which no walk stopped. */
static int choose(struct following *f)
{
	_cleanup_free_ uint64_t *sizes = malloc((f->n_bare + 1) * sizeof(*sizes));
	uint64_t sum = 0, most = f->b->elf->loaded_only ? BYTES_MAX : FILE_BYTES,
		 size_max = CODE_FUNCTION_MAX;
	uint32_t i;

	if (!sizes)
		return -ENOMEM;
	for (i = 0; i < f->n_bare; i++)
		sizes[i] = f->bare[i].size;
	qsort(sizes, f->n_bare, sizeof(*sizes), order__u64);
	for (i = 0; i < f->n_bare; i++) {
		if (sizes[i] > most - sum) {
			size_max = sizes[i] - 1;
			break;
		}
		sum += sizes[i];
	}
	for (i = 0; i < f->n_bare; i++)
		f->bare[i].later = f->n_vaddrs ? !is_wanted(f, &f->bare[i])
					       : f->bare[i].size > size_max;
	for (i = 0; i < f->n_bare; i++)
		if (f->n_vaddrs && is_wanted(f, &f->bare[i]))
			take_around(f, i);
	return 0;
}

/* Follows all functions. A symbol inside another function is no function of its own but a further entry of that one. */
static int follow_all(struct following *f)
{
	_cleanup_free_ uint64_t *inside = malloc((f->n_bare + 1) * sizeof(*inside));
	_cleanup_free_ uint32_t *first = malloc((f->n_bare + 1) * sizeof(*first));
	uint32_t n = 0, k = 0, i;
	int err = 0;

	if (!inside || !first)
		return -ENOMEM;
	for (i = 0; i < f->n_bare; i++) {
		const struct bare *before = n ? &f->bare[n - 1] : NULL;

		if (before && f->bare[i].start - before->start < before->size) {
			if (f->bare[i].start != before->start && !f->bare[i].cold)
				inside[k++] = f->bare[i].start;
			continue;
		}
		first[n] = k;
		f->bare[n++] = f->bare[i];
	}
	first[n] = k;
	f->n_bare = n;
	err = choose(f);
	for (i = 0; !err && i < n; i++)
		err = follow(f, &f->bare[i], inside + first[i], first[i + 1] - first[i]);
	/* Second pass, for functions that jumps enter. If their entries are still incomplete, they get no rows. */
	f->again = true;
	for (i = 0; !err && i < n; i++)
		if (f->bare[i].entered)
			err = follow(f, &f->bare[i], inside + first[i], first[i + 1] - first[i]);
	for (i = 0; !err && i < n; i++) {
		f->b->followed += !f->bare[i].later;
		/* A function whose entries are not all known cannot be believed: one row that says so. */
		if (!f->bare[i].refused || f->bare[i].function == UINT32_MAX)
			continue;
		builder__again(f->b, f->bare[i].function);
		err = take_row(&f->rows, f->bare[i].start, NULL, UNWIND_UNSUPPORTED_CODE_REACHED);
	}
	return err;
}

/* Everything that is found is freed at the end; what stays are functions and rows in `b`. */
int builder__follow(struct builder *b, const struct elf_bytes *source, const uint64_t *vaddrs,
		    uint32_t n_vaddrs)
{
	struct following *f = calloc(1, sizeof(*f));
	_cleanup_free_ uint64_t *hints = calloc(n_vaddrs + 1, sizeof(*hints));
	int err;

	if (!f || !hints) {
		free(f);
		return -ENOMEM;
	}
	f->rows = (struct code_rows){.row = take_row, .leaves = take_arrival};
	f->b = b;
	f->source = source;
	f->bytes = BYTES_MAX;
	f->vaddrs = vaddrs;
	f->hints = hints;
	f->n_vaddrs = n_vaddrs;
	f->unfollowed = b->gaps == RULE_LATER ? UNWIND_UNSUPPORTED_CODE_LATER
					      : UNWIND_UNSUPPORTED_CODE_LIMIT;
	err = code_decoder__new(&f->decoder);
	err = err ?: following__find(f);
	if (!err && f->n_bare)
		err = follow_all(f);
	code_decoder__free(f->decoder);
	free(f->starts);
	free(f->before);
	free(f->reach);
	free(f->bare);
	free(f->arrivals);
	free(f->entries);
	free(f->code);
	free(f);
	return err;
}

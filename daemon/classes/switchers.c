/* SPDX-License-Identifier: MIT */
/* Finds the functions of an interpreter that take and release the GIL, and those that the eval loop calls for that
 * between two instructions. They are not exported: take_gil() is what both PyEval_RestoreThread() and
 * PyEval_AcquireThread() call, drop_gil() what PyEval_SaveThread() and PyEval_ReleaseThread() call.
 *
 * Why: a thread that waits for the GIL between two instructions stands behind a call that has returned already. With
 * these rows profile/callee.c knows that the instruction calls nothing. Sources: Python/ceval_gil.h (3.8 to 3.11),
 * Python/ceval_gil.c (3.12+). */
#include "classes/search.h"

#include <errno.h>

#include "arch/arch.h"
#include "base/cleanup.h"

/* Bounds of code that is searched: of one function, and of the eval loop. */
#define SWITCHER_BYTES 4096u
#define EVAL_BYTES (1u << 20)
#define NEAR 24u /* bytes from one call to the next */
/* PyAPI_FUNC since 3.12: Python/ceval_gil.c. */
static const char handler[] = "_Py_HandlePending";

struct functions {
	uint64_t at[JUMPS_FROM];
	uint32_t n;
};

static bool has(const struct functions *functions, uint64_t at)
{
	uint32_t i;

	for (i = 0; i < functions->n && functions->at[i] != at; i++)
		;
	return i < functions->n;
}

/* What this exported function calls or jumps to; none if the file lacks the symbol. */
static struct functions called_by(const struct search *search, const struct code_frames *frames, const char *symbol)
{
	struct functions ret = {};
	uint64_t address;

	if (data__symbol(search->data, symbol, &address))
		ret.n = jumps__from(search->data, frames, address, true, ret.at);
	return ret;
}

/* Adds the functions that both call, if they are not exported and not in `but`. */
static void add_common(const struct search *search, const struct code_frames *frames, const char *one, const char *other,
		       const struct functions *but, struct functions *to)
{
	const struct functions a = called_by(search, frames, one), b = called_by(search, frames, other);

	for (uint32_t i = 0; i < a.n && to->n < JUMPS_FROM; i++)
		if (has(&b, a.at[i]) && !has(to, a.at[i]) && !has(but, a.at[i]) && !data__is_exported(search->data, a.at[i]))
			to->at[to->n++] = a.at[i];
}

static int add(struct search *search, uint64_t address)
{
	return search__add(search, address, "", CALLABLE_SWITCHER_NAME, CALLABLE_SWITCHER);
}

/* eval_frame_handle_pending() of 3.9 to 3.11, where it is a function of its own (Python/ceval.c). */
static int add_callers(struct search *search, const struct code_frames *frames, const struct functions *take, const struct functions *drop)
{
	enum machine_transfer transfer;
	uint8_t code[SWITCHER_BYTES];
	bool takes, drops;
	uint64_t target;
	int err = 0;

	for (uint32_t i = 0; !err && i < frames->n; i++) {
		const struct code_piece *piece = &frames->pieces[i];

		if (piece->size > sizeof(code) ||
		    !data__bytes(search->data, piece->start, code, (uint32_t)piece->size))
			continue;
		takes = drops = false;
		for (uint32_t at = 0; at < piece->size; at++) {
			transfer = machine__transfer(code + at, piece->size - at, piece->start + at, &target);
			if (transfer != MACHINE_CALL && transfer != MACHINE_JUMP)
				continue;
			takes |= has(take, target);
			drops |= has(drop, target);
		}
		if (takes && drops && !data__is_exported(search->data, piece->start))
			err = add(search, piece->start);
	}
	return err;
}

/* Is there a direct call at byte `at` of the piece? */
static bool calls(const uint8_t *code, const struct code_piece *piece, uint32_t at, uint64_t *ret)
{
	return machine__transfer(code + at, piece->size - at, piece->start + at, ret) == MACHINE_CALL;
}

/* take_gil() may be there twice, as gcc knows one argument in one of them; the eval loop calls the other, right
 * after drop_gil(). */
static int add_after_drop(struct search *search, const struct code_frames *frames, const struct functions *drop)
{
	const struct code_piece *piece = NULL, *called;
	_cleanup_free_ uint8_t *code = NULL;
	uint64_t address, target;
	uint32_t at, next, end;
	int err = 0;

	if (data__symbol(search->data, "_PyEval_EvalFrameDefault", &address))
		piece = code_frames__find(frames, address);
	if (!piece || piece->size > EVAL_BYTES)
		return 0;
	code = malloc(piece->size);
	if (!code)
		return -ENOMEM;
	if (!data__bytes(search->data, piece->start, code, (uint32_t)piece->size))
		return 0;
	for (at = 0; !err && at + MACHINE_CALL_BYTES + NEAR <= piece->size; at++) {
		if (!calls(code, piece, at, &target) || !has(drop, target))
			continue;
		end = at + NEAR;
		for (next = at + MACHINE_CALL_BYTES; next < end && !machine__is_call(code + next); next++)
			;
		called = calls(code, piece, next, &target) ? code_frames__find(frames, target) : NULL;
		if (called && called->start == target && !data__is_exported(search->data, target))
			err = add(search, target);
	}
	return err;
}

/* The functions that release the GIL come first: `but` excludes them from those that take it. */
int search__switchers(struct search *search, const struct code_frames *frames)
{
	struct functions take = {}, drop = {};
	uint64_t address;
	int err = 0;

	add_common(search, frames, "PyEval_SaveThread", "PyEval_ReleaseThread", &drop, &drop);
	add_common(search, frames, "PyEval_ReleaseLock", "PyEval_ReleaseLock", &drop, &drop); /* up to 3.12 */
	add_common(search, frames, "PyEval_RestoreThread", "PyEval_AcquireThread", &drop, &take);
	add_common(search, frames, "PyEval_AcquireLock", "PyEval_AcquireLock", &drop, &take);
	for (uint32_t i = 0; !err && i < take.n; i++)
		err = add(search, take.at[i]);
	for (uint32_t i = 0; !err && i < drop.n; i++)
		err = add(search, drop.at[i]);
	if (err)
		return err;
	if (data__symbol(search->data, handler, &address))
		return add(search, address);
	return add_callers(search, frames, &take, &drop) ?: add_after_drop(search, frames, &drop);
}

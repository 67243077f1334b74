/* SPDX-License-Identifier: MIT */
/* Every way to lose a sample or a frame: id, name, sentence.
 *
 * BPF programs count by id; the daemon and the stream use the name, the summary the sentence. New entries go at the
 * end, because ids are part of records.
 *
 * SAMPLE: a tick without any stack. FRAMES: the stack is incomplete. DETAIL: the stack is complete, a name or a line is
 * missing. */
#pragma once

/* clang-format off */
#define CPROFD_LOSSES(X) \
	X(NONE,            DETAIL, "none",             "nothing was lost") \
	X(TICK_MISSED,     SAMPLE, "tick_missed",      "the timer did not fire in time") \
	X(RING_FULL,       SAMPLE, "ring_full",        "the ring buffer was full: the reader was too slow") \
	X(PROCESS_UNKNOWN, SAMPLE, "process_unknown",  "the process was not identified yet") \
	X(NO_SCRATCH,      SAMPLE, "no_scratch",       "no scratch space for this CPU") \
	X(RECORD_BAD,      SAMPLE, "record_bad",       "a record did not have the form that the contract gives") \
	X(TSTATE_READ,     FRAMES, "tstate_read",      "the thread state could not be read") \
	X(TSTATE_SEARCH,   FRAMES, "tstate_search",    "the list of thread states was longer than the search") \
	X(FRAME_READ,      FRAMES, "frame_read",       "a Python frame could not be read") \
	X(FRAME_HALF,      FRAMES, "frame_half",       "a Python frame was half made") \
	X(FRAME_CYCLE,     FRAMES, "frame_cycle",      "the chain of Python frames did not end") \
	X(FRAME_DEPTH,     FRAMES, "frame_depth",      "the Python stack was deeper than the record") \
	X(CODE_READ,       FRAMES, "code_read",        "a code object could not be read") \
	X(CODE_DYING,      FRAMES, "code_dying",       "a frame's code object was being freed") \
	X(PAGE_FAULT,      FRAMES, "page_fault",       "a page of the target was not resident") \
	X(CODE_UNCAPTURED, DETAIL, "code_uncaptured",  "a code object was gone before its names were read") \
	X(LINES_PARTIAL,   DETAIL, "lines_partial",    "a line table was not read whole yet: line unknown") \
	X(LINES_BAD,       DETAIL, "lines_bad",        "a line table did not decode: line unknown") \
	X(CAPTURE_LIMIT,   DETAIL, "capture_limit",    "more new code objects than are read at once") \
	X(CHILD_MISSED,    SAMPLE, "child_missed",     "a child process ended before it was identified") \
	X(CLIENT_GAP,      SAMPLE, "client_gap",       "the client read too slowly: events were dropped for it") \
	X(DISK_FULL,       SAMPLE, "disk_full",        "the recording could not be written further") \
	X(THREAD_ENDED,    SAMPLE, "thread_ended",     "a thread was sampled long after its end: its time was reported already") \
	X(NATIVE_MAPPING,  FRAMES, "native_mapping",   "a return address lies in no code that is known") \
	X(NATIVE_PENDING,  FRAMES, "native_pending",   "the unwind table of a library was still being built") \
	X(NATIVE_NO_RULE,  FRAMES, "native_no_rule",   "native code without call frame information") \
	X(NATIVE_RULE,     FRAMES, "native_rule",      "call frame information of a kind that is not supported") \
	X(NATIVE_REGISTER, FRAMES, "native_register",  "a frame needs a register that its callees did not keep") \
	X(NATIVE_ORDER,    FRAMES, "native_order",     "a native frame does not lie above its callee's") \
	X(NATIVE_TABLE,    FRAMES, "native_table",     "an unwind table does not fit together") \
	X(NATIVE_DEPTH,    FRAMES, "native_depth",     "the native stack was deeper than the walk") \
	X(WEAVE_COUNT,     FRAMES, "weave_count",      "native and Python frames did not match: frames were left out") \
	X(WEAVE_NO_EVAL,   FRAMES, "weave_no_eval",    "the interpreter's eval loop was not found: native frames were left out") \
	X(WEAVE_GUESS,     DETAIL, "weave_guess",      "native frames were placed among Python frames by a guess") \
	X(KERNEL_STACK,    FRAMES, "kernel_stack",     "the kernel gave no stack of its own") \
	X(KERNEL_HIDDEN,   DETAIL, "kernel_hidden",    "the kernel hides where its functions lie (kernel.kptr_restrict)") \
	X(WAIT_SLOTS,      SAMPLE, "wait_slots",       "more threads than are followed while they wait") \
	X(WAIT_STACK,      FRAMES, "wait_stack",       "where a thread waited was not seen") \
	X(NOT_AUTHORISED,  SAMPLE, "not_authorised",   "the process was one that its user may not read") \
	X(TARGET_MUTE,     DETAIL, "target_mute",      "memory of the target, or a file that it maps, could not be read in time") \
	X(SWITCHING,       DETAIL, "switching",        "a greenlet was being switched: frames that were already another one's were left out") \
	X(UNIT_NAME,       DETAIL, "unit_name",        "a compile was over before its name could be read") \
	X(WATCH_FULL,      DETAIL, "watch_full",       "more threads are in Python than are followed beside those that compile: a compile that waits there may be missing")
/* clang-format on */

#define CPROFD_LOSS_ENUM(id, kind, name, sentence) LOSS_##id,
enum loss { CPROFD_LOSSES(CPROFD_LOSS_ENUM) LOSS_COUNT };
#undef CPROFD_LOSS_ENUM

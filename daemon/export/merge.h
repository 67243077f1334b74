/* SPDX-License-Identifier: MIT */
/* Merges the slices of one or several threads in the order of time. Neighbours with equal stacks are always joined.
 * With a bin length, equal stacks within each bin of time are joined, too: that keeps every sum, and loses only the
 * order inside a bin. Private to this directory. Errors: -errno. */
#pragma once

#include "export/model.h"

struct merge_visitor {
	void (*slice)(struct merge_visitor *self, uint32_t stack, uint64_t ns);
};

struct merge;
/* The model and `fold` are borrowed. fold[node]: the node that is shown instead of it. */
int merge__new(const struct model *model, const uint32_t *fold, struct merge **ret);
struct merge *merge__free(struct merge *merge);
/* bin 0 (neighbours only) is for a single thread. Calls the visitor for each merged slice, in the order of
 * time. The sum of its ns is that of the slices. May be run again with another bin. */
int merge__run(struct merge *merge, struct model_thread *const *threads, uint32_t n, uint64_t bin,
	       struct merge_visitor *visitor);

/* ns of each node including its descendants, over the given threads. The caller frees it. */
int merge__subtree_ns(const struct model *model, struct model_thread *const *threads, uint32_t n,
		      uint64_t **ret);
/* Folds each node lighter than `below` into its nearest caller that is not, or into (folded) if there is none. */
void merge__fold(const struct model *model, const uint64_t *subtree_ns, uint64_t below,
		 uint32_t *ret_fold);

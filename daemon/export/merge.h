/* SPDX-License-Identifier: MIT */
/* Slices of one or several threads, in the order of time, merged: neighbours of
 * equal stack always; with a bin, also equal stacks within each bin of time,
 * which keeps every sum and gives up only the order inside a bin. Private to
 * this folder. Errors: -errno. */
#ifndef CPROFD_EXPORT_MERGE_H
#define CPROFD_EXPORT_MERGE_H

#include "export/model.h"

struct merge_visitor {
	void (*slice)(struct merge_visitor *self, uint32_t stack, uint64_t ns);
};

struct merge;
/* The model and `fold` are borrowed. fold[node]: the node that stands for it. */
int merge__new(const struct model *model, const uint32_t *fold, struct merge **ret);
struct merge *merge__free(struct merge *merge);
/* bin 0 (neighbours only) is for a single thread. */
int merge__run(struct merge *merge, struct model_thread *const *threads, uint32_t n, uint64_t bin,
	       struct merge_visitor *visitor);

/* ns of each node and of what is below it, over the threads given. Owned by the caller. */
int merge__subtree_ns(const struct model *model, struct model_thread *const *threads, uint32_t n,
		      uint64_t **ret);
/* Folds each node lighter than `below` into the nearest caller that is not, and
 * what has none into (folded). */
void merge__fold(const struct model *model, const uint64_t *subtree_ns, uint64_t below,
		 uint32_t *ret_fold);

#endif

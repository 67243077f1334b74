/* SPDX-License-Identifier: MIT */
/* Makes the maps of a loaded sampler as they were when it was loaded, so that its verified programs serve another session of the
 * same client. The bytes of a ring buffer's records stay, behind the position that is read from.
 *
 * Errors: -errno; -ENOTSUP: a map of a kind that cannot be cleared. Threads: any one, while nothing is attached. */
#ifndef CPROFD_BROKER_EMPTY_H
#define CPROFD_BROKER_EMPTY_H

struct bpf_object;
int empty__maps(const struct bpf_object *object);

#endif

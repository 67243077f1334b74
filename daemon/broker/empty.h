/* SPDX-License-Identifier: MIT */
/* Resets the maps of a loaded sampler, so that its verified programs can serve another session of the same client.
 * The bytes of old records stay in the ring buffer, before the read position.
 *
 * Errors: -errno; -ENOTSUP: a type of map that cannot be cleared. Threads: any one, while no program is attached. */
#pragma once

struct bpf_object;
int empty__maps(const struct bpf_object *object);

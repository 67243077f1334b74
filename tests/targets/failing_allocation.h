/* SPDX-License-Identifier: MIT */
#ifndef FAILING_ALLOCATION_H
#define FAILING_ALLOCATION_H
/* The first argument of a getpid() that stands for an allocation. The others: who allocates, and the stack's address. */
#define FAILING_ALLOCATION 0xfa11a110cfa11a11
#endif

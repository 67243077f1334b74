/* SPDX-License-Identifier: MIT */
/* The table of slots: {number in typeslots.h, table, offset in it in bytes, Python name}. A function that a type has
 * there can be called by an expression: `a + b` calls nb_add, "int.__add__". Slots without an expression
 * (tp_traverse) are left out; tp_dealloc has no name. Where a slot serves two methods the more frequent name stands for both:
 * nb_add is __add__ and __radd__. */
#include "classes/search.h"

#include <stddef.h>

/* clang-format off */
const struct slot slots_of_types[] = {
	{66, SLOT_TYPE, 88, "__repr__"}, {59, SLOT_TYPE, 120, "__hash__"}, {50, SLOT_TYPE, 128, "__call__"},
	{70, SLOT_TYPE, 136, "__str__"}, {67, SLOT_TYPE, 200, "__eq__"}, {62, SLOT_TYPE, 216, "__iter__"},
	{63, SLOT_TYPE, 224, "__next__"}, {60, SLOT_TYPE, 296, ""}, {65, SLOT_TYPE, 312, ""},
	{52, SLOT_TYPE, 48, NULL},
	{0, SLOT_TYPE, 400, ""}, /* tp_vectorcall; 3.8 has none that matters */
	{7, SLOT_NUMBER, 0, "__add__"}, {36, SLOT_NUMBER, 8, "__sub__"}, {29, SLOT_NUMBER, 16, "__mul__"},
	{34, SLOT_NUMBER, 24, "__mod__"}, {10, SLOT_NUMBER, 32, "__divmod__"}, {33, SLOT_NUMBER, 40, "__pow__"},
	{30, SLOT_NUMBER, 48, "__neg__"}, {32, SLOT_NUMBER, 56, "__pos__"}, {6, SLOT_NUMBER, 64, "__abs__"},
	{9, SLOT_NUMBER, 72, "__bool__"}, {27, SLOT_NUMBER, 80, "__invert__"}, {28, SLOT_NUMBER, 88, "__lshift__"},
	{35, SLOT_NUMBER, 96, "__rshift__"}, {8, SLOT_NUMBER, 104, "__and__"}, {38, SLOT_NUMBER, 112, "__xor__"},
	{31, SLOT_NUMBER, 120, "__or__"}, {26, SLOT_NUMBER, 128, "__int__"}, {11, SLOT_NUMBER, 144, "__float__"},
	{14, SLOT_NUMBER, 152, "__iadd__"}, {23, SLOT_NUMBER, 160, "__isub__"}, {18, SLOT_NUMBER, 168, "__imul__"},
	{21, SLOT_NUMBER, 176, "__imod__"}, {20, SLOT_NUMBER, 184, "__ipow__"}, {17, SLOT_NUMBER, 192, "__ilshift__"},
	{22, SLOT_NUMBER, 200, "__irshift__"}, {15, SLOT_NUMBER, 208, "__iand__"}, {25, SLOT_NUMBER, 216, "__ixor__"},
	{19, SLOT_NUMBER, 224, "__ior__"}, {12, SLOT_NUMBER, 232, "__floordiv__"}, {37, SLOT_NUMBER, 240, "__truediv__"},
	{16, SLOT_NUMBER, 248, "__ifloordiv__"}, {24, SLOT_NUMBER, 256, "__itruediv__"}, {13, SLOT_NUMBER, 264, "__index__"},
	{75, SLOT_NUMBER, 272, "__matmul__"}, {76, SLOT_NUMBER, 280, "__imatmul__"},
	{45, SLOT_SEQUENCE, 0, "__len__"}, {40, SLOT_SEQUENCE, 8, "__add__"}, {46, SLOT_SEQUENCE, 16, "__mul__"},
	{44, SLOT_SEQUENCE, 24, "__getitem__"}, {39, SLOT_SEQUENCE, 40, "__setitem__"}, {41, SLOT_SEQUENCE, 56, "__contains__"},
	{42, SLOT_SEQUENCE, 64, "__iadd__"}, {43, SLOT_SEQUENCE, 72, "__imul__"},
	{4, SLOT_MAPPING, 0, "__len__"}, {5, SLOT_MAPPING, 8, "__getitem__"}, {3, SLOT_MAPPING, 16, "__setitem__"},
	{77, SLOT_TYPE, 0, "__await__"}, {78, SLOT_TYPE, 0, "__aiter__"}, {79, SLOT_TYPE, 0, "__anext__"}, /* specs only */
};
/* clang-format on */
const uint32_t n_slots_of_types = sizeof(slots_of_types) / sizeof(slots_of_types[0]);

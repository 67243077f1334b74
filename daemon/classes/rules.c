/* SPDX-License-Identifier: MIT */
/* The table of native code that belongs to a compiler or to a JIT's dispatch (rules.h). The first row that matches
 * applies.
 *
 * In patterns * stands for any bytes (rules/rules.h). Order matters: "(callee)" before the module's own row, exceptions (CLASS_NONE)
 * before the row that they are exceptions of. */
#include "classes/rules.h"

#include <stddef.h>

#include "classes/classes.h"

/* clang-format off */
const struct class_rule class_rules[] = {
	/* Numba: the dispatcher selects the compiled version by the types of the arguments; its helpers, and a wrapper
	 * around each kernel, unbox and box values. Reference counting (NRT) works for both, so it counts for its
	 * caller. */
	{"(callee)", "_dispatcher.Dispatcher.__call__", CLASS_DISPATCH, "Numba"},
	{"_dispatcher.*", NULL, CLASS_DISPATCH, "Numba"},
	{"_nrt_python.*", NULL, RULE_OF_CALLER, ""},
	{"_helperlib.*", "*numba_*", CLASS_NONE, ""}, /* mathematics, called by kernels */
	{"_helperlib.*", NULL, CLASS_DISPATCH, "Numba"},
	{"JIT", "NRT_*", RULE_OF_CALLER, ""},
	{"JIT", "nrt_*", RULE_OF_CALLER, ""},
	{"JIT", "*[cpython wrapper]", CLASS_DISPATCH, "Numba"},
	{"JIT", "cpython::*", CLASS_DISPATCH, "Numba"},
	{"JIT", "_ZN7cpython*", CLASS_DISPATCH, "Numba"},

	{"libllvmlite.*", NULL, CLASS_COMPILER, "LLVM"},
	{"libLLVM*", NULL, CLASS_COMPILER, "LLVM"},
	{"libclang*", NULL, CLASS_COMPILER, "LLVM"},
	{"liblld*", NULL, CLASS_COMPILER, "LLVM"},
	{"libtriton*", NULL, CLASS_COMPILER, "Triton"},
	{"libnvrtc*", NULL, CLASS_COMPILER, "NVRTC"},
	{"libnvJitLink*", NULL, CLASS_COMPILER, "nvJitLink"},
	{"libnvvm*", NULL, CLASS_COMPILER, "NVVM"},
	{"libptxcompiler*", NULL, CLASS_COMPILER, "ptxas"},
	{"libgccjit*", NULL, CLASS_COMPILER, "gcc"},

	/* jaxlib has compiler, passes and runtime in one file: only names tell them apart. */
	{"libjax_common*", "*llvm::*", CLASS_COMPILER, "LLVM"},
	{"libjax_common*", "*mlir::*", CLASS_COMPILER, "MLIR"},
	{"libjax_common*", "*xla::*Compile*", CLASS_COMPILER, "XLA"},
	{"libjax_common*", "*xla::*Hlo*", CLASS_COMPILER, "XLA"},
	{"xla_extension*", "*llvm::*", CLASS_COMPILER, "LLVM"},
	{"xla_extension*", "*mlir::*", CLASS_COMPILER, "MLIR"},
	{"xla_extension*", "*xla::*Compile*", CLASS_COMPILER, "XLA"},
	{"xla_extension*", "*xla::*Hlo*", CLASS_COMPILER, "XLA"},
};
/* clang-format on */
const uint32_t n_class_rules = sizeof(class_rules) / sizeof(class_rules[0]);

/* SPDX-License-Identifier: MIT */
/* Names of NumPy's ufuncs. A call of a ufunc shows as "numpy.ufunc.__call__"; its own name (PyUFuncObject.name) says
 * which one it is. Example: for `np.add(a, b)` the call site gives owner "np" and attribute "add"; sys.modules leads
 * to the module numpy and its `add`.
 *
 * Caller: serve/site.c, for such a callee, with the names that its call site loads. */
#include <errno.h>
#include <string.h>

#include "python/object.h"

/* numpy/core/include/numpy/ufuncobject.h: `name` follows nin, nout, nargs, identity, functions, data, ntypes, reserved1
 * */
#define UFUNC_NAME 56u
#define UFUNC_TYPE "numpy.ufunc"

static bool has_type(struct values *values, uint64_t object, const char *name)
{
	struct object_type type;

	values->reads = 0;
	return !object__type(values, object, &type) && !strcmp(type.name, name);
}

int values__modules(struct values *values, uint64_t runtime, uint64_t *ret)
{
	uint64_t interpreter = 0;
	int err;

	if (values->layout->flags & PY_FREE_THREADED)
		return -ENOTSUP;
	values->reads = 0;
	err = object__word(values, runtime + values->layout->interpreters_head, &interpreter);
	err = err ?: object__word(values, interpreter + values->layout->interp_modules, ret);
	return err ? err : has_type(values, *ret, "dict") ? 0 : -ENODATA;
}

/* sys.modules[module].attribute, by the module's dict. The budget of reads begins anew for each of the two dicts. */
static int member(struct values *values, uint64_t modules, const char *module, const char *attribute, uint64_t *ret)
{
	uint64_t object = 0, dict = 0;
	int err;

	values->reads = 0;
	err = dict__find(values, modules, module, &object) ?: object__word(values, object + values->layout->module_dict, &dict);
	values->reads = 0;
	return err ?: dict__find(values, dict, attribute, ret);
}

static int of_numpy(struct values *values, uint64_t modules, const char *attribute, uint64_t *ret)
{
	return member(values, modules, "numpy", attribute, ret);
}

/* Does the global `owner` name NumPy? Whose global it is, is not known: look in __main__; if it is not there, believe
 * the usual import names. */
static bool is_numpy(struct values *values, uint64_t modules, const char *owner)
{
	uint64_t object, numpy;
	int err = member(values, modules, "__main__", owner, &object);

	if (err == -ENODATA)
		return !strcmp(owner, "np") || !strcmp(owner, "numpy") || !strcmp(owner, "umath") || !strcmp(owner, "um");
	values->reads = 0;
	return !err && !dict__find(values, modules, "numpy", &numpy) && object == numpy;
}

static int name_of(struct values *values, uint64_t object, char *ret, size_t size)
{
	uint64_t at = 0;
	int err;

	if (!has_type(values, object, UFUNC_TYPE))
		return -ENODATA;
	values->reads = 0;
	memset(ret, 0, size);
	err = object__word(values, object + UFUNC_NAME, &at) ?: object__read(values, ret, size, at);
	if (err == -EFAULT) /* a short name at the end of the last mapped page */
		err = object__read(values, ret, 16, at);
	return err ? err : *ret && memchr(ret, '\0', size) ? 0 : -ENODATA;
}

/* A global may be bound to several ufuncs in turn (a loop over ufuncs). It is believed only if the ufunc has the
 * global's own name, or is NumPy's attribute of that name. */
static int of_global(struct values *values, uint64_t modules, const char *global, char *ret, size_t size)
{
	uint64_t object, numpy;
	int err = member(values, modules, "__main__", global, &object);

	if (err == -ENODATA)
		err = of_numpy(values, modules, global, &object);
	err = err ?: name_of(values, object, ret, size);
	if (!err && strcmp(ret, global) && (of_numpy(values, modules, global, &numpy) || numpy != object))
		err = -ENODATA;
	return err;
}

int values__ufunc(struct values *values, uint64_t modules, const char *owner, const char *attribute, char *ret, size_t size)
{
	uint64_t object;
	int err;

	if (!owner)
		return of_global(values, modules, attribute, ret, size);
	if (!is_numpy(values, modules, owner))
		return -ENODATA;
	err = of_numpy(values, modules, attribute, &object);
	return err ? err : name_of(values, object, ret, size);
}

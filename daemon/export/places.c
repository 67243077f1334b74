/* SPDX-License-Identifier: MIT */
/* File paths -> Python modules and packages: site-packages/NAME, the standard library, native libraries.
 *
 *     /usr/lib/python3/dist-packages/numba/core/x.py   module numba.core.x   package numba
 *     /usr/lib/python3.11/json/decoder.py              json.decoder          (standard library)
 *     <frozen importlib._bootstrap>                    importlib._bootstrap  (standard library)
 *     /home/me/project/svd.py                          svd                   /home/me/project
 *     <string>                                         (generated code)      (generated code)
 *
 * Only texts are compared: the recording may come from another machine, so no file is opened. */
#include "export/places.h"

#include <stdio.h>
#include <string.h>

#include "events/events.h"

/* The part after the directory of installed packages: "/usr/lib/python3/dist-packages/numba/core/x.py" ->
 * "numba/core/x.py"; NULL: it is in none. */
static const char *after_packages(const char *file)
{
	static const char *const folders[] = {"/site-packages/", "/dist-packages/"};
	const char *after = NULL;

	for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
		const char *at = strstr(file, folders[i]),
			   *end = at ? at + strlen(folders[i]) : NULL;

		/* The last one in the path: a virtual environment may lie inside of an installed package. */
		after = end && end > after ? end : after;
	}
	return after;
}

/* The part after the standard library's directory: "/usr/lib/python3.11/json/decoder.py" -> "json/decoder.py". */
static const char *after_library(const char *file)
{
	const char *at = file;

	while ((at = strstr(at, "/python"))) {
		const char *end = at + strlen("/python");
		size_t digits = strspn(end, "0123456789.");

		end += digits + (end[digits] == 't'); /* free-threaded: python3.14t */
		/* "lib/python3.11/". "lib/python3/", with one digit, is Debian's directory of packages. */
		if (digits > 1 && *end == '/' && at - file >= 4 && !memcmp(at - 4, "/lib", 4))
			return end + 1;
		at += strlen("/python");
	}
	/* The standard library of embedded Pythons: python311.zip. */
	at = strstr(file, ".zip/");
	return at && strstr(file, "/python3") ? at + 5 : NULL;
}

/* "<frozen importlib._bootstrap>" -> "importlib._bootstrap". */
static bool frozen(const char *file, char *out, size_t size)
{
	static const char begin[] = "<frozen ";
	size_t len = strlen(file);

	if (strncmp(file, begin, sizeof(begin) - 1) || file[len - 1] != '>')
		return false;
	snprintf(out, size, "%.*s", (int)(len - sizeof(begin)), file + sizeof(begin) - 1);
	return true;
}

/* "numba/core/__init__.py" -> "numba.core". */
static void dotted(const char *path, char *out, size_t size)
{
	static const char init[] = ".__init__";
	char *at, *dot;
	size_t len;

	snprintf(out, size, "%s", path);
	dot = strrchr(out, '.');
	/* The ending ".py"; a dot in a directory's name is none. */
	if (dot && !strchr(dot, '/'))
		*dot = '\0';
	for (at = out; *at; at++)
		*at = *at == '/' ? '.' : *at;
	len = strlen(out);
	if (len > sizeof(init) - 1 && !strcmp(out + len - (sizeof(init) - 1), init))
		out[len - (sizeof(init) - 1)] = '\0';
}

/* All that is not Python: modules and packages are the same. */
static bool native(uint8_t kind, const char *module, char *out, size_t size)
{
	static const char *const names[] = {
		[FUNCTION_KERNEL] = LOCATION_KERNEL,
		[FUNCTION_NOTE] = PLACE_NOTES,
		[FUNCTION_JIT] = LOCATION_JIT,
		[FUNCTION_INTERPRETER] = LOCATION_INTERPRETER,
		[FUNCTION_CALL] = PLACE_CALLS,
	};

	if (kind == FUNCTION_PYTHON)
		return false;
	if (kind < sizeof(names) / sizeof(names[0]) && names[kind])
		snprintf(out, size, "%s", names[kind]);
	else
		snprintf(out, size, "%s", *module ? basename(module) : LOCATION_UNKNOWN);
	return true;
}

void place__module(uint8_t kind, const char *file, const char *module, char *out, size_t size)
{
	const char *path = after_packages(file);

	if (native(kind, module, out, size) || frozen(file, out, size))
		return;
	path = path ? path : after_library(file);
	if (file[0] == '<' || !file[0])
		snprintf(out, size, "%s", file[0] ? PLACE_GENERATED : LOCATION_UNKNOWN);
	else
		dotted(path ? path : basename(file), out, size);
}

void place__package(uint8_t kind, const char *file, const char *module, char *out, size_t size)
{
	const char *path = after_packages(file), *slash = strrchr(file, '/');

	if (native(kind, module, out, size))
		return;
	if (path && *path) {
		snprintf(out, size, "%.*s", (int)strcspn(path, "/"), path);
		if (!strchr(path, '/')) /* a module of one file */
			dotted(path, out, size);
	} else if (frozen(file, out, size) || after_library(file)) {
		snprintf(out, size, "%s", PLACE_STANDARD);
	} else if (file[0] == '<' || !file[0]) {
		snprintf(out, size, "%s", file[0] ? PLACE_GENERATED : LOCATION_UNKNOWN);
	} else {
		snprintf(out, size, "%.*s", slash > file ? (int)(slash - file) : 1,
			 slash ? file : ".");
	}
}

/* SPDX-License-Identifier: MIT */
/* A line is NUMBER:CONTROLLERS:PATH, one for each hierarchy (cgroups(7)). Runtimes name the directory of a container by
 * its id, behind what their manager of cgroups puts there:
 *
 *     12:pids:/docker/ID                                                       cgroupfs
 *     0::/kubepods.slice/kubepods-pod77.slice/cri-containerd-ID.scope          systemd
 *     0::/kubepods.slice/kubepods-pod77.slice:cri-containerd:ID                containerd, of systemd's form without systemd
 *     0::/../../docker-ID.scope/init.scope                                     seen from another cgroup namespace
 *
 * So the id is the end of a part of the path. The last such part counts: containers nest, and what runs in one may make
 * cgroups below it. */
#include "base/container.h"

#include <stdint.h>
#include <string.h>

/* The end of [at, end) behind the last `separator`. */
static const char *behind(const char *at, const char *end, char separator)
{
	const char *last = memrchr(at, separator, (size_t)(end - at));

	return last ? last + 1 : at;
}

static bool is_id(const char *at, const char *end)
{
	if (end - at != CONTAINER_ID_LEN)
		return false;
	for (; at < end; at++)
		if (!((*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'f')))
			return false;
	return true;
}

/* The id that a part of a path ends in; NULL: none. Podman's and CRI-O's monitor of a container (conmon) is outside of it, in
 * a scope with its id. */
static const char *id_of_part(const char *at, const char *end)
{
	static const char scope[] = ".scope", conmon[] = "conmon-";
	const size_t len = sizeof(scope) - 1, mon = sizeof(conmon) - 1;
	const char *id;

	if ((size_t)(end - at) > len && !memcmp(end - len, scope, len))
		end -= len;
	id = behind(behind(at, end, '-'), end, ':');
	if (!is_id(id, end) || ((size_t)(id - at) >= mon && !memcmp(id - mon, conmon, mon)))
		return NULL;
	return id;
}

/* In the path of one line, from its end. */
static const char *id_of_path(const char *path, const char *end)
{
	while (end > path) {
		const char *part = behind(path, end, '/'), *id = id_of_part(part, end);

		if (id)
			return id;
		end = part > path ? part - 1 : path;
	}
	return NULL;
}

bool container__id(const char *text, size_t len, char ret[CONTAINER_ID_LEN + 1])
{
	const char *end = text + len, *id = NULL, *line_end;

	for (const char *line = text; line < end && !id; line = line_end < end ? line_end + 1 : end) {
		const char *path;

		line_end = memchr(line, '\n', (size_t)(end - line)) ?: end;
		path = memchr(line, ':', (size_t)(line_end - line));
		path = path ? memchr(path + 1, ':', (size_t)(line_end - path - 1)) : NULL;
		id = path ? id_of_path(path + 1, line_end) : NULL;
	}
	ret[0] = '\0';
	if (id) {
		memcpy(ret, id, CONTAINER_ID_LEN);
		ret[CONTAINER_ID_LEN] = '\0';
	}
	return id;
}

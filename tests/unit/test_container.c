/* SPDX-License-Identifier: MIT */
/* Container ids in /proc/PID/cgroup. The texts are of the forms that the runtimes document or that their machines show: Docker, containerd,
 * CRI-O, Podman, LXC; Kubernetes with either driver and either version of cgroups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/container.h"

#define ID "3f1c0e8a5b7d9264e1a0c3b5d7f98246aa10bb32cc54dd76ee98ff0a1b2c3d4e"
#define OTHER "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define UID "a1b2c3d4_1111_2222_3333_444455556666"
#define PODS "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID ".slice"

static const struct {
	const char *text, *id;
} texts[] = {
	/* Docker: cgroup v1, v2 with systemd, v2 with cgroupfs; with its own parent; rootless */
	{"12:pids:/docker/" ID "\n11:cpu,cpuacct:/docker/" ID "\n1:name=systemd:/docker/" ID "\n0::/\n", ID},
	{"0::/system.slice/docker-" ID ".scope\n", ID},
	{"0::/docker/" ID "\n", ID},
	{"0::/ci.slice/docker-" ID ".scope\n", ID},
	{"0::/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope\n", ID},
	/* containerd by itself, and Kubernetes by it */
	{"0::/default/" ID "\n", ID},
	{"0::/system.slice/nerdctl-" ID ".scope\n", ID},
	{"0::" PODS "/cri-containerd-" ID ".scope\n", ID},
	{"11:memory:/kubepods/besteffort/poda1b2c3d4-1111-2222-3333-444455556666/" ID "\n", ID},
	{"0::/kubepods/poda1b2c3d4-1111-2222-3333-444455556666/" ID "\n", ID},
	{"11:memory:/system.slice/containerd.service/kubepods-burstable-pod" UID ".slice:cri-containerd:" ID "\n", ID},
	{"11:devices:/kubepods.slice/kubepods-pod" UID ".slice/docker-" ID ".scope\n", ID},
	/* CRI-O, Podman: with its payload's own cgroup; in a pod; of a user */
	{"0::" PODS "/crio-" ID ".scope\n", ID},
	{"0::" PODS "/crio-" ID ".scope/container\n", ID},
	{"0::/machine.slice/libpod-" ID ".scope/container\n", ID},
	{"0::/machine.slice/machine-libpod_pod_" OTHER ".slice/libpod-" ID ".scope\n", ID},
	{"0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope\n", ID},
	{"9:memory:/libpod_parent/libpod-" ID "\n", ID},
	{"0::/machine.slice/libpod-payload-" ID "\n", ID},
	/* Another cgroup namespace; systemd in a container; a container in a container */
	{"0::/../../docker-" ID ".scope\n", ID},
	{"0::/../cri-containerd-" ID ".scope\n", ID},
	{"0::/../" ID "/init.scope\n", ID},
	{"0::/docker/" ID "/system.slice/cron.service\n", ID},
	{"0::/docker/" OTHER "/kubelet/kubepods/besteffort/pod77/" ID "\n", ID},
	{"0::/system.slice/docker-" OTHER ".scope/docker/" ID "\n", ID},
	/* Only some hierarchies are the runtime's */
	{"9:name=systemd:/\n4:memory:/docker/" ID "\n0::/\n", ID},
	{"0::/docker/" ID, ID},
	/* None */
	{"", ""},
	{"0::/\n", ""},
	{"0::/../..\n", ""},
	{"0::/init.scope\n", ""},
	{"0::/user.slice/user-1000.slice/session-3.scope\n", ""},
	{"0::/system.slice/cprofd.service\n", ""},
	{"0::/system.slice/docker.service\n", ""},
	{"4:memory:/process_api/39434554436381594aa9da5dd0d5e7e0\n", ""},
	{"0::/lxc.payload.name\n", ""},
	{"0::" PODS "\n", ""},
	{"0::/machine.slice/machine-libpod_pod_" ID ".slice\n", ""},
	/* The monitor of a container is outside of it */
	{"0::/machine.slice/libpod-conmon-" ID ".scope\n", ""},
	{"0::/system.slice/crio-conmon-" ID ".scope\n", ""},
	/* What is no id: too long, too short, capitals, letters, blanks, a name that goes on */
	{"0::/docker/" ID "0\n", ""},
	{"0::/docker/0" ID "\n", ""},
	{"0::/docker/3f1c0e8a5b7d\n", ""},
	{"0::/docker/3F1C0E8A5B7D9264E1A0C3B5D7F98246AA10BB32CC54DD76EE98FF0A1B2C3D4E\n", ""},
	{"0::/docker/zz1c0e8a5b7d9264e1a0c3b5d7f98246aa10bb32cc54dd76ee98ff0a1b2c3d4e\n", ""},
	{"0::/docker/" ID " \n", ""},
	{"0::/docker/" ID ".service\n", ""},
	{"0::/docker-" ID ".scope.scope\n", ""},
	/* Not a line of this file */
	{ID "\n", ""},
	{"/docker/" ID "\n", ""},
	{"0:/docker/" ID "\n", ""},
	{":::\n::\n:\n\n\n", ""},
	{":://///-" ID "\n", ID},
	{"0::-:-:.scope/.scope/-.scope\n", ""},
};

/* The text in a block of its own length. */
static bool read_id(const char *text, size_t len, char ret[CONTAINER_ID_LEN + 1])
{
	char *copy = malloc(len + !len);
	bool found;

	assert_non_null(copy);
	memcpy(copy, text, len);
	memset(ret, 'x', CONTAINER_ID_LEN + 1);
	found = container__id(copy, len, ret);
	free(copy);
	assert_true(found == !!*ret);
	return found;
}

static void test_texts(void **state)
{
	char id[CONTAINER_ID_LEN + 1];

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		read_id(texts[i].text, strlen(texts[i].text), id);
		assert_string_equal(id, texts[i].id);
	}
}

/* Cut anywhere, or with any byte in it, an id is still one of the text. */
static void test_damaged(void **state)
{
	char id[CONTAINER_ID_LEN + 1], text[512];

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		size_t len = strlen(texts[i].text);

		for (size_t cut = 0; cut < len; cut++)
			if (read_id(texts[i].text, cut, id))
				assert_non_null(strstr(texts[i].text, id));
		assert_true(len < sizeof(text));
		for (size_t at = 0; at < len; at++) {
			memcpy(text, texts[i].text, len);
			text[at] = "\0\xff/:-\n"[at % 6];
			if (read_id(text, len, id))
				assert_non_null(memmem(text, len, id, CONTAINER_ID_LEN));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

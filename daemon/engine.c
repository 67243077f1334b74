/* SPDX-License-Identifier: MIT */
/* cprofd-engine: the engine as a program of its own, so that what parses hostile input has neither libbpf's loader nor
 * the command line in its address space. The broker executes it (daemon/broker/program.h); started by hand it only says
 * so. */
#include "serve/serve.h"

int main(int argc, char **argv)
{
	engine__execute(argc, argv);
}

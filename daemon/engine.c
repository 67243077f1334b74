/* SPDX-License-Identifier: MIT */
/* cprofd-engine: the engine as a program of its own, without the loader of BPF and the command line. The broker executes
 * it (daemon/broker/program.h); by hand it does nothing. */
#include "serve/serve.h"

int main(int argc, char **argv)
{
	engine__execute(argc, argv);
}

#include "cli/cli.h"
#include "cli/recorder.h"

int attach__run(const struct cli_options *options)
{
	pid_t pid;
	int status = options__pid(options, true, &pid);

	return status == CLI_DONE ? recorder__run(options, pid, NULL) : status;
}

/* SPDX-License-Identifier: MIT */
/* The table of commands: name, operands, help text, examples, and the function that runs it. help.c prints --help,
 * the man page and the completions from this table, so a new command is added here alone. */
#include <string.h>

#include "cli/cli.h"
#include "export/close.h"

/* clang-format off */
const struct command commands[] = {
	{
		.name = "attach",
		.operands = "PID|NAME...",
		.summary = "profile processes that are already running",
		.text = "Samples the stacks of a running process, Python and native frames in their true order, until Ctrl-C, the end of -d SECS, or its own end; "
			"then writes the file and prints a summary. The process is not stopped, not written to and needs "
			"no preparation. A daemon is used if its socket answers; otherwise cprofd starts what it needs for this "
			"one time, which requires root.\n"
			"Instead of a PID, the name of a process or of the script that it runs can be given, if only one process has it. "
			"Several processes (as operands, or -p 4242,4243) go into one file, on one timeline, until all have ended. "
			"If one of them cannot be attached to, none is recorded.\n"
			"Under sudo the file belongs to the user who called sudo.",
		.examples = "sudo cprofd attach 4242\tuntil Ctrl-C, for speedscope.app\n"
			    "sudo cprofd attach compile.py --open\tby name; a page in the browser\n"
			    "sudo cprofd attach 4242 4243 4250 -d 10\tthree processes in one file\n"
			    "sudo cprofd attach 4242 -d 10 --lines -o svd.speedscope.json\tten seconds, line by line\n"
			    "sudo cprofd attach 4242 -r 10k -o svd.cprof\tkeep the recording, convert later\n"
			    "sudo cprofd attach 4242 --continuous /var/lib/cprofd --keep 5G\tleft running: file after file, the oldest go\n"
			    "sudo cprofd attach 4242 --trigger 'unit>2s'\ta recording of the last 30 s when a compile takes longer\n"
			    "sudo cprofd attach 4242 --trigger 'cpu>90% for 10s' --dir /var/lib/cprofd --count 3\t\n"
			    "sudo cprofd attach 4242 -d 5 -f collapsed -o - | flamegraph.pl > svd.svg\t\n"
			    "sudo cprofd attach 4242 --stream | jq -c 'select(.ev==\"ledger\")'\tevents as they come\n",
		.bit = COMMAND_ATTACH,
		.run = attach__run,
	},
	{
		.name = "record",
		.operands = "-- COMMAND [ARG...]",
		.summary = "start a command and profile it from its first instruction",
		.text = "Starts the command, profiles it until it ends, then writes the file. Under sudo the command runs as "
			"the user who called sudo, with that user's environment. Signals are passed on to the command. "
			"The exit status says whether a recording was made. That of the command is in the last line; --exit-status passes it on.\n"
			"With -d the recording ends earlier; the command is waited for.\n"
			"`record -p PID` is the same as `attach PID`.",
		.examples = "sudo cprofd record -- python3 compile.py\t\n"
			    "sudo cprofd record -s -o build.speedscope.json -- make\tand all its children\n",
		.bit = COMMAND_RECORD,
		.stops_at_operand = true,
		.run = record__run,
	},
	{
		.name = "serve",
		.operands = "",
		.summary = "the daemon: lets users profile their own processes without sudo",
		.text = "Listens on a socket until SIGTERM. Anyone may connect; the kernel says who it is, and they may profile "
			"what they may trace: kernel.yama.ptrace_scope and kernel.perf_event_paranoid apply, unless --allow says otherwise. --limit sets what one user may use, and all users together; root has no limits. Sockets passed by systemd (LISTEN_FDS) are taken over.",
		.examples = "sudo systemctl enable --now cprofd.socket\tstarts when someone connects\n"
			    "sudo usermod -aG cprofd alice\talice may use the daemon, too\n"
			    "sudo cprofd serve --allow=own\tusers may profile all their own processes, whatever these settings are\n"
			    "sudo cprofd serve --limit=sessions=32 --limit=maps=2048/8192\t32 sessions of each user, 2 GB of maps of one and 8 GB of all\n"
			    "sudo cprofd serve\tby hand, on " CLI_SOCKET "\n",
		.bit = COMMAND_SERVE,
		.run = serve__run,
	},
	{
		.name = "convert",
		.operands = "FILE",
		.summary = "convert a recording into another format",
		.text = "Reads a recording (.cprof, or events as NDJSON; - is stdin) and writes it in another form. A recording "
			"that was cut off is read as far as it goes.",
		.examples = "cprofd convert svd.cprof\twrites svd.speedscope.json\n"
			    "cprofd convert svd.cprof --lines --window 2.5,4 -o part.speedscope.json\t\n"
			    "cprofd convert svd.cprof -f html\ta page with everything in it: open svd.html in a browser\n"
			    "cprofd convert svd.cprof -f svg\ta flame graph alone\n"
			    "cprofd convert svd.cprof -f pprof && go tool pprof -http=: svd.pb.gz\t\n"
			    "cprofd convert svd.cprof --module numba -f collapsed -o - | awk '{print $NF, $0}' | sort -nr | head\t\n"
			    "cprofd convert svd.cprof --skip-first 1 -f svg\twithout the first compile of each function\n",
		.bit = COMMAND_CONVERT,
		.run = convert__run,
	},
	{
		.name = "report",
		.operands = "FILE...",
		.summary = "tables from recordings: where the time went, by function, line, thread, package...",
		.text = "Reads recordings (.cprof, or events as NDJSON; - is stdin) and prints tables: exclusive time (spent in the row's "
			"own code), inclusive time (also in what it called; a function that is several times in a stack counts once), their shares, "
			"and the running total of exclusive time. Of several recordings each time is the mean, with the standard "
			"deviation between them.\n"
			"Times are the CPU time that the samples carry (in a wall-clock recording, wall time), not numbers of samples. Idle "
			"time is a line of its own. Samples do not show how often something was called, so no table has it.\n"
			"Classes of time, the first that holds: kernel (the thread was in it); GC (Python's collector); compiler native (code "
			"of LLVM and its like); JIT code (what a compiler made) and JIT dispatch (the way into it); import (whatever modules do "
			"while they are imported); C call (a builtin, or an extension's function); interpreter (bytecode); unknown. In "
			"wall-clock recordings waiting and ready, too; with -g, without the GIL.\n"
			"Of compiles: `elapsed` is time by the clock, waiting included, `times` how many of them have samples.\n"
			"On a terminal names are cut to its width (COLUMNS); in a pipe or a file, and with -v, they are whole.\n"
			"The JSON is described in docs/report.md.",
		.examples = "cprofd report svd.cprof\tthreads, functions and lines\n"
			    "cprofd report svd.cprof --tree --phases --min-share 1%\twhat was compiled for what, phase by phase\n"
			    "cprofd report svd.cprof --by=package,callee --until 95%\t\n"
			    "cprofd report svd.cprof --callers run_pass --lines\twhich lines called it\n"
			    "cprofd report svd.cprof --function 'Numpy*' --window 2.5,4\tonly samples with such a function\n"
			    "cprofd report a.cprof b.cprof c.cprof --sort=inclusive\tmeans, and how they spread\n"
			    "cprofd report svd.cprof --json | jq '.tables[0].rows[0]'\t\n",
		.bit = COMMAND_REPORT,
		.run = report__run,
	},
	{
		.name = "top",
		.operands = "PID|NAME | -- COMMAND [ARG...]",
		.summary = "a live view: functions, lines, C callees, threads, classes of time, compile units",
		.text = "Shows where the time of a running process goes, second by second, until q. One key each shows functions, lines, "
			"C callees, threads, classes of time and compile units; 1 to 4 order the rows; / finds; ? lists all keys.\n"
			"With a daemon it needs no sudo. Nothing is recorded.\n"
			"A command after -- is started for the view, without the terminal, and ends with it.",
		.examples = "sudo cprofd top 4242\t\n"
			    "sudo cprofd top -- python3 compile.py\tfrom its first instruction\n"
			    "sudo cprofd top 4242 --native=off\tPython frames alone\n",
		.bit = COMMAND_TOP,
		.run = top__run,
	},
	{
		.name = "view",
		.operands = "FILE|PID|NAME",
		.summary = "a page in your browser: the report of a recording, or a process, live",
		.text = "Serves a page to your own browser, on the loopback interface, until Ctrl-C, and opens it (xdg-open). The address that is printed "
			"has a random port and a token: who does not know it gets nothing. Nothing is loaded from the network.\n"
			"Of a recording (.cprof, or events as NDJSON; - is stdin) it is the report of `convert -f html`.\n"
			"Of a running process it shows compiles as they happen: a time line, the tree of compiles, a flame graph, classes of time, "
			"functions, lines, and what each thread does now. A range of the time line, a thread or a search filters all of it; "
			"`save` writes what was recorded so far in any format. With a daemon it needs no sudo; under sudo the page is served by a process of "
			"the user who called it. Several pages may be open.",
		.examples = "cprofd view svd.cprof\t\n"
			    "sudo cprofd view 4242\t\n"
			    "sudo cprofd view compile.py --mode=wall\tby name; where it waits, too\n",
		.bit = COMMAND_VIEW,
		.run = view__run,
	},
	{
		.name = "push",
		.operands = "FILE... | PID|NAME... | --all | --follow DIR",
		.summary = "send recordings, or running processes, to a store: OpenTelemetry, Pyroscope",
		.text = "Sends profiles (OTLP over HTTP, v1development; or pprof to Pyroscope) with compile, phase and class of each sample. Of recordings all that is "
			"in them, of running processes what each --every seconds brought, until Ctrl-C or their end. Several processes need a daemon, which "
			"this command asks like any other client of yours.\n"
			"While the store does not answer, or says that it is busy, requests wait on disk and are tried again, in their order, after 1 to 60 "
			"seconds or as it asks for. A request whose answer was lost is sent again with the same profile_id.\n"
			"Proxies are those of the variables https_proxy, http_proxy and no_proxy. docs/fleet.md lists what is sent.\n"
			"Exit status 1: something was not delivered.",
		.examples = "cprofd push --otlp http://localhost:4318 svd.cprof\ta recording\n"
			    "cprofd push --otlp https://collector:4318 --ca-file ca.pem --all\tevery Python of yours, with a daemon\n"
			    "sudo cprofd push --otlp http://localhost:4318 4242 --mode=wall\tone process; where it waits, too\n"
			    "cprofd push --otlp http://localhost:4318 --follow /var/lib/cprofd\twhat `cprofd agent` records, as its files are completed\n",
		.bit = COMMAND_PUSH,
		.run = push__run,
	},
	{
		.name = "agent",
		.operands = "DIR",
		.summary = "record every Python of this machine, as they come and go, into a directory",
		.text = "Records all CPythons of all users, those that run and those that begin later, until Ctrl-C or SIGTERM, at a low rate: 49 samples a second of CPU time "
			"unless -r says otherwise. A Python that begins is noticed within a few ms. What is no Python is not recorded.\n"
			"All of them go into one recording. It is cut into files of DIR by --rotate-age and --rotate-size, each of which is a recording by itself, with all "
			"processes in it; the oldest files go when all are more than --keep. `report --by=process` tells them apart.\n"
			"It needs root, and has an engine of its own, whether there is a daemon or not. cprofd-agent.service runs it as a service. docs/agent.md says more.",
		.examples = "sudo cprofd agent /var/lib/cprofd\tuntil Ctrl-C\n"
			    "sudo cprofd agent /var/lib/cprofd -r 19 --keep 5G\t\n"
			    "sudo cprofd agent /var/lib/cprofd --match 'name=gunicorn*' --match cgroup=ci.slice\tthese services alone\n"
			    "sudo cprofd agent /var/lib/cprofd --match user=build --exclude name=pip\t\n"
			    "sudo systemctl enable --now cprofd-agent\tat each boot\n"
			    "cprofd report /var/lib/cprofd/cprofd-20260131T12*.cprof --by=process,unit\t\n",
		.bit = COMMAND_AGENT,
		.run = agent__run,
	},
	{
		.name = "diff",
		.operands = "BEFORE... [vs] AFTER...",
		.summary = "what takes more or less of the time than before, and how sure that is",
		.text = "Compares recordings of two sides: the shares of the time of classes, compiles, phases, passes, functions ... with "
			"the interval in which each change surely lies. As they are shares, recordings may differ in length. How sure a change is "
			"follows from how blocks of each recording vary, and from how recordings of one side differ: give several of each, with "
			"the word `vs` between the sides, to distinguish changes from what differs from one run to the next anyway.\n"
			"The exit status is 0 whether something differs or not, and 1 when nothing could be compared; with --fail-on it is 3 when something surely "
			"grew by more than its limit, and 1 when these recordings cannot say (give several a side).\n"
			"On a terminal columns are left out and names cut to its width (COLUMNS); in a pipe or a file, and with -v, all is there.\n"
			"Functions are the same by name and module, so that they may be of two versions of a program or of Python.\n"
			"The JSON is described in docs/diff.md.",
		.examples = "cprofd diff before.cprof after.cprof\twhat surely differs\n"
			    "cprofd diff a1.cprof a2.cprof a3.cprof vs b1.cprof b2.cprof b3.cprof\tseveral recordings a side\n"
			    "cprofd diff a.cprof b.cprof --by=pass --top 20\tthe heaviest passes, too\n"
			    "cprofd diff old/*.cprof vs new/*.cprof --fail-on 'total>3%,phase>10%' --markdown\tin CI\n"
			    "cprofd diff a.cprof b.cprof --json | jq '.tables[].rows[] | select(.differs)'\t\n",
		.bit = COMMAND_DIFF,
		.run = diff__run,
	},
	{
		.name = "baseline",
		.operands = "save|compare NAME FILE... | list | remove NAME",
		.summary = "keep recordings under a name, and compare others with them: for CI",
		.text = "`save` copies recordings, complete ones of one machine (take three or more), into a directory under a name. `compare` is "
			"`cprofd diff` with these as the first side, and has its options and exit statuses: with --fail-on it is 3 when something "
			"surely grew.\n"
			"Times of two machines are not comparable: recordings say the model and the number of their CPUs, and where these differ "
			"`compare` refuses, unless --any-machine is given.\n"
			"A baseline is a directory of .cprof files: a CI job can keep it as its cache or artifact (docs/ci.md).",
		.examples = "cprofd baseline save main m1.cprof m2.cprof m3.cprof\t\n"
			    "cprofd baseline compare main n1.cprof n2.cprof n3.cprof --fail-on 'total>3%,phase>10%'\tstatus 3: something grew\n"
			    "cprofd baseline save main --force n?.cprof\tthe new state is what counts from now on\n"
			    "cprofd baseline list --dir ~/baselines\t\n"
			    "cprofd baseline remove main\t\n",
		.bit = COMMAND_BASELINE,
		.run = baseline__run,
	},
	{
		.name = "dump",
		.operands = "PID|NAME...",
		.summary = "where is each thread now? every stack, native and Python frames in their true order",
		.text = "Prints the stack of each thread of a running process, innermost frame first, and ends. The process is not "
			"stopped: a thread that waits is read while it waits, one that runs is read in its next tick. A thread "
			"that ran on during each attempt is printed without a stack.\n"
			"A process without a supported Python has native frames only.\n"
			"Several processes are dumped one after the other; --json prints a line for each.",
		.examples = "sudo cprofd dump 4242\t\n"
			    "sudo cprofd dump 4242 --native=off\tPython frames alone\n"
			    "sudo cprofd dump 4242 --json | jq '.threads[0].frames'\t\n",
		.bit = COMMAND_DUMP,
		.run = dump__run,
	},
	{
		.name = "check",
		.operands = "[PID|NAME]",
		.summary = "can it work here, on that process? each precondition, and how to meet it",
		.text = "Prints one line for each precondition: ok, or what is missing, what that costs, and the command that helps. "
			"Exit status 1 when something that is needed is missing.",
		.examples = "sudo cprofd check\t\n"
			    "sudo cprofd check 4242\tand is this a Python that it knows?\n",
		.bit = COMMAND_CHECK,
		.run = check__run,
	},
	{
		.name = "rules",
		.operands = "list | check FILE...",
		.summary = "the compilers whose compiles, phases and passes have names, and a test of a file of rules",
		.text = "What a compile, a phase and a pass look like from outside is data, one file a compiler. `list` prints the "
			"compilers that are known, those of --rules FILE too; `check` reads files, or all *.rules of a directory, and "
			"prints the line and column of what is wrong. docs/rules.md (installed: share/doc/cprofd/rules.md) describes the language, "
			"and how to add a compiler step by step.",
		.examples = "cprofd rules list\t\n"
			    "cprofd rules check my.rules\t\n"
			    "sudo cprofd record --mode=wall --rules my.rules -- python3 compile.py\tsays at its end what a rule lacks\n",
		.bit = COMMAND_RULES,
		.run = rules__run,
	},
	{
		.name = "trigger",
		.operands = "PID|NAME...",
		.summary = "have the flight recorder of a process write its recording now",
		.text = "Of a process that an `attach` or `record` with --trigger or --last keeps the last seconds of, in the daemon, these are written now, by that command, as at SIGUSR2: "
			"whatever the conditions and --cool-down. Who asks need not know where it runs.\n"
			"It reaches your own sessions. Root reaches those of the process's owner, too.\n"
			"Requests that come while a recording is pending are noted in that one; --count of `attach` bounds how many are written.",
		.examples = "cprofd trigger 4242\t\n"
			    "cprofd trigger serve.py\tby name\n"
			    "sudo cprofd trigger 4242 4243\tof whoever owns them\n",
		.bit = COMMAND_TRIGGER,
		.run = trigger__run,
	},
	{
		.name = "status",
		.operands = "",
		.summary = "the daemon's own health",
		.text = "Asks the daemon for its version, sessions, memory and losses.",
		.examples = "cprofd status --json\t\n"
			    "cprofd status --openmetrics > /var/lib/node_exporter/cprofd.prom\t\n",
		.bit = COMMAND_STATUS,
		.run = status__run,
	},
	{
		.name = "help",
		.operands = "[COMMAND]",
		.summary = "this text, or that of one command; also the man page and shell completions",
		.text = "",
		.examples = "cprofd help attach\t\n"
			    "cprofd help --completion=bash\t\n",
		.bit = COMMAND_HELP,
		.run = help__run,
	},
	{},
};
/* clang-format on */

const struct command *command__find(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (!strcmp(command->name, name))
			return command;
	return NULL;
}

int command__unknown(const char *name)
{
	/* The suggestion is by edit distance (export/close.h), as it is for names of functions and options. */
	struct close close = {.want = name};
	char likely[512], all[512];
	size_t len = 0;

	for (const struct command *command = commands; command->name; command++) {
		close__offer(&close, command->name);
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s", command == commands ? "" : ", ",
					command->name);
	}
	close__text(&close, likely, sizeof(likely));
	/* close__text() makes a list, the closest name first. Two suggestions for a mistyped command would
	 * only confuse. */
	likely[strcspn(likely, ",")] = '\0';
	if (*name == '-')
		say__failure("", "%s: options follow the command, as in `cprofd attach 4242 %s`", name, name);
	else if (*likely)
		say__failure("", "there is no command '%s': did you mean %s?", name, likely);
	else
		say__failure("", "there is no command '%s'", name);
	fprintf(stderr, "        the commands are %s; `cprofd --help` describes each\n", all);
	return CLI_USAGE;
}

/* SPDX-License-Identifier: MIT */
/* Compares tables with libdw for whole ELF files (unwind_oracle.h).
 *
 *   unwind_compare FILE...     a line for each file, then sums; exit status 1: something was wrong
 *   find ... | unwind_compare  the same of the files named on stdin
 *   unwind_compare --same A B  whether both give the same rules, pages and rows: an object that was
 * only loaded, and what a linker made of it */
#include "unwind_oracle.h"

static int same(char *const paths[2])
{
	struct unwind_table *tables[2];
	size_t from = sizeof(struct unwind_table);
	int i;

	for (i = 0; i < 2; i++) {
		struct sink sink = {.sink.allot = sink_allot};
		struct elf_bytes file;
		int fd = open(paths[i], O_RDONLY | O_CLOEXEC), err;

		err = fd < 0 ? -errno : elf_bytes__init_fd(&file, fd);
		if (!err)
			err = table__compile(&file, &sink.sink, &tables[i]);
		if (err)
			return printf("%s: %s\n", paths[i], strerror(-err)), 1;
	}
	printf("%s: %u functions, %u rows; %s: %u functions, %u rows\n", paths[0],
	       tables[0]->functions, tables[0]->changes, paths[1], tables[1]->functions,
	       tables[1]->changes);
	return tables[0]->base != tables[1]->base ||
	       table__size(tables[0]) != table__size(tables[1]) ||
	       memcmp((char *)tables[0] + from, (char *)tables[1] + from,
		      table__size(tables[0]) - from);
}

int main(int argc, char **argv)
{
	static const char *const reasons[] = {
#define REASON(id, sentence) [UNWIND_UNSUPPORTED_##id] = sentence,
		UNWIND_UNSUPPORTED(REASON)};
	struct host_reader reader = {.read = read_made_up};
	unsigned long files = 0, none = 0, other = 0, refused = 0, functions = 0;
	struct sums sums = {};
	char line[4096];
	int i;

	if (argc == 4 && !strcmp(argv[1], "--same"))
		return same(argv + 2);
	host_reader_current = &reader;
	elf_version(EV_CURRENT);
	for (i = 1; argc > 1 ? i < argc : fgets(line, sizeof(line), stdin) != NULL; i++) {
		const char *path = argc > 1 ? argv[i] : line;
		int err;

		line[strcspn(line, "\n")] = 0;
		err = compare_file(path, &sums, &functions);
		if (!err)
			files++;
		else if (err == -ENODATA)
			none++;
		else if (err == -EBADMSG)
			other++;
		else {
			printf("%s: %s\n", path,
			       err == -ENOTSUP ? "without an .eh_frame_hdr that libdw has"
					       : strerror(-err));
			refused++;
		}
		fflush(stdout);
	}
	printf("%lu files, %lu functions, %lu rows: %lu wrong, %lu missing, %lu too much; %lu rbp "
	       "lost, %lu rbx lost, %lu not "
	       "compared, %lu not in .eh_frame_hdr, %lu paddings, %lu of code that was followed\n",
	       files, functions, sums.rows, sums.wrong, sums.missing, sums.too_much, sums.lost_bp,
	       sums.lost_base, sums.unknown, sums.unlisted, sums.padding,
	       sums.followed);
	for (i = 0; i < UNWIND_UNSUPPORTED_COUNT; i++)
		if (sums.unsupported[i])
			printf("unsupported: %lu rows: %s\n", sums.unsupported[i], reasons[i]);
	printf("files without call frame information: %lu; no ELF files of this machine: %lu; not "
	       "compared: %lu\n",
	       none, other, refused);
	return sums.wrong || sums.missing || sums.too_much || !files;
}

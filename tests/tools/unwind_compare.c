/* Compares tables with libdw for whole ELF files (unwind_oracle.h).
 *
 *   unwind_compare FILE...     a line for each file, then sums; exit status 1: something was wrong
 *   find ... | unwind_compare  the same of the files named on stdin */
#include "unwind_oracle.h"

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
	       "compared, %lu not in .eh_frame_hdr, %lu paddings\n",
	       files, functions, sums.rows, sums.wrong, sums.missing, sums.too_much, sums.lost_bp,
	       sums.lost_base, sums.unknown, sums.unlisted, sums.padding);
	for (i = 0; i < UNWIND_UNSUPPORTED_COUNT; i++)
		if (sums.unsupported[i])
			printf("unsupported: %lu rows: %s\n", sums.unsupported[i], reasons[i]);
	printf("files without call frame information: %lu; no ELF files of this machine: %lu; not "
	       "compared: %lu\n",
	       none, other, refused);
	return sums.wrong || sums.missing || sums.too_much || !files;
}

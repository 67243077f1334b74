/* A recording that a command reads, in the calling user's name. */
#ifndef CPROFD_CLI_INPUT_H
#define CPROFD_CLI_INPUT_H

/* "-" is stdin. The fd, or -1 with errno. */
int input__open(const char *path);
/* In words: why reading a recording failed. */
void input__tell_failure(int err, const char *path);

#endif

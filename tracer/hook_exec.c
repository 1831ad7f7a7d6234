/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hook_exec.c - exec replaces this process's program: what it recorded so far ends in order.
 *
 * Without this the rings of the old program would look like those of a process that was killed, and
 * its last totals would be missing. The child of a vfork shares our memory but is not this process:
 * its exec is none of our business. When exec fails, recording goes on.
 */
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tracer/tracer.h"

/* @call is an exec: it returns only when it failed. */
#define REPLACING_IMAGE(call)                                                                      \
	({                                                                                         \
		bool is_told_ = lw_image_ends();                                                   \
		int result_ = (call);                                                              \
		lw_image_stays(is_told_);                                                          \
		result_;                                                                           \
	})

/* The arguments of execl() and its like, which come one by one. */
struct arguments {
	char *few[64];
	char **at;
	size_t n; /* with the terminating NULL */
};

static void open_arguments(struct arguments *arguments, size_t n)
{
	arguments->n = n;
	arguments->at = arguments->few;
	if (n <= sizeof(arguments->few) / sizeof(arguments->few[0]))
		return;
	arguments->at = mmap(NULL, n * sizeof(char *), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void close_arguments(struct arguments *arguments)
{
	if (arguments->at != arguments->few && arguments->at != MAP_FAILED)
		munmap(arguments->at, arguments->n * sizeof(char *));
}

/* Collects @first and what follows it in @list; leaves @list behind the NULL, for execle's environment. */
#define COLLECT(arguments, first, list)                                                            \
	do {                                                                                       \
		va_list count_;                                                                    \
		size_t n_ = 1;                                                                     \
		va_copy(count_, list);                                                             \
		for (const char *one_ = (first); one_; one_ = va_arg(count_, const char *))        \
			n_++;                                                                      \
		va_end(count_);                                                                    \
		open_arguments(arguments, n_);                                                     \
		if ((arguments)->at == MAP_FAILED)                                                 \
			break;                                                                     \
		(arguments)->at[0] = (char *)(uintptr_t)(first);                                   \
		for (size_t i_ = 1; i_ < n_; i_++)                                                 \
			(arguments)->at[i_] = va_arg(list, char *);                                \
	} while (0)

LW_EXPORT int execve(const char *path, char *const argv[], char *const environment[])
{
	return REPLACING_IMAGE(LW_REAL(execve)(path, argv, environment));
}

LW_EXPORT int execv(const char *path, char *const argv[])
{
	return REPLACING_IMAGE(LW_REAL(execv)(path, argv));
}

LW_EXPORT int execvp(const char *file, char *const argv[])
{
	return REPLACING_IMAGE(LW_REAL(execvp)(file, argv));
}

LW_EXPORT int execvpe(const char *file, char *const argv[], char *const environment[])
{
	return REPLACING_IMAGE(LW_REAL(execvpe)(file, argv, environment));
}

LW_EXPORT int fexecve(int fd, char *const argv[], char *const environment[])
{
	return REPLACING_IMAGE(LW_REAL(fexecve)(fd, argv, environment));
}

LW_EXPORT int execl(const char *path, const char *first, ...)
{
	struct arguments arguments;
	va_list list;
	int result = -1;

	va_start(list, first);
	COLLECT(&arguments, first, list);
	va_end(list);
	if (arguments.at != MAP_FAILED)
		result = execv(path, arguments.at);
	close_arguments(&arguments);
	return result;
}

LW_EXPORT int execlp(const char *file, const char *first, ...)
{
	struct arguments arguments;
	va_list list;
	int result = -1;

	va_start(list, first);
	COLLECT(&arguments, first, list);
	va_end(list);
	if (arguments.at != MAP_FAILED)
		result = execvp(file, arguments.at);
	close_arguments(&arguments);
	return result;
}

LW_EXPORT int execle(const char *path, const char *first, ...)
{
	struct arguments arguments;
	va_list list;
	int result = -1;

	va_start(list, first);
	COLLECT(&arguments, first, list);
	if (arguments.at != MAP_FAILED)
		result = execve(path, arguments.at, va_arg(list, char *const *));
	va_end(list);
	close_arguments(&arguments);
	return result;
}

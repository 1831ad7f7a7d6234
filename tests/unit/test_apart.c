/* SPDX-License-Identifier: Apache-2.0 */
/* test_apart.c - threads of the terminal UI: which signals are theirs, and a crash that has no stack left. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/err.h"
#include "tui/apart.h"

enum { HANDLED = 42 };

static void handle(int number)
{
	(void)number;
	_exit(HANDLED);
}

static volatile bool goes_on = true;

static int use_up(volatile const char *above)
{
	volatile char here[4096];

	here[0] = *above;
	return (goes_on ? use_up(here) : 0) + here[0];
}

static void *overflow(void *context)
{
	return (void *)(intptr_t)use_up(context);
}

static void *list_blocked(void *context)
{
	pthread_sigmask(SIG_SETMASK, NULL, context);
	return NULL;
}

/* Return: how a process ends whose stack has run out, in a thread or not. */
static int end_of_overflow(bool is_apart)
{
	const struct rlimit none = {0};
	const struct sigaction crash = {.sa_handler = handle, .sa_flags = SA_ONSTACK};
	char first = 0;
	pthread_t thread;
	pid_t pid = fork();
	int ended;

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		sigaction(SIGSEGV, &crash, NULL);
		if (is_apart && lw_apart_begin(&thread, overflow, &first, "overflow") == LW_OK)
			pthread_join(thread, NULL);
		lw_apart_crash_stack();
		overflow(&first);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &ended, 0), pid);
	return WIFEXITED(ended) ? WEXITSTATUS(ended) : -WTERMSIG(ended);
}

static void test_a_crash_without_stack_is_handled(void **state)
{
	(void)state;
	assert_int_equal(end_of_overflow(false), HANDLED);
	assert_int_equal(end_of_overflow(true), HANDLED);
}

static void test_what_is_asked_of_the_program_is_not_for_its_threads(void **state)
{
	static const int asked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
	pthread_t thread;
	sigset_t blocked;

	(void)state;
	assert_int_equal(lw_apart_begin(&thread, list_blocked, &blocked, "look"), LW_OK);
	pthread_join(thread, NULL);
	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		assert_true(sigismember(&blocked, asked[i]));
	assert_false(sigismember(&blocked, SIGSEGV) || sigismember(&blocked, SIGABRT));
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	assert_false(sigismember(&blocked, SIGTERM));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_crash_without_stack_is_handled),
		cmocka_unit_test(test_what_is_asked_of_the_program_is_not_for_its_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

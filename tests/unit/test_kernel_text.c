/* SPDX-License-Identifier: Apache-2.0 */
/* Names of kernels are short enough to read, and nothing is lost that tells them apart. */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analyzer/kernel_text.h"

static void assert_reads(const char *name, const char *wanted)
{
	char text[LW_KERNEL_TEXT_BYTES];

	assert_string_equal(lw_kernel_text(name, text), wanted);
}

static void names_that_a_profiler_wrote_lose_types_and_arguments(void **state)
{
	(void)state;
	assert_reads(
		"void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>,"
		" at::detail::Array<char*, 1> >(int, at::native::FillFunctor<float>,"
		" at::detail::Array<char*, 1>)",
		"vectorized_elementwise_kernel<4, FillFunctor<float>, Array<char*, 1> >");
	assert_reads(
		"void (anonymous namespace)::softmax_warp_forward<float, float, 8>(float*, int)",
		"softmax_warp_forward<float, float, 8>");
	assert_reads("void cub::(anonymous namespace)::scan<(anonymous namespace)::Op>(int)",
		"scan<Op>");
	assert_reads("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
		"ncclDevKernel_AllReduce_Sum_f32_RING_LL");
}

static void plain_names_stay(void **state)
{
	(void)state;
	assert_reads(
		"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n", "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n");
	assert_reads("Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pinned -> Device)");
	assert_reads("", "");
	assert_reads("(", "(");
	assert_reads("a b", "a b");
	assert_reads("operator()(int)", "operator()");
	assert_reads("<<<>>>::", "<<<>>>::");
}

/* What the C++ library reads; where there is none they stay. */
static void mangled_names_are_read(void **state)
{
	static const char name[] =
		"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_";

	(void)state;
	if (!dlopen("libstdc++.so.6", RTLD_LAZY)) {
		assert_reads(name, name);
		return;
	}
	assert_reads(
		name, "vectorized_elementwise_kernel<4, FillFunctor<float>, array<char*, 1ul> >");
	assert_reads("_Z", "_Z"); /* damaged */
	assert_reads("_ZN2at", "_ZN2at");
}

static void what_is_too_long_is_cut(void **state)
{
	char name[3000], text[LW_KERNEL_TEXT_BYTES];

	(void)state;
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	assert_int_equal(strlen(lw_kernel_text(name, text)), LW_KERNEL_TEXT_BYTES - 1);
	memcpy(name, "_Z", 2);
	assert_int_equal(strlen(lw_kernel_text(name, text)), LW_KERNEL_TEXT_BYTES - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_that_a_profiler_wrote_lose_types_and_arguments),
		cmocka_unit_test(plain_names_stay),
		cmocka_unit_test(mangled_names_are_read),
		cmocka_unit_test(what_is_too_long_is_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

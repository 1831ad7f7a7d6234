/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_text.h - names of kernels as people read them. */
#ifndef LAPWING_ANALYZER_KERNEL_TEXT_H
#define LAPWING_ANALYZER_KERNEL_TEXT_H

enum { LW_KERNEL_TEXT_BYTES = 256 };

/**
 * lw_kernel_text() - @name (mangled, or as a profiler wrote it) without what repeats in all of them: the type that it
 * returns, namespaces, its arguments. Mangled ones are read by the C++ library's __cxa_demangle, where that is installed,
 * and stay as they are where it is not. What is longer than @text holds is cut.
 * Return: @text.
 */
const char *lw_kernel_text(const char *name, char text[LW_KERNEL_TEXT_BYTES]);

#endif /* LAPWING_ANALYZER_KERNEL_TEXT_H */

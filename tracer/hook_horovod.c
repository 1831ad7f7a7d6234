/* SPDX-License-Identifier: Apache-2.0 */
#include "tracer/tracer.h"

void lw_horovod_flush(void)
{
}

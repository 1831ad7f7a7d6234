/* SPDX-License-Identifier: Apache-2.0 */
/* nvtx_real.c - the same through the real nvtx3 header; test_marks.py compiles it where there is one. */
#include <nvtx3/nvToolsExt.h>
#include <stdint.h>

extern __attribute__((weak)) void lapwing_mark_step(int64_t step);

int main(void)
{
	nvtxEventAttributes_t attributes = {0};
	nvtxDomainHandle_t domain;

	lapwing_mark_step(1);
	attributes.version = NVTX_VERSION;
	attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	nvtxRangePushA("step");
	domain = nvtxDomainCreateA("NCCL");
	attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	attributes.message.registered = nvtxDomainRegisterStringA(domain, "ncclAllReduce");
	attributes.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
	attributes.payload.ullValue = 4096;
	nvtxDomainRangePushEx(domain, &attributes);
	nvtxDomainRangePop(domain);
	nvtxMarkA("point");
	nvtxRangePop();
	return 0;
}

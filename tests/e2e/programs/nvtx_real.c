/* SPDX-License-Identifier: Apache-2.0 */
/* nvtx_real.c - the same through the real nvtx3 headers; test_marks.py compiles it where they are. */
#include <nvtx3/nvToolsExt.h>
#include <stddef.h>
#include <stdint.h>
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif

extern __attribute__((weak)) void lapwing_mark_step(int64_t step);

#ifdef NVTX_EXT_PAYLOAD_MODULEID
/* As NCCL does it: a schema with names, a payload at the beginning or at the end of a range. */
static void payloads(nvtxDomainHandle_t domain)
{
	struct {
		uint64_t comm;
		size_t bytes;
	} values = {0xabc, 777};
	const nvtxPayloadSchemaEntry_t entries[] = {
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_UINT64, .name = "NCCL communicator ID"},
		{.type = NVTX_PAYLOAD_ENTRY_TYPE_SIZE,
			.name = "Message size [bytes]",
			.offset = 8}};
	const nvtxPayloadSchemaAttr_t schema = {
		.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
			     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE,
		.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC,
		.entries = entries,
		.numEntries = 2,
		.payloadStaticSize = sizeof(values)};
	nvtxPayloadData_t data = {
		nvtxPayloadSchemaRegister(domain, &schema), sizeof(values), &values};
	nvtxEventAttributes_t attributes = {.version = NVTX_VERSION,
		.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
		.payloadType = NVTX_PAYLOAD_TYPE_EXT,
		.reserved0 = 1,
		.messageType = NVTX_MESSAGE_TYPE_ASCII,
		.message = {.ascii = "ncclAllGather"}};

	attributes.payload.ullValue = (uint64_t)(uintptr_t)&data;
	nvtxDomainRangePushEx(domain, &attributes);
	nvtxRangePopPayload(domain, &data, 1);
	nvtxDomainRangePop(domain); /* one too many */
}
#endif

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
#ifdef NVTX_EXT_PAYLOAD_MODULEID
	payloads(domain);
#endif
	return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ddp_parameters.c - how many bytes each gradient of a DDP reducer has.
 *
 * Writes: PARAMETER records. An at::Tensor is one pointer to a c10::TensorImpl; of that object only the
 * pointer to its virtual functions is read, and only when it is that of c10::TensorImpl itself are two
 * functions of torch asked: TensorImpl::numel_custom(), and at::native::result_type(t, t), the type of
 * t itself. Both are exported (seen in 1.13), take pointers, and return a number. DDP has asked the
 * same of every parameter when it made its buckets, just before the reducer, so they do not throw here.
 */
#include <string.h>

#include "tracer/hook_ddp.h"

enum { PARAMETERS_MAX = 1 << 20 };

#define NUMEL  "_ZNK3c1010TensorImpl12numel_customEv"
#define TYPE   "_ZN2at6native11result_typeERKNS_6TensorES3_"
#define VTABLE "_ZTVN3c1010TensorImplE"

static struct {
	struct lw_real_sites numel, type, vtable;
} sites;

/* enum class ScalarType : int8_t of torch; its numbers are stored in saved models and do not change. */
static enum lw_dtype dtype_of(int8_t scalar_type)
{
	switch (scalar_type) {
	case 0:
		return LW_DTYPE_UINT8;
	case 1:
		return LW_DTYPE_INT8;
	case 2:
		return LW_DTYPE_INT16;
	case 3:
		return LW_DTYPE_INT32;
	case 4:
		return LW_DTYPE_INT64;
	case 5:
		return LW_DTYPE_FLOAT16;
	case 6:
		return LW_DTYPE_FLOAT32;
	case 7:
		return LW_DTYPE_FLOAT64;
	case 11:
		return LW_DTYPE_BOOL;
	case 15:
		return LW_DTYPE_BFLOAT16;
	default:
		return LW_DTYPE_UNKNOWN;
	}
}

static uint64_t element_bytes(enum lw_dtype dtype)
{
	static const uint8_t bytes[] = {
#define X(name, number, text, size) [LW_DTYPE_##name] = size,
		LW_DTYPES(X)
#undef X
	};

	return bytes[dtype];
}

static bool is_pointer(const void *pointer)
{
	return pointer && (uintptr_t)pointer % sizeof(void *) == 0;
}

/* Return: false when the tensor is not what we know how to ask. */
static bool measure(const void *const *tensor, void *caller, struct lw_ev_parameter *parameter)
{
	/* a vtable begins with two words that its pointers point past */
	const uintptr_t *vtable = lw_real_for(VTABLE, caller, &sites.vtable);
	int64_t (*numel)(const void *) =
		(int64_t(*)(const void *))lw_real_for(NUMEL, caller, &sites.numel);
	int8_t (*type)(const void *, const void *) =
		(int8_t(*)(const void *, const void *))lw_real_for(TYPE, caller, &sites.type);
	const uintptr_t *functions;
	int64_t n_elements;

	if (!vtable || !numel || !type || !is_pointer(*tensor))
		return false;
	memcpy(&functions, *tensor, sizeof(functions));
	if (functions != vtable + 2)
		return false;
	n_elements = numel(*tensor);
	parameter->dtype = (uint16_t)dtype_of(type(tensor, tensor));
	if (!parameter->dtype || n_elements < 0 || n_elements > INT64_C(1) << 45)
		return false;
	parameter->bytes = (uint64_t)n_elements * element_bytes((enum lw_dtype)parameter->dtype);
	return true;
}

void lw_ddp_record_parameters(const void *vector, uint32_t reducer, void *caller)
{
	const void *const *range[3]; /* begin, end, end of the room */
	uint64_t n_unknown = 0;
	ptrdiff_t n;

	memcpy(range, vector, sizeof(range));
	n = range[1] - range[0];
	if (!is_pointer(range[0]) || !is_pointer(range[1]) || range[2] < range[1] || n <= 0 ||
		n > PARAMETERS_MAX) {
		lw_loss(LW_LOSS_LAYOUT, 1, "torch parameters");
		return;
	}
	for (ptrdiff_t i = 0; i < n; i++) {
		struct lw_event event = {.kind = LW_EV_PARAMETER};

		event.parameter.reducer = reducer;
		event.parameter.position = (uint32_t)i;
		if (!measure(range[0] + i, caller, &event.parameter)) {
			n_unknown++;
			continue;
		}
		event.t0_ns = event.t1_ns = lw_now_ns();
		lw_record(&event);
	}
	if (n_unknown)
		lw_loss(LW_LOSS_LAYOUT, n_unknown, "torch parameters: size");
}

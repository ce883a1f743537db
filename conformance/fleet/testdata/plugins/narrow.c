/* narrow: a filter that keeps the endpoints with an odd number, and a picker
   that takes the last remaining candidate. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"narrow\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"filter\":"
	"{\"columns\":[\"endpoint_id\"],\"reasons\":[\"is even\"]},"
	"\"pick\":{\"columns\":[]}}}")

KVASIR_FILTER(b) {
	const uint32_t *id = kvasir_u32(b, 0);
	uint32_t *out = kvasir_drops(b);
	for (uint32_t i = 0; i < b->n; i++) out[i] = id[i] % 2 == 0;
	return KVASIR_STATUS_OK;
}

KVASIR_PICK(b) {
	const uint32_t *mask = kvasir_slot_mask(b, 0);
	uint32_t *out = kvasir_order(b, 0);
	out[0] = 0;
	for (uint32_t i = b->n; i > 0 && out[0] == 0 && b->k > 0; i--)
		if (mask[i - 1]) out[0] = 1, out[1] = i - 1;
	return KVASIR_STATUS_OK;
}

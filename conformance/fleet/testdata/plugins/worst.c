/* worst: prefers the endpoint that the built-in ranks last: most work, nothing cached. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"worst\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"score\":"
	"{\"columns\":[\"endpoint_id\",\"outstanding_uncached_tokens\",\"matched_tokens\"]}}}")

KVASIR_SCORE(b) {
	const uint32_t *id = kvasir_u32(b, 0);
	const float *outstanding = kvasir_f32(b, 1), *matched = kvasir_f32(b, 2);
	float *out = kvasir_scores(b);
	for (uint32_t i = 0; i < b->n; i++) out[i] = (float)(id[i] & 4095) + outstanding[i] - matched[i];
	return KVASIR_STATUS_OK;
}

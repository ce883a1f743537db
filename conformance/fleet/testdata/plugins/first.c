/* first: prefers the endpoint with the lowest number. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"first\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"score\":"
	"{\"columns\":[\"endpoint_id\",\"uncached_tokens\"],"
	"\"terms\":[\"number\",\"uncached\"]}}}")

KVASIR_SCORE(b) {
	const uint32_t *id = kvasir_u32(b, 0);
	const float *uncached = kvasir_f32(b, 1);
	float *out = kvasir_scores(b);
	for (uint32_t i = 0; i < b->n; i++) out[i] = 0 - (float)(id[i] & 4095);
	if (kvasir_explain(b)) {
		float *t0 = kvasir_term(b, 0), *t1 = kvasir_term(b, 1);
		for (uint32_t i = 0; i < b->n; i++) t0[i] = 0 - (float)(id[i] & 4095), t1[i] = uncached[i];
	}
	return KVASIR_STATUS_OK;
}

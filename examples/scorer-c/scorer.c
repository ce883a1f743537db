#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"scorer-c\",\"version\":\"0.1.0\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":[\"matched_ratio\",\"waiting\"]}}}")

KVASIR_SCORE(b) {
	const float *hit = kvasir_f32(b, 0), *q = kvasir_f32(b, 1);
	float *out = kvasir_scores(b);
	for (uint32_t i = 0; i < b->n; i++) out[i] = 2 * hit[i] - q[i] / (q[i] + 4);
	return KVASIR_STATUS_OK;
}

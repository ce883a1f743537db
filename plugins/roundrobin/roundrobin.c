/* roundrobin: spreads requests over the candidates without looking at them.
   Scores are a function of the batch, so the turn comes from the seed: the
   candidate whose endpoint hashes highest with it. In the mean every endpoint
   gets the same share, and adding one moves only its share. */
#include "kvasir.h"

KVASIR_MANIFEST(
	"{\"name\":\"roundrobin\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"score\":{"
	"\"columns\":[\"endpoint_id\"],\"unit\":\"unit\"}},\"state_version\":1,\"config_schema\":{}}")

/* SplitMix64. */
static uint64_t mix(uint64_t z) {
	z += 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

KVASIR_SCORE(b) {
	const uint32_t *id = kvasir_u32(b, 0);
	float *out = kvasir_scores(b);
	for (uint32_t i = 0; i < b->n; i++) {
		/* 24 bits are exact in float32 */
		out[i] = (float)(uint32_t)(mix(b->seed ^ mix(id[i])) >> 40) / 16777216.0f;
	}
	return KVASIR_STATUS_OK;
}

/* trap: traps with three candidates and a short prompt, which no check uses. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"trap\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"score\":"
	"{\"columns\":[\"waiting\"]}}}")

KVASIR_SCORE(b) {
	float *out = kvasir_scores(b);
	if (b->n == 3 && b->prompt_tokens < 1000) __builtin_trap();
	for (uint32_t i = 0; i < b->n; i++) out[i] = 0;
	return KVASIR_STATUS_OK;
}

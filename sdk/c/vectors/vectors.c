/* vectors: the reference guest of abi/vectors, in C. */
#include "kvasir.h"

KVASIR_MANIFEST(
	"{\"name\":\"vectors\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{"
	"\"filter\":{\"columns\":[\"adapter_state\"],\"reasons\":[\"one\",\"two\",\"three\"]},"
	"\"score\":{\"columns\":[\"uncached_tokens\",\"endpoint_id\",\"kv_usage\"],\"request\":[\"objective\",\"tenant_hash\"],\"terms\":[\"a\",\"b\"]},"
	"\"pick\":{\"columns\":[\"colocated\"]},"
	"\"observe\":{\"columns\":[\"endpoint_row\",\"ttft_ms\",\"cached_tokens\"]},\"configure\":{},\"idle\":{}},"
	"\"publishes\":[{\"name\":\"vectors/ttft\",\"default\":0},{\"name\":\"vectors/seen\",\"default\":0}],\"state_version\":1}")

KVASIR_FILTER(b) {
	const uint32_t *state = kvasir_u32(b, 0);
	uint32_t *drop = kvasir_drops(b);
	for (uint32_t i = 0; i < b->n; i++) drop[i] = state[i];
	return KVASIR_STATUS_OK;
}

KVASIR_SCORE(b) {
	float *out = kvasir_scores(b);
	float fixed = (float)b->prompt_tokens + (float)b->max_tokens + b->priority + (float)((uint64_t)b->now_ms & 255) +
		(float)(b->session_hash & 0xffff) + (float)(b->seed >> 48) + (float)b->nslots;
	for (uint32_t k = 0; k < b->nreq; k++) fixed += (float)(kvasir_req_u64(b, k) & 0xff);
	for (uint32_t i = 0; i < b->n; i++) {
		out[i] = fixed;
		for (uint32_t k = 0; k < b->ncols; k++) out[i] += (float)((k + 1) * (kvasir_u32(b, k)[i] >> 16));
	}
	for (uint32_t t = 0; t < 2 && kvasir_explain(b); t++)
		for (uint32_t i = 0; i < b->n; i++) kvasir_term(b, t)[i] = (float)t + kvasir_f32(b, 0)[i];
	return KVASIR_STATUS_OK;
}

static float value(const kvasir_batch *b, uint32_t slot, uint32_t i) {
	float x = kvasir_slot_scores(b, slot)[i];
	for (uint32_t k = 2 * b->nslots; k < b->ncols; k++) x += kvasir_f32(b, k)[i];
	return x;
}

KVASIR_PICK(b) {
	for (uint32_t slot = 0; slot < b->nslots; slot++) {
		uint32_t *order = kvasir_order(b, slot), count = 0;
		for (uint32_t i = 0; i < b->n; i++) {
			if (kvasir_slot_mask(b, slot)[i] != 1) continue;
			uint32_t at = count;
			while (at > 0 && value(b, slot, i) > value(b, slot, order[at])) at--;
			if (at == b->k) continue;
			if (count < b->k) count++;
			for (uint32_t j = count; j > at + 1; j--) order[j] = order[j - 1];
			order[at + 1] = i;
		}
		order[0] = count;
	}
	return KVASIR_STATUS_OK;
}

KVASIR_OBSERVE(b) {
	float *ttft = kvasir_published(b, 0), *seen = kvasir_published(b, 1);
	for (uint32_t i = 0; i < b->n; i++) {
		uint32_t row = kvasir_u32(b, 0)[i];
		if (ttft[row] != ttft[row]) ttft[row] = seen[row] = 0; /* NaN: nothing of it yet */
		ttft[row] += kvasir_f32(b, 1)[i];
		seen[row]++;
	}
	return KVASIR_STATUS_OK;
}

KVASIR_CONFIGURE(text, len) {
	return len >= 2 && text[0] == '{' && text[len - 1] == '}' ? KVASIR_STATUS_OK : KVASIR_STATUS_ERROR;
}

KVASIR_IDLE(fuel) { return fuel > 0 ? KVASIR_STATUS_OK : KVASIR_STATUS_ERROR; }

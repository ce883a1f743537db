/* columns: tells every column of a candidate and of a request that there is as a
   term, so that explain shows what plugins see. It scores by none of them. Of
   numbers that no f32 holds it tells the low 20 bits. */
#include "kvasir.h"

#define COLUMNS 39 /* of candidates, the first terms */
#define REQUEST 8 /* of the request, the terms behind */

KVASIR_MANIFEST(
	"{\"name\":\"columns\",\"version\":\"1.0.0\",\"abi\":\"1.0\",\"roles\":{\"score\":{\"columns\":["
	"\"matched_tokens\",\"matched_tokens_gpu\",\"matched_tokens_cpu\",\"matched_tokens_disk\",\"matched_ratio\","
	"\"uncached_tokens\",\"outstanding_uncached_tokens\",\"inflight\",\"kv_active_tokens\",\"speed\",\"running\",\"waiting\","
	"\"kv_usage\",\"kv_cached_tokens\",\"kv_capacity_tokens\",\"kv_evict_rate\",\"est_prefill_ms\",\"est_queue_ms\","
	"\"est_itl_ms\",\"prefill_rate\",\"decode_rate\",\"transfer_ms\",\"colocated\",\"rtt_ms\",\"age_ms\",\"events_age_ms\","
	"\"index_trust\",\"adapter_state\",\"draining\",\"warm_age_ms\",\"error_rate\",\"price\",\"spot\",\"prefer_weight\","
	"\"affinity_weight\",\"session_match\",\"decode_delay_tokens\",\"endpoint_id\",\"label/gpu=h100\""
	"],\"request\":["
	"\"model_id\",\"adapter_id\",\"operation\",\"profile\",\"objective\",\"tenant_hash\",\"size_class\",\"capacity_state\""
	"],\"terms\":["
	"\"matched_tokens\",\"matched_tokens_gpu\",\"matched_tokens_cpu\",\"matched_tokens_disk\",\"matched_ratio\","
	"\"uncached_tokens\",\"outstanding_uncached_tokens\",\"inflight\",\"kv_active_tokens\",\"speed\",\"running\",\"waiting\","
	"\"kv_usage\",\"kv_cached_tokens\",\"kv_capacity_tokens\",\"kv_evict_rate\",\"est_prefill_ms\",\"est_queue_ms\","
	"\"est_itl_ms\",\"prefill_rate\",\"decode_rate\",\"transfer_ms\",\"colocated\",\"rtt_ms\",\"age_ms\",\"events_age_ms\","
	"\"index_trust\",\"adapter_state\",\"draining\",\"warm_age_ms\",\"error_rate\",\"price\",\"spot\",\"prefer_weight\","
	"\"affinity_weight\",\"session_match\",\"decode_delay_tokens\",\"endpoint_id\",\"label/gpu=h100\","
	"\"req/model_id\",\"req/adapter_id\",\"req/operation\",\"req/profile\",\"req/objective\",\"req/tenant_hash\","
	"\"req/size_class\",\"req/capacity_state\","
	"\"priority\",\"max_tokens\"]}}}")

static int whole(uint32_t k) { return k == 27 || k == 37; }

KVASIR_SCORE(b) {
	for (uint32_t i = 0; i < b->n; i++) kvasir_scores(b)[i] = 0;
	if (!kvasir_explain(b)) return KVASIR_STATUS_OK;
	for (uint32_t k = 0; k < COLUMNS; k++)
		for (uint32_t i = 0; i < b->n; i++)
			kvasir_term(b, k)[i] = whole(k) ? (float)(kvasir_u32(b, k)[i] & 0xfffff) : kvasir_f32(b, k)[i];
	for (uint32_t k = 0; k < REQUEST; k++)
		for (uint32_t i = 0; i < b->n; i++)
			kvasir_term(b, COLUMNS + k)[i] = (float)(kvasir_req_u32(b, k) & 0xfffff);
	for (uint32_t i = 0; i < b->n; i++) {
		kvasir_term(b, COLUMNS + REQUEST)[i] = b->priority;
		kvasir_term(b, COLUMNS + REQUEST + 1)[i] = (float)b->max_tokens;
	}
	return KVASIR_STATUS_OK;
}

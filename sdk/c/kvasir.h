/* kvasir.h: what a placement plugin in C or C++ includes, once per plugin.

   A scorer:

       #include "kvasir.h"
       KVASIR_MANIFEST("{\"name\":\"prefix-first\",\"version\":\"1\",\"abi\":\"1.0\","
                       "\"roles\":{\"score\":{\"columns\":[\"matched_ratio\",\"waiting\"]}}}")
       KVASIR_SCORE_EACH(b, c) {
           kvasir_num hit = kvasir_col(c, 0), q = kvasir_col(c, 1);
           return 2 * hit - q / (q + 4);
       }

   Build it as sdk/c/build.sh does. All arrays are in guest memory, valid
   during the call. abi/SPEC.md is the reference. */
#ifndef KVASIR_H
#define KVASIR_H

#include <stdint.h>

#include "kvasir_abi.h"

#ifdef __cplusplus
#define KVASIR_C extern "C"
#define KVASIR_ASSERT static_assert
#else
#define KVASIR_C
#define KVASIR_ASSERT _Static_assert
#endif

#define KVASIR_EXPORT(name) KVASIR_C __attribute__((export_name(name), visibility("default")))
#define KVASIR_IMPORT(module, name) KVASIR_C __attribute__((import_module(module), import_name(name)))

/* The header of a batch. Offsets are from its address, in bytes. */
typedef struct {
	uint32_t size, n, stride, flags;
	uint32_t prompt_tokens, reserved, max_tokens;
	float priority;
	double now_ms;
	uint64_t session_hash;
	uint32_t ncols, cols_off, out_off, req_off;
	uint64_t seed;
	uint32_t nreq, terms_off, slot, nslots, k, out_size;
} kvasir_batch;

KVASIR_ASSERT(sizeof(kvasir_batch) == KVASIR_BATCH_HEADER_SIZE, "header size");
KVASIR_ASSERT(__builtin_offsetof(kvasir_batch, now_ms) == KVASIR_BATCH_NOW_MS, "now_ms");
KVASIR_ASSERT(__builtin_offsetof(kvasir_batch, cols_off) == KVASIR_BATCH_COLS_OFF, "cols_off");
KVASIR_ASSERT(__builtin_offsetof(kvasir_batch, seed) == KVASIR_BATCH_SEED, "seed");
KVASIR_ASSERT(__builtin_offsetof(kvasir_batch, out_size) == KVASIR_BATCH_OUT_SIZE, "out_size");

/* The argument of kvasir_configure. */
typedef struct {
	uint32_t size, flags, data_off, data_len;
} kvasir_config;

static inline const uint8_t *kvasir_at(const void *base, uint32_t off) { return (const uint8_t *)base + off; }

/* Column k of the manifest, n values (filter, score, observe). */
static inline const float *kvasir_f32(const kvasir_batch *b, uint32_t k) {
	return (const float *)__builtin_assume_aligned(kvasir_at(b, b->cols_off + k * b->stride * 4), 16);
}
static inline const uint32_t *kvasir_u32(const kvasir_batch *b, uint32_t k) {
	return (const uint32_t *)kvasir_at(b, b->cols_off + k * b->stride * 4);
}

/* Request slot k of the manifest. */
static inline uint64_t kvasir_req_u64(const kvasir_batch *b, uint32_t k) {
	return *(const uint64_t *)kvasir_at(b, b->req_off + k * 8);
}
static inline uint32_t kvasir_req_u32(const kvasir_batch *b, uint32_t k) { return (uint32_t)kvasir_req_u64(b, k); }

/* Results: scores (score), drops (filter), order of a slot (pick: count, then
   k places), published column p by row of the endpoint table (observe). */
static inline float *kvasir_scores(const kvasir_batch *b) {
	return (float *)__builtin_assume_aligned(kvasir_at(b, b->out_off), 16);
}
static inline uint32_t *kvasir_drops(const kvasir_batch *b) { return (uint32_t *)kvasir_at(b, b->out_off); }
static inline uint32_t *kvasir_order(const kvasir_batch *b, uint32_t slot) {
	return (uint32_t *)kvasir_at(b, b->out_off + slot * (b->k + 1) * 4);
}
static inline float *kvasir_published(const kvasir_batch *b, uint32_t p) {
	return (float *)kvasir_at(b, b->out_off + p * b->k * 4);
}

/* Term t of the manifest; only if kvasir_explain(b). */
static inline int kvasir_explain(const kvasir_batch *b) { return (b->flags & KVASIR_FLAG_EXPLAIN) && b->terms_off; }
static inline float *kvasir_term(const kvasir_batch *b, uint32_t t) {
	return (float *)kvasir_at(b, b->terms_off + t * b->stride * 4);
}

/* What pick gets before the manifest's columns: scores and mask of a slot, and
   the manifest's column k. */
static inline const float *kvasir_slot_scores(const kvasir_batch *b, uint32_t slot) { return kvasir_f32(b, slot); }
static inline const uint32_t *kvasir_slot_mask(const kvasir_batch *b, uint32_t slot) { return kvasir_u32(b, b->nslots + slot); }
static inline const float *kvasir_pick_f32(const kvasir_batch *b, uint32_t k) { return kvasir_f32(b, 2 * b->nslots + k); }

/* What observe gets: the endpoint_id of every row of the endpoint table. */
static inline const uint32_t *kvasir_endpoints(const kvasir_batch *b) { return (const uint32_t *)kvasir_at(b, b->terms_off); }

/* Exports every plugin has. */
#ifndef KVASIR_DECLARE_ONLY

KVASIR_EXPORT("kvasir_abi") uint32_t kvasir_abi(void) { return KVASIR_MAJOR << 16 | KVASIR_MINOR; }

/* The arena. With a libc it must come from malloc: wasi-libc's first malloc
   claims all memory behind __heap_base, pages grown before it included.
   Without one it takes fresh pages, in powers of two: pages are never given
   back. */
#ifdef __wasi__
#include <stdlib.h>
KVASIR_EXPORT("kvasir_alloc") uint32_t kvasir_alloc(uint32_t size) {
	static void *p;
	static uint32_t cap;
	if (size > cap) {
		free(p);
		p = malloc(size + 64ul);
		cap = p ? size : 0;
	}
	return p ? ((uint32_t)(uintptr_t)p + 63) & ~63u : 0;
}
#else
KVASIR_EXPORT("kvasir_alloc") uint32_t kvasir_alloc(uint32_t size) {
	static uint32_t base, cap;
	if (size > cap) {
		uint32_t pages = 1;
		while (pages < 4096 && pages << 16 < size) pages *= 2;
		unsigned long old = __builtin_wasm_memory_grow(0, pages);
		if (old == (unsigned long)-1 || pages << 16 < size) return 0;
		base = (uint32_t)old << 16;
		cap = pages << 16;
	}
	return base;
}
#endif

#endif

/* One candidate, or four, of KVASIR_SCORE_EACH. */
#ifdef __wasm_simd128__
typedef float kvasir_num __attribute__((vector_size(16)));
typedef int32_t kvasir_bits __attribute__((vector_size(16)));
#define KVASIR_LANES 4
#else
typedef float kvasir_num;
typedef int32_t kvasir_bits;
#define KVASIR_LANES 1
#endif
#define KVASIR_UNROLL 2 /* turns of a loop for one charge of fuel */

typedef struct {
	const float *cols;
	float *terms; /* 0 = nobody asks for them */
	uint32_t stride;
} kvasir_candidate;

#define KVASIR_INLINE static inline __attribute__((always_inline))

/* Column k of the manifest, and the same of a u32 column. */
KVASIR_INLINE kvasir_num kvasir_col(kvasir_candidate c, uint32_t k) { return *(const kvasir_num *)(c.cols + k * c.stride); }
KVASIR_INLINE kvasir_bits kvasir_col_u32(kvasir_candidate c, uint32_t k) { return *(const kvasir_bits *)(const void *)(c.cols + k * c.stride); }

/* A number for every candidate. */
KVASIR_INLINE kvasir_num kvasir_all(float x) { return x - (kvasir_num){0}; }

/* The numbers of a u32 column, below 2^31. */
#ifdef __wasm_simd128__
KVASIR_INLINE kvasir_num kvasir_float(kvasir_bits x) { return __builtin_convertvector(x, kvasir_num); }
#else
KVASIR_INLINE kvasir_num kvasir_float(kvasir_bits x) { return (float)x; }
#endif

/* Sets term t of the manifest, if the host asks for terms. */
KVASIR_INLINE void kvasir_set_term(kvasir_candidate c, uint32_t t, kvasir_num v) {
	if (c.terms) *(kvasir_num *)(c.terms + t * c.stride) = v;
}

/* x where is, the comparison of two kvasir_num, is true, else y; both must be
   finite. kvasir_min and kvasir_max are a < b ? a : b and a > b ? a : b. */
#ifdef __wasm_simd128__
KVASIR_INLINE kvasir_num kvasir_if(kvasir_bits is, kvasir_num x, kvasir_num y) {
	return (kvasir_num)(((kvasir_bits)x & is) | ((kvasir_bits)y & ~is));
}
#else
KVASIR_INLINE kvasir_num kvasir_if(kvasir_bits is, kvasir_num x, kvasir_num y) { return is ? x : y; }
#endif
KVASIR_INLINE kvasir_num kvasir_min(kvasir_num a, kvasir_num b) { return kvasir_if(a < b, a, b); }
KVASIR_INLINE kvasir_num kvasir_max(kvasir_num a, kvasir_num b) { return kvasir_if(a > b, a, b); }

typedef kvasir_num kvasir_each(const kvasir_batch *b, kvasir_candidate c);

/* Scores all candidates. The empty assembly hides where the pointers come from:
   else the compiler makes one address for each column, and every one is checked.
   Two of them, so that it knows that out is none of the plugin's own variables. */
KVASIR_INLINE void kvasir_score_rows(const kvasir_batch *b, float *out, kvasir_each *one, uint32_t stride, float *terms) {
	kvasir_candidate c = {kvasir_f32(b, 0), terms, stride};
	for (uint32_t i = 0, n = b->n; i < n; i += KVASIR_UNROLL * KVASIR_LANES) {
		__asm__("" : "+r"(c.cols));
		__asm__("" : "+r"(out));
		_Pragma("clang loop unroll(full)") for (uint32_t u = 0; u < KVASIR_UNROLL; u++) {
			*(kvasir_num *)out = one(b, c);
			c.cols += KVASIR_LANES;
			out += KVASIR_LANES;
			if (terms) c.terms += KVASIR_LANES;
		}
	}
}

/* The strides of the host of this minor version; others are as right, and slower. */
KVASIR_INLINE void kvasir_score_all(const kvasir_batch *b, kvasir_each *one) {
	float *out = kvasir_scores(b);
	__asm__("" : "+r"(out));
	if (kvasir_explain(b)) {
		kvasir_score_rows(b, out, one, b->stride, kvasir_term(b, 0));
		return;
	}
	switch (b->stride) {
	case 16: kvasir_score_rows(b, out, one, 16, 0); break;
	case 32: kvasir_score_rows(b, out, one, 32, 0); break;
	case 64: kvasir_score_rows(b, out, one, 64, 0); break;
	case 144: kvasir_score_rows(b, out, one, 144, 0); break;
	case 272: kvasir_score_rows(b, out, one, 272, 0); break;
	case 528: kvasir_score_rows(b, out, one, 528, 0); break;
	case 1040: kvasir_score_rows(b, out, one, 1040, 0); break;
	case 2064: kvasir_score_rows(b, out, one, 2064, 0); break;
	case 4112: kvasir_score_rows(b, out, one, 4112, 0); break;
	default: kvasir_score_rows(b, out, one, b->stride, 0);
	}
}

#define KVASIR_SCORE_EACH_IF(b, c, ready)                                                            \
	KVASIR_INLINE kvasir_num kvasir_user_each(const kvasir_batch *b, kvasir_candidate c);            \
	KVASIR_SCORE(b) {                                                                                \
		if (!(ready)) return KVASIR_STATUS_ABSTAIN;                                                  \
		kvasir_score_all(b, kvasir_user_each);                                                       \
		return KVASIR_STATUS_OK;                                                                     \
	}                                                                                                \
	KVASIR_INLINE kvasir_num kvasir_user_each(__attribute__((unused)) const kvasir_batch *b, kvasir_candidate c)

#define KVASIR_MANIFEST(json)                                                            \
	KVASIR_EXPORT("kvasir_manifest") uint64_t kvasir_manifest(void) {                    \
		static const char text[] = json;                                                 \
		return (uint64_t)(uint32_t)(uintptr_t)text << 32 | (uint32_t)(sizeof(text) - 1); \
	}

/* A role: the body returns a KVASIR_STATUS. */
#define KVASIR_ROLE(role, b)                                                                                       \
	static uint32_t kvasir_user_##role(const kvasir_batch *b);                                                     \
	KVASIR_EXPORT("kvasir_" #role) uint32_t kvasir_##role(uint32_t p) {                                            \
		return kvasir_user_##role((const kvasir_batch *)(uintptr_t)p);                                             \
	}                                                                                                              \
	static uint32_t kvasir_user_##role(const kvasir_batch *b)

#define KVASIR_SCORE(b) KVASIR_ROLE(score, b)
#define KVASIR_FILTER(b) KVASIR_ROLE(filter, b)

/* A scorer written for one candidate: the body returns its score. It is compiled for every stride the host uses, so
   that columns stand at fixed distances and one check of bounds does for all of
   them: half the time of a loop over kvasir_f32. With -msimd128 a kvasir_num is
   four candidates at once, with the same bits; use + - * /, kvasir_min,
   kvasir_max and kvasir_if, no statement that branches on a candidate. It also
   runs for the zeros between n and the stride; the host ignores what comes of
   them. What is the same for all candidates of a batch belongs into
   KVASIR_SCORE_EACH_IF(b, c, ready): ready, an expression of b, is evaluated once
   before them, may set static variables, and abstains where it is 0. */
#define KVASIR_SCORE_EACH(b, c) KVASIR_SCORE_EACH_IF(b, c, 1)
#define KVASIR_PICK(b) KVASIR_ROLE(pick, b)
#define KVASIR_OBSERVE(b) KVASIR_ROLE(observe, b)

/* Experimental, may change in any minor version: the body sizes a group of pools.
   It writes kvasir_scale_out(f)->desired and returns KVASIR_STATUS_OK, or
   KVASIR_STATUS_ABSTAIN. The manifest lists it as "x_autoscale": {}. */
typedef struct {
	uint32_t size, flags, npools, nnodes, nsamples, ncols, stride, pool_bytes;
	double now_ms;
	uint32_t node_bytes, pools_off, nodes_off, samples_off, out_off, out_bytes, out_pools_off, out_victims_off, out_reason_off;
	uint32_t now, desired, wish, window, reserved;
	double rate, lead, ahead, backlog, cold_ms;
} kvasir_fleet;

typedef struct {
	uint32_t min, max, ready, pending, draining, failing, outstanding, flags; /* KVASIR_SCALE_POOL_SPOT, _BLOCKED */
	double price, cold_ms;
	uint32_t name_off, name_len, first, nodes;
} kvasir_pool;

typedef struct {
	uint32_t pool, flags, drain, inflight, sessions, name_off, name_len, reserved; /* KVASIR_SCALE_NODE_READY, _FAILING */
	double heat, age_ms, oldest_ms;
} kvasir_node;

typedef struct {
	uint32_t desired, nvictims;
	double hold_ms, ttl_ms;
	uint32_t reason_len, reserved;
} kvasir_scale_result;

KVASIR_ASSERT(sizeof(kvasir_fleet) == KVASIR_SCALE_HEADER_SIZE, "fleet size");
KVASIR_ASSERT(__builtin_offsetof(kvasir_fleet, out_reason_off) == KVASIR_SCALE_OUT_REASON_OFF, "out_reason_off");
KVASIR_ASSERT(__builtin_offsetof(kvasir_fleet, rate) == KVASIR_SCALE_RATE, "rate");
KVASIR_ASSERT(sizeof(kvasir_pool) == KVASIR_SCALE_POOL_HEADER_SIZE, "pool size");
KVASIR_ASSERT(__builtin_offsetof(kvasir_pool, name_off) == KVASIR_SCALE_POOL_NAME_OFF, "pool name");
KVASIR_ASSERT(sizeof(kvasir_node) == KVASIR_SCALE_NODE_HEADER_SIZE, "node size");
KVASIR_ASSERT(__builtin_offsetof(kvasir_node, heat) == KVASIR_SCALE_NODE_HEAT, "node heat");
KVASIR_ASSERT(sizeof(kvasir_scale_result) == KVASIR_SCALE_OUT_HEADER_SIZE, "result size");

static inline const kvasir_pool *kvasir_pool_at(const kvasir_fleet *f, uint32_t i) {
	return (const kvasir_pool *)kvasir_at(f, f->pools_off + i * f->pool_bytes);
}
static inline const kvasir_node *kvasir_node_at(const kvasir_fleet *f, uint32_t i) {
	return (const kvasir_node *)kvasir_at(f, f->nodes_off + i * f->node_bytes);
}
/* A column of history, KVASIR_SCALE_SAMPLE_RATE and so on: nsamples values, oldest first. */
static inline const float *kvasir_samples(const kvasir_fleet *f, uint32_t col) {
	return (const float *)kvasir_at(f, f->samples_off + col * f->stride * 4);
}
static inline kvasir_scale_result *kvasir_scale_out(const kvasir_fleet *f) { return (kvasir_scale_result *)kvasir_at(f, f->out_off); }
/* Sizes of single pools; KVASIR_UNWRITTEN = by preference. */
static inline uint32_t *kvasir_scale_pools(const kvasir_fleet *f) { return (uint32_t *)kvasir_at(f, f->out_pools_off); }
/* Endpoints that go first when the size goes down; nvictims says how many. */
static inline uint32_t *kvasir_scale_victims(const kvasir_fleet *f) { return (uint32_t *)kvasir_at(f, f->out_victims_off); }
/* Adds to the reason that people read; what does not fit is cut. */
static inline void kvasir_scale_reason(const kvasir_fleet *f, const char *text) {
	kvasir_scale_result *out = kvasir_scale_out(f);
	while (*text && out->reason_len < KVASIR_MAX_SCALE_REASON) ((char *)kvasir_at(f, f->out_reason_off))[out->reason_len++] = *text++;
}
static inline void kvasir_scale_reason_number(const kvasir_fleet *f, uint32_t n) {
	char digits[11], *at = digits + 10;
	*at = 0;
	do *--at = (char)('0' + n % 10);
	while (n /= 10);
	kvasir_scale_reason(f, at);
}

#define KVASIR_AUTOSCALE(f)                                                                  \
	static uint32_t kvasir_user_autoscale(const kvasir_fleet *f);                            \
	KVASIR_EXPORT("kvasir_x_autoscale") uint32_t kvasir_x_autoscale(uint32_t p) {            \
		return kvasir_user_autoscale((const kvasir_fleet *)(uintptr_t)p);                    \
	}                                                                                        \
	static uint32_t kvasir_user_autoscale(const kvasir_fleet *f)

/* Experimental: the argument of the roles that read a document, and what they write. */
typedef struct {
	uint32_t size, flags;
	double now_ms;
	uint32_t data_off, data_len, out_off, out_bytes;
} kvasir_document;

typedef struct {
	uint32_t figure, reserved; /* KVASIR_FIGURE_RUNNING and so on */
	double value;
} kvasir_figure;

KVASIR_ASSERT(sizeof(kvasir_document) == KVASIR_DOCUMENT_HEADER_SIZE, "document size");
KVASIR_ASSERT(__builtin_offsetof(kvasir_document, out_off) == KVASIR_DOCUMENT_OUT_OFF, "document out_off");
KVASIR_ASSERT(sizeof(kvasir_figure) == KVASIR_FIGURE_HEADER_SIZE, "figure size");

static inline uint32_t *kvasir_document_count(const kvasir_document *d) { return (uint32_t *)kvasir_at(d, d->out_off); }
static inline uint8_t *kvasir_document_out(const kvasir_document *d) { return (uint8_t *)kvasir_at(d, d->out_off + KVASIR_DOCUMENT_OUT_HEADER_SIZE); }

/* Adds a figure, each at most once; one that does not fit is left out. */
static inline void kvasir_add_figure(const kvasir_document *d, uint32_t figure, double value) {
	uint32_t *n = kvasir_document_count(d);
	if ((*n + 1) * sizeof(kvasir_figure) > d->out_bytes) return;
	((kvasir_figure *)kvasir_document_out(d))[(*n)++] = (kvasir_figure){figure, 0, value};
}
/* Adds to the text of endpoints, one URL or host:port a line; what does not fit is left out. */
static inline void kvasir_add_endpoints(const kvasir_document *d, const char *text, uint32_t len) {
	uint32_t *n = kvasir_document_count(d);
	for (uint32_t i = 0; i < len && *n < d->out_bytes; i++) kvasir_document_out(d)[(*n)++] = (uint8_t)text[i];
}

#define KVASIR_DOCUMENT_ROLE(role, d, text, len)                                                       \
	static uint32_t kvasir_user_##role(const kvasir_document *d, const char *text, uint32_t len);      \
	KVASIR_EXPORT("kvasir_x_" #role) uint32_t kvasir_x_##role(uint32_t p) {                            \
		const kvasir_document *doc = (const kvasir_document *)(uintptr_t)p;                            \
		*kvasir_document_count(doc) = 0;                                                               \
		return kvasir_user_##role(doc, (const char *)kvasir_at(doc, doc->data_off), doc->data_len);    \
	}                                                                                                  \
	static uint32_t kvasir_user_##role(__attribute__((unused)) const kvasir_document *d, __attribute__((unused)) const char *text, __attribute__((unused)) uint32_t len)

/* What an engine answered to a scrape, len bytes: the body calls kvasir_add_figure. "x_backend_parse": {} */
#define KVASIR_BACKEND_PARSE(d, text, len) KVASIR_DOCUMENT_ROLE(backend_parse, d, text, len)
/* A document that lists endpoints, len bytes: the body calls kvasir_add_endpoints. "x_discover": {} */
#define KVASIR_DISCOVER(d, text, len) KVASIR_DOCUMENT_ROLE(discover, d, text, len)

/* Configuration: text is JSON of len bytes, not terminated, valid during the call. */
#define KVASIR_CONFIGURE(text, len)                                                     \
	static uint32_t kvasir_user_configure(const char *text, uint32_t len);              \
	KVASIR_EXPORT("kvasir_configure") uint32_t kvasir_configure(uint32_t p) {           \
		const kvasir_config *c = (const kvasir_config *)(uintptr_t)p;                   \
		return kvasir_user_configure((const char *)kvasir_at(c, c->data_off), c->data_len); \
	}                                                                                   \
	static uint32_t kvasir_user_configure(const char *text, uint32_t len)

/* Reads the number behind "key" in the config, or the numbers of the list there, at most max of them, and returns how
   many it read. Plain decimals without an exponent; the first place of the key counts, at whatever depth. */
static inline uint32_t kvasir_numbers(const char *text, uint32_t len, const char *key, double *out, uint32_t max) {
	uint32_t i = 0, k = 0, n = 0;
	for (; i < len; i++) {
		if (text[i] != '"') continue;
		for (k = 0; key[k] && i + 1 + k < len && text[i + 1 + k] == key[k];) k++;
		if (!key[k] && i + 1 + k < len && text[i + 1 + k] == '"') break;
	}
	if (i >= len) return 0;
	int list = 0;
	for (i += k + 2; i < len; i++) {
		char c = text[i];
		if (c == '[' && !list) list = 1;
		else if (c == '-' || (c >= '0' && c <= '9')) {
			double v = 0, unit = 1;
			int minus = c == '-', behind = 0;
			for (i += minus; i < len && ((text[i] >= '0' && text[i] <= '9') || (text[i] == '.' && !behind)); i++) {
				if (text[i] == '.') behind = 1;
				else v = v * 10 + (text[i] - '0'), unit *= behind ? 10 : 1;
			}
			if (n < max) out[n++] = (minus ? -v : v) / unit;
			if (!list) break;
			i--;
		} else if (c != ' ' && c != ':' && c != ',' && c != '\n' && c != '\t' && c != '\r') break;
	}
	return n;
}

/* Maintenance, while no request waits: fuel is about how much the call may use. */
#define KVASIR_IDLE(fuel)                                                                                                   \
	static uint32_t kvasir_user_idle(uint32_t fuel);                                                                        \
	KVASIR_EXPORT("kvasir_idle") uint32_t kvasir_idle(uint32_t p) {                                                         \
		return kvasir_user_idle(*(const uint32_t *)kvasir_at((const void *)(uintptr_t)p, KVASIR_IDLE_FUEL_HINT)); \
	}                                                                                                                       \
	static uint32_t kvasir_user_idle(uint32_t fuel)

/* Host modules; a plugin that calls one lists it in its manifest. */
KVASIR_IMPORT("kvasir:log/1", "log") void kvasir_log(uint32_t level, const char *text, uint32_t len);
KVASIR_IMPORT("kvasir:kv/1", "get") int32_t kvasir_kv_get(const void *key, uint32_t klen, void *val, uint32_t cap);
KVASIR_IMPORT("kvasir:kv/1", "set") int32_t kvasir_kv_set(const void *key, uint32_t klen, const void *val, uint32_t vlen);
KVASIR_IMPORT("kvasir:kv/1", "delete") int32_t kvasir_kv_delete(const void *key, uint32_t klen);
KVASIR_IMPORT("kvasir:metrics/1", "add") void kvasir_metric_add(const char *name, uint32_t len, double delta);
KVASIR_IMPORT("kvasir:metrics/1", "set") void kvasir_metric_set(const char *name, uint32_t len, double value);

#endif

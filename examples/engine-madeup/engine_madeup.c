/* engine-madeup: reads an engine that no dialect describes. The engine reports its
   state as

       q=3;busy=2;mem=41%;prompt=18230;out=4711;up=1767225600

   (waiting and running requests, memory in use, prompt and output tokens since its
   start, and the start time), and the registry of its fleet is a file with lines

       unit alpha @ 10.0.0.1 port 8000 state=up      # a comment

   The units that are up are endpoints. */
#include "kvasir.h"

KVASIR_MANIFEST("{\"name\":\"engine-madeup\",\"version\":\"1.0.0\",\"abi\":\"1.0\","
                "\"roles\":{\"x_backend_parse\":{},\"x_discover\":{}},\"state_version\":1}")

static int same(const char *text, uint32_t len, const char *word) {
	uint32_t i = 0;
	for (; i < len && word[i]; i++)
		if (text[i] != word[i]) return 0;
	return i == len && !word[i];
}

/* Reads a number that is the whole text except for the unit at its end; -1 if it is not a number. */
static double value_of(const char *text, uint32_t len, char unit) {
	double v = 0;
	if (unit && (len == 0 || text[--len] != unit)) return -1;
	if (len == 0 || len > 15) return -1;
	for (uint32_t i = 0; i < len; i++) {
		if (text[i] < '0' || text[i] > '9') return -1;
		v = v * 10 + (text[i] - '0');
	}
	return v;
}

static const struct {
	const char *name;
	uint32_t figure;
	char unit;
	double scale;
} figures[] = {
	{"q", KVASIR_FIGURE_WAITING, 0, 1},
	{"busy", KVASIR_FIGURE_RUNNING, 0, 1},
	{"mem", KVASIR_FIGURE_KV_USAGE, '%', 100},
	{"prompt", KVASIR_FIGURE_PROMPT_TOKENS, 0, 1},
	{"out", KVASIR_FIGURE_OUTPUT_TOKENS, 0, 1},
	{"up", KVASIR_FIGURE_START_TIME, 0, 1},
};

/* Reads one key=value. An unknown field invalidates the whole text: no figures are better than
   wrong ones. This is not an error of the plugin; an error would close its instance. */
static int field(const kvasir_document *d, const char *text, uint32_t len) {
	uint32_t eq = 0;
	while (eq < len && text[eq] != '=') eq++;
	for (uint32_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		if (eq == len || !same(text, eq, figures[i].name)) continue;
		double v = value_of(text + eq + 1, len - eq - 1, figures[i].unit);
		if (v < 0) return 0;
		kvasir_add_figure(d, figures[i].figure, v / figures[i].scale);
		return 1;
	}
	return 0;
}

/* The engine's state is one line, its registry a few lines. Longer text has another format
   and would only consume the fuel of the call. */
#define MAX_STATS 4096
#define MAX_REGISTRY (256 * 1024)

KVASIR_BACKEND_PARSE(d, text, len) {
	uint32_t from = 0;
	if (len > MAX_STATS) return KVASIR_STATUS_UNSUPPORTED;
	while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r')) len--;
	if (len == 0) return KVASIR_STATUS_ABSTAIN;
	for (uint32_t i = 0; i <= len; i++) {
		if (i < len && text[i] != ';') continue;
		if (!field(d, text + from, i - from)) return KVASIR_STATUS_UNSUPPORTED;
		from = i + 1;
	}
	return KVASIR_STATUS_OK;
}

/* Reads one line: unit NAME @ HOST port PORT state=STATE */
static int unit(const kvasir_document *d, const char *text, uint32_t len) {
	const char *word[7];
	uint32_t size[7], n = 0;
	for (uint32_t i = 0; i < len && text[i] != '#';) {
		uint32_t from = i;
		while (i < len && text[i] != ' ' && text[i] != '\t' && text[i] != '#') i++;
		if (i > from) {
			if (n == 7) return 0;
			word[n] = text + from, size[n++] = i - from;
		}
		while (i < len && (text[i] == ' ' || text[i] == '\t')) i++;
	}
	if (n == 0) return 1;
	if (n != 7 || !same(word[0], size[0], "unit") || !same(word[2], size[2], "@") || !same(word[4], size[4], "port"))
		return 0;
	if (!same(word[6], size[6], "state=up")) return 1;
	kvasir_add_endpoints(d, word[3], size[3]);
	kvasir_add_endpoints(d, ":", 1);
	kvasir_add_endpoints(d, word[5], size[5]);
	kvasir_add_endpoints(d, "\n", 1);
	return 1;
}

KVASIR_DISCOVER(d, text, len) {
	uint32_t from = 0;
	if (len > MAX_REGISTRY) return KVASIR_STATUS_UNSUPPORTED;
	for (uint32_t i = 0; i <= len; i++) {
		if (i < len && text[i] != '\n') continue;
		if (!unit(d, text + from, i - from)) return KVASIR_STATUS_UNSUPPORTED;
		from = i + 1;
	}
	return KVASIR_STATUS_OK;
}

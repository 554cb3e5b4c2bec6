/* The lines of "key value" a device is made from. Every key is required, and none is left over. */
#ifndef HSP_SPEC_H
#define HSP_SPEC_H

#include <stddef.h>
#include <stdint.h>

enum { HSP_SPEC_KEYS = 128, HSP_SPEC_BYTES = 16384 };

struct hsp_spec_line {
	const char *key;
	const char *value;
	int used;
};

struct hsp_spec {
	char text[HSP_SPEC_BYTES];
	struct hsp_spec_line lines[HSP_SPEC_KEYS];
	size_t count;
	const char *prefix; /* of the keys that are asked for: "" or "backing." */
	char *error;
	size_t error_size;
	int failed; /* the first mistake is in `error` */
};

/* -1 and a sentence in `error` if the text is not lines of "key value". */
int hsp_spec_parse(struct hsp_spec *spec, const char *text, char *error, size_t error_size);

/* The number of `key`, or `min` and a failed spec if it is missing, no number or out of range. */
uint64_t hsp_spec_number(struct hsp_spec *spec, const char *key, uint64_t min, uint64_t max);

/* Which of the `words` (ended by NULL) the value is, or 0 and a failed spec. */
unsigned hsp_spec_word(struct hsp_spec *spec, const char *key, const char *const *words);

/* The spec fails with this sentence, unless it has failed before. */
void hsp_spec_fail(struct hsp_spec *spec, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0 if nothing failed and every line was asked for. */
int hsp_spec_finish(struct hsp_spec *spec);

#endif

/* Spec of a device: lines of "key value". Every key is required, but for those read with a default; unknown keys are refused. */
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
	const char *prefix; /* of the keys to look up: "" or "backing." */
	char *error;
	size_t error_size;
	int failed; /* the first mistake is in `error` */
};

/* -1 and a message in `error` if the text is not lines of "key value". */
int hsp_spec_parse(struct hsp_spec *spec, const char *text, char *error, size_t error_size);

/* The number of `key`; `min` and a failed spec if it is missing, not a number or out of range. */
uint64_t hsp_spec_number(struct hsp_spec *spec, const char *key, uint64_t min, uint64_t max);

/*
 * As hsp_spec_number, but `otherwise` if the key is missing: for what was added to a model. So the
 * spec of a device without it, and with it each saved state, stays as it was.
 */
uint64_t hsp_spec_number_or(struct hsp_spec *spec, const char *key, uint64_t min, uint64_t max, uint64_t otherwise);

/* Index of the value in `words` (ended by NULL); 0 and a failed spec if it is none of them. */
unsigned hsp_spec_word(struct hsp_spec *spec, const char *key, const char *const *words);

/* Fail the spec with this message, unless it has failed already. */
void hsp_spec_fail(struct hsp_spec *spec, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0 if nothing failed and every line was looked up. */
int hsp_spec_finish(struct hsp_spec *spec);

#endif

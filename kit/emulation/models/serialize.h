/* Saved state: a sequence of little-endian numbers, the same on every machine. */
#ifndef HSP_SERIALIZE_H
#define HSP_SERIALIZE_H

#include <stddef.h>
#include <stdint.h>

/* Writing past the end only advances `at`; reading past the end sets `failed` and returns 0. */
struct hsp_state {
	uint8_t *to;
	const uint8_t *from;
	size_t size;
	size_t at;
	int failed;
};

void hsp_state_put(struct hsp_state *state, uint64_t value, unsigned bytes);
uint64_t hsp_state_get(struct hsp_state *state, unsigned bytes);

/* A number of at most `max`; a larger number sets `failed`. */
uint64_t hsp_state_get_upto(struct hsp_state *state, unsigned bytes, uint64_t max);

/* FNV-1a over bytes: detects a damaged file, not a forged one. */
uint64_t hsp_state_digest(const void *bytes, size_t size);

#endif

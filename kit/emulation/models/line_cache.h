/*
 * Content of a device that a controller keeps to answer reads: lines of 4 KiB with a bit for each sector
 * that is in it. The line that was used longest ago makes room.
 */
#ifndef HSP_LINE_CACHE_H
#define HSP_LINE_CACHE_H

#include <stdint.h>

enum { HSP_LINE_SECTORS = 8 };

struct hsp_line_cache {
	uint8_t *bits; /* per line of the device */
	uint32_t *older, *newer; /* neighbours by time of use */
	uint32_t oldest, newest;
	uint64_t count; /* lines with a bit */
};

/* Bits of the sectors of a line that lie in [sector, end). */
uint8_t hsp_line_mask(uint64_t line, uint64_t sector, uint64_t end);

int hsp_line_cache_init(struct hsp_line_cache *cache, uint64_t lines); /* -1: no memory, or above 2^32 - 2 lines */
void hsp_line_cache_free(struct hsp_line_cache *cache);
void hsp_line_cache_clear(struct hsp_line_cache *cache);

/* Add sectors of one line, as the newest line. */
void hsp_line_cache_add(struct hsp_line_cache *cache, uint64_t line, uint8_t bits);
void hsp_line_cache_remove(struct hsp_line_cache *cache, uint64_t line, uint8_t bits);
/* Drop the oldest lines until at most `lines` are left. */
void hsp_line_cache_shrink(struct hsp_line_cache *cache, uint64_t lines);

#endif

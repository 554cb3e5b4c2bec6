/* Bitmap of the dirty sectors of a write cache. */
#ifndef HSP_DIRTY_BITMAP_H
#define HSP_DIRTY_BITMAP_H

#include <stdint.h>

struct hsp_dirty {
	uint64_t *bits;
	uint64_t sectors; /* of the device */
	uint64_t count;	  /* dirty */
};

int hsp_dirty_init(struct hsp_dirty *dirty, uint64_t sectors); /* -1: no memory */
void hsp_dirty_free(struct hsp_dirty *dirty);
void hsp_dirty_clear(struct hsp_dirty *dirty);

static inline int hsp_dirty_has(const struct hsp_dirty *dirty, uint64_t sector)
{
	return (int)(dirty->bits[sector / 64] >> (sector % 64) & 1);
}

/* Count, add or remove the sectors [sector, end). */
uint64_t hsp_dirty_count(const struct hsp_dirty *dirty, uint64_t sector, uint64_t end);
void hsp_dirty_add(struct hsp_dirty *dirty, uint64_t sector, uint64_t end);
void hsp_dirty_remove(struct hsp_dirty *dirty, uint64_t sector, uint64_t end);

/* The next dirty sector from `sector` on, wrapping around at the end. At least one must be dirty. */
uint64_t hsp_dirty_next(const struct hsp_dirty *dirty, uint64_t sector);

#endif

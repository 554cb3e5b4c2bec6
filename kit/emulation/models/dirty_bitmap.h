/* A set of sectors: those whose newest content waits in a cache. */
#ifndef HSP_DIRTY_BITMAP_H
#define HSP_DIRTY_BITMAP_H

#include <stdint.h>

struct hsp_dirty {
	uint64_t *bits;
	uint64_t sectors; /* that there are */
	uint64_t count;	  /* that are in the set */
};

int hsp_dirty_init(struct hsp_dirty *dirty, uint64_t sectors); /* -1: no memory */
void hsp_dirty_free(struct hsp_dirty *dirty);
void hsp_dirty_clear(struct hsp_dirty *dirty);

static inline int hsp_dirty_has(const struct hsp_dirty *dirty, uint64_t sector)
{
	return (int)(dirty->bits[sector / 64] >> (sector % 64) & 1);
}

/* Of the sectors from `sector` to before `end`. */
uint64_t hsp_dirty_count(const struct hsp_dirty *dirty, uint64_t sector, uint64_t end);
void hsp_dirty_add(struct hsp_dirty *dirty, uint64_t sector, uint64_t end);
void hsp_dirty_remove(struct hsp_dirty *dirty, uint64_t sector, uint64_t end);

/* The first in the set from a sector on, or from the beginning. The set is not empty. */
uint64_t hsp_dirty_next(const struct hsp_dirty *dirty, uint64_t sector);

#endif

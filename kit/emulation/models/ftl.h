/*
 * The flash translation layer: which physical page holds which logical page, and which block is
 * to be collected. It knows no time. Logical pages are striped over the dies, and each die
 * collects for itself, greedily: the block with the fewest valid pages first.
 */
#ifndef HSP_FTL_H
#define HSP_FTL_H

#include <stdint.h>

#include "serialize.h"

#define HSP_NO_PAGE UINT32_MAX
#define HSP_NO_BLOCK UINT32_MAX

/* Blocks a die has beyond user capacity and over-provisioning: one is written, two are kept erased. */
enum { HSP_RESERVED_BLOCKS = 3 };

struct hsp_ftl_die {
	uint32_t *erased; /* ring of erased blocks, oldest first */
	uint32_t erased_first, erased_count;
	uint32_t active; /* block being written, or HSP_NO_BLOCK */
	uint32_t victim; /* block being collected, or HSP_NO_BLOCK */
	uint32_t victim_page; /* next page of it to look at */
	uint32_t mapped; /* valid pages of the die */
};

struct hsp_ftl {
	uint32_t dies, pages_per_block, blocks_per_die, logical_pages;
	uint32_t *map;     /* logical to physical page, or HSP_NO_PAGE */
	uint32_t *owner;   /* physical to logical page, or HSP_NO_PAGE where it is not valid */
	uint16_t *valid;   /* by block: valid pages */
	uint16_t *written; /* by block: pages written since it was erased */
	struct hsp_ftl_die *die;
	uint64_t mapped;
};

/* -1: no memory, or more physical pages than 2^32 - 2. `spare_permyriad`: of the user capacity. */
int hsp_ftl_init(struct hsp_ftl *ftl, uint32_t dies, uint32_t pages_per_block, uint32_t logical_pages,
		 uint32_t spare_permyriad);
void hsp_ftl_free(struct hsp_ftl *ftl);
uint64_t hsp_ftl_memory(const struct hsp_ftl *ftl);

static inline uint32_t hsp_ftl_die_of(const struct hsp_ftl *ftl, uint32_t page)
{
	return page % ftl->dies;
}

static inline int hsp_ftl_is_mapped(const struct hsp_ftl *ftl, uint32_t page)
{
	return ftl->map[page] != HSP_NO_PAGE;
}

/* Pages that can be written on the die before a block must be erased. */
uint32_t hsp_ftl_room(const struct hsp_ftl *ftl, uint32_t die);

/* A logical page goes to the next erased page of its die, where there must be room. */
void hsp_ftl_place(struct hsp_ftl *ftl, uint32_t page);
void hsp_ftl_unmap(struct hsp_ftl *ftl, uint32_t page);

/* The block to collect is chosen if none is. Returns the valid pages left in it. */
uint32_t hsp_ftl_collect(struct hsp_ftl *ftl, uint32_t die);

/* The next valid page of the block being collected, or HSP_NO_PAGE: it can be erased. */
uint32_t hsp_ftl_next_copy(struct hsp_ftl *ftl, uint32_t die);
void hsp_ftl_erase_victim(struct hsp_ftl *ftl, uint32_t die);

/* All blocks of a die without valid pages are erased; how many were not. */
uint32_t hsp_ftl_erase_all(struct hsp_ftl *ftl, uint32_t die);

void hsp_ftl_put(const struct hsp_ftl *ftl, struct hsp_state *state);
void hsp_ftl_get(struct hsp_ftl *ftl, struct hsp_state *state);

#endif

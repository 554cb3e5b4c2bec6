/*
 * The flash translation layer: the map from logical to physical pages, and the choice of blocks for
 * garbage collection. It has no notion of time. Logical pages are striped over the dies. Each die
 * collects its own blocks, greedily: the block with the fewest valid pages first.
 */
#ifndef HSP_FTL_H
#define HSP_FTL_H

#include <stdint.h>

#include "serialize.h"

#define HSP_NO_PAGE UINT32_MAX
#define HSP_NO_BLOCK UINT32_MAX

/* Blocks of a die beyond user capacity and over-provisioning: one being written, two kept erased. */
enum { HSP_RESERVED_BLOCKS = 3 };

struct hsp_ftl_die {
	uint32_t *erased; /* ring of erased blocks, oldest first */
	uint32_t erased_first, erased_count;
	uint32_t active; /* block being written, or HSP_NO_BLOCK */
	uint32_t victim; /* block being collected, or HSP_NO_BLOCK */
	uint32_t victim_page; /* next page of the victim to check */
	uint32_t mapped; /* valid pages of the die */
};

struct hsp_ftl {
	uint32_t dies, pages_per_block, blocks_per_die, logical_pages;
	uint32_t *map;     /* logical to physical page, or HSP_NO_PAGE */
	uint32_t *owner;   /* physical to logical page, or HSP_NO_PAGE if not valid */
	uint16_t *valid;   /* per block: valid pages */
	uint16_t *written; /* per block: pages written since its erase */
	struct hsp_ftl_die *die;
	uint64_t mapped;
};

/* -1: no memory, or more than 2^32 - 2 physical pages. `spare_permyriad`: of the user capacity. */
int hsp_ftl_init(struct hsp_ftl *ftl, uint32_t dies, uint32_t pages_per_block, uint32_t logical_pages,
		 uint32_t spare_permyriad);
void hsp_ftl_free(struct hsp_ftl *ftl);

static inline uint32_t hsp_ftl_die_of(const struct hsp_ftl *ftl, uint32_t page)
{
	return page % ftl->dies;
}

static inline int hsp_ftl_is_mapped(const struct hsp_ftl *ftl, uint32_t page)
{
	return ftl->map[page] != HSP_NO_PAGE;
}

/* Number of pages that can be written on the die before a block must be erased. */
uint32_t hsp_ftl_room(const struct hsp_ftl *ftl, uint32_t die);

/* Map a logical page to the next erased page of its die, which must have room. */
void hsp_ftl_place(struct hsp_ftl *ftl, uint32_t page);
void hsp_ftl_unmap(struct hsp_ftl *ftl, uint32_t page);

/* Choose a victim block unless there is one. Returns the valid pages left in it. */
uint32_t hsp_ftl_collect(struct hsp_ftl *ftl, uint32_t die);

/* The next valid page of the victim block, or HSP_NO_PAGE: the block can be erased. */
uint32_t hsp_ftl_next_copy(struct hsp_ftl *ftl, uint32_t die);
void hsp_ftl_erase_victim(struct hsp_ftl *ftl, uint32_t die);

/* Erase all blocks of a die that have no valid page; returns how many were erased. */
uint32_t hsp_ftl_erase_all(struct hsp_ftl *ftl, uint32_t die);

void hsp_ftl_save(const struct hsp_ftl *ftl, struct hsp_state *state);
void hsp_ftl_load(struct hsp_ftl *ftl, struct hsp_state *state);

#endif

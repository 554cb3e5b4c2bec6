/*
 * The dies and channels of an SSD in time.
 *
 * Each die does one thing at a time. What waits for it (programs, and copies and erases of garbage
 * collection) is begun when time has come to it and never interrupted; a read waits for what is
 * under way, and goes before what has not begun.
 */
#ifndef HSP_NAND_H
#define HSP_NAND_H

#include <stdint.h>

#include "buffer.h"
#include "ftl.h"
#include "impl.h"
#include "rng.h"
#include "durability.h"

struct hsp_die {
	struct hsp_slot_list queue; /* to be programmed */
	uint64_t free_ns;
	uint32_t credit; /* steps of collection that are due before the next program */
	int collecting;
};

struct hsp_channel {
	uint64_t free_ns;
	uint32_t work; /* queued slots and collecting dies */
};

struct hsp_nand {
	uint32_t channels, dies, page_bytes, page_sectors;
	uint64_t read_ns, read_spread_ns, program_ns, program_spread_ns, erase_ns;
	uint64_t channel_bytes_per_s;
	uint64_t destage_idle_ns; /* dirty slots older than this are programmed; 0: never */

	struct hsp_ftl ftl;
	struct hsp_buffer buffer;
	struct hsp_safety safety; /* no memory if the buffer is protected */
	uint64_t *first_ns; /* by page, if not protected: when it was first programmed since it was unmapped */
	struct hsp_rng rng;
	struct hsp_die *die;
	struct hsp_channel *channel;
	struct hsp_counts *counts;
	uint64_t now_ns; /* of the request that is being looked at */
	uint32_t queued;
};

/* -1: no memory, or too many pages. `slots`: of the buffer. The parameters above are set. */
int hsp_nand_init(struct hsp_nand *nand, uint64_t sectors, uint32_t pages_per_block, uint32_t spare_permyriad,
		  uint32_t slots, int is_protected);
void hsp_nand_free(struct hsp_nand *nand);
uint64_t hsp_nand_memory(const struct hsp_nand *nand);

static inline uint64_t hsp_nand_full_mask(const struct hsp_nand *nand)
{
	return nand->page_sectors == 64 ? UINT64_MAX : (UINT64_C(1) << nand->page_sectors) - 1;
}

/* Everything that begins before a time has begun, and what ended by then is out of the buffer. */
void hsp_nand_advance(struct hsp_nand *nand, uint64_t now_ns);

/* When something next begins (and 1 ns) or ends; UINT64_MAX if nothing is left to do. */
uint64_t hsp_nand_next_event_ns(struct hsp_nand *nand);

/* `sectors` of a mapped page are read and on the controller's side of the channel. */
uint64_t hsp_nand_read(struct hsp_nand *nand, uint32_t page, uint32_t sectors, uint64_t ready_ns);

/* A dirty slot may be programmed from a time on; or a queued one is taken back, onto no list. */
void hsp_nand_queue(struct hsp_nand *nand, uint32_t slot, uint64_t ready_ns);
void hsp_nand_unqueue(struct hsp_nand *nand, uint32_t slot);

/* A dirty or queued slot begins before anything else that waits for its die. It is under way then. */
void hsp_nand_force(struct hsp_nand *nand, uint32_t slot, uint64_t now_ns);

/* Everything queued begins, each die in its order, so that its end is known. */
void hsp_nand_force_all(struct hsp_nand *nand);

/* The sectors in the mask of a page are safe at a time; `promised` if somebody is told so. */
void hsp_nand_keep(struct hsp_nand *nand, uint32_t page, uint64_t mask, uint64_t at_ns, int promised);

/* What a slot under way makes safe is promised, but for sectors that were written again since. */
void hsp_nand_promise(struct hsp_nand *nand, const struct hsp_slot *slot);

/* All blocks without valid pages are erased; when that is over. */
uint64_t hsp_nand_erase_all(struct hsp_nand *nand, uint64_t now_ns);

/* Whether the page is mapped, but would not be after a power loss: its first program is not over. */
static inline int hsp_nand_is_torn(const struct hsp_nand *nand, uint32_t page, uint64_t now_ns)
{
	return nand->first_ns && hsp_ftl_is_mapped(&nand->ftl, page) && nand->first_ns[page] > now_ns;
}

/* Nothing is busy. */
void hsp_nand_settle(struct hsp_nand *nand, uint64_t now_ns);

#endif

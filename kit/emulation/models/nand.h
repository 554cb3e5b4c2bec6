/*
 * Timing of the dies and channels of an SSD.
 *
 * Each die does one operation at a time. Queued work (programs; copies and erases of garbage
 * collection) starts when its time has come and is never interrupted. A read waits for the
 * operation in progress and goes before queued work.
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
	uint32_t credit; /* collection steps due before the next program */
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
	struct hsp_durability durability; /* no memory if the buffer is protected */
	uint64_t *first_ns; /* per page, if not protected: end of its first program since it was unmapped */
	struct hsp_rng rng;
	struct hsp_die *die;
	struct hsp_channel *channel;
	struct hsp_counts *counts;
	uint64_t now_ns; /* arrival of the current request */
	uint32_t queued;
};

/* -1: no memory, or too many pages. `slots`: of the buffer. The caller has set the parameters above. */
int hsp_nand_init(struct hsp_nand *nand, uint64_t sectors, uint32_t pages_per_block, uint32_t spare_permyriad,
		  uint32_t slots, int is_protected);
void hsp_nand_free(struct hsp_nand *nand);

static inline uint64_t hsp_nand_full_mask(const struct hsp_nand *nand)
{
	return nand->page_sectors == 64 ? UINT64_MAX : (UINT64_C(1) << nand->page_sectors) - 1;
}

/* Start all work due before a time, and free the slots whose program has ended by then. */
void hsp_nand_advance(struct hsp_nand *nand, uint64_t now_ns);

/* Time of the next event: 1 ns after the next start, or the next end; UINT64_MAX if there is none. */
uint64_t hsp_nand_next_event_ns(struct hsp_nand *nand);

/* Read `sectors` of a mapped page; returns when they have passed the channel. */
uint64_t hsp_nand_read(struct hsp_nand *nand, uint32_t page, uint32_t sectors, uint64_t ready_ns);

/* Queue a dirty slot for its program, from ready_ns on; or remove a queued slot, onto no list. */
void hsp_nand_queue(struct hsp_nand *nand, uint32_t slot, uint64_t ready_ns);
void hsp_nand_unqueue(struct hsp_nand *nand, uint32_t slot);

/* Make all queued slots dirty again, before the slots that are dirty. */
void hsp_nand_unqueue_all(struct hsp_nand *nand);

/* Start the program of a dirty or queued slot before all other work of its die. */
void hsp_nand_force(struct hsp_nand *nand, uint32_t slot, uint64_t now_ns);

/* Start everything queued, in the order of each die, so that the end times are known. */
void hsp_nand_force_all(struct hsp_nand *nand);

/* Mark the sectors in the mask of a page as durable from at_ns on; `promised` by a flush or FUA. */
void hsp_nand_set_durable(struct hsp_nand *nand, uint32_t page, uint64_t mask, uint64_t at_ns, int promised);

/* Promise the sectors that a programming slot makes durable, except those written again since. */
void hsp_nand_promise(struct hsp_nand *nand, const struct hsp_slot *slot);

/* Erase all blocks without valid pages; returns the end. */
uint64_t hsp_nand_erase_all(struct hsp_nand *nand, uint64_t now_ns);

/* Whether the first program of a mapped page is not over: a power loss would unmap it. */
static inline int hsp_nand_is_torn(const struct hsp_nand *nand, uint32_t page, uint64_t now_ns)
{
	return nand->first_ns && hsp_ftl_is_mapped(&nand->ftl, page) && nand->first_ns[page] > now_ns;
}

/* Make all dies and channels idle at now_ns. */
void hsp_nand_settle(struct hsp_nand *nand, uint64_t now_ns);

#endif

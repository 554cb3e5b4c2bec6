/*
 * The write buffer of an SSD: pages in DRAM, each with the sectors of it that are newer than
 * flash. A slot is free, dirty (oldest first in one list), queued for its die, or under way.
 */
#ifndef HSP_BUFFER_H
#define HSP_BUFFER_H

#include <stdint.h>

#define HSP_NO_SLOT UINT32_MAX

enum hsp_slot_state { HSP_SLOT_FREE, HSP_SLOT_DIRTY, HSP_SLOT_QUEUED, HSP_SLOT_PROGRAMMING };

struct hsp_slot {
	uint64_t mask;     /* sectors of the page, lowest bit first */
	uint64_t since_ns; /* dirty; queued: when it may be programmed */
	uint64_t end_ns;   /* programming: when that is over */
	uint32_t page;
	uint32_t next, previous;
	uint8_t state;
};

struct hsp_slot_list {
	uint32_t first, last, count;
};

struct hsp_buffer {
	struct hsp_slot *slot;
	uint32_t slots;
	uint32_t *slot_of; /* by logical page: where its newest content is, or HSP_NO_SLOT */
	uint32_t pages;
	struct hsp_slot_list free, dirty;
	uint32_t *heap; /* slots under way, the one that ends first on top */
	uint32_t heap_count;
	uint64_t released_ns; /* when the last of those that are free again ended */
};

int hsp_buffer_init(struct hsp_buffer *buffer, uint32_t slots, uint32_t pages); /* -1: no memory */
void hsp_buffer_free(struct hsp_buffer *buffer);
uint64_t hsp_buffer_memory(const struct hsp_buffer *buffer);

void hsp_buffer_append(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot);
void hsp_buffer_prepend(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot);
void hsp_buffer_remove(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot);

/* A free slot becomes the newest content of the page, dirty since then. */
void hsp_buffer_take(struct hsp_buffer *buffer, uint32_t page, uint64_t mask, uint64_t now_ns);

/* A slot that is on no list is under way until its end_ns. */
void hsp_buffer_begin(struct hsp_buffer *buffer, uint32_t slot);

/* Slots whose program is over are free again. */
void hsp_buffer_release(struct hsp_buffer *buffer, uint64_t now_ns);

/* A slot that is on no list and not under way is free again, and its page no longer here. */
void hsp_buffer_drop(struct hsp_buffer *buffer, uint32_t slot);

#endif

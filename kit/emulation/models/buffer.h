/*
 * The write buffer of an SSD: page slots in DRAM, each with a mask of the sectors that are newer
 * than flash. A slot is free, dirty (one list, oldest first), queued for its die, or programming.
 */
#ifndef HSP_BUFFER_H
#define HSP_BUFFER_H

#include <stdint.h>

#define HSP_NO_SLOT UINT32_MAX

enum hsp_slot_state { HSP_SLOT_FREE, HSP_SLOT_DIRTY, HSP_SLOT_QUEUED, HSP_SLOT_PROGRAMMING };

struct hsp_slot {
	uint64_t mask;     /* sectors of the page, lowest bit first */
	uint64_t since_ns; /* dirty: since when; queued: earliest start of its program */
	uint64_t end_ns;   /* programming: end of the program */
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
	uint32_t *slot_of; /* per logical page: slot of its newest content, or HSP_NO_SLOT */
	uint32_t pages;
	struct hsp_slot_list free, dirty;
	uint32_t *heap; /* programming slots, a min-heap by end_ns */
	uint32_t heap_count;
	uint64_t released_ns; /* end of the last program whose slot was freed */
};

int hsp_buffer_init(struct hsp_buffer *buffer, uint32_t slots, uint32_t pages); /* -1: no memory */
void hsp_buffer_free(struct hsp_buffer *buffer);

void hsp_buffer_append(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot);
void hsp_buffer_prepend(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot);
void hsp_buffer_remove(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot);

/* Take a free slot for the newest content of the page; it is dirty since now_ns. */
void hsp_buffer_take(struct hsp_buffer *buffer, uint32_t page, uint64_t mask, uint64_t now_ns);

/* Start programming a slot that is on no list, until its end_ns. */
void hsp_buffer_begin(struct hsp_buffer *buffer, uint32_t slot);

/* Free the slots whose program has ended. */
void hsp_buffer_release(struct hsp_buffer *buffer, uint64_t now_ns);

/* Free a slot that is on no list and not programming; its page is no longer buffered. */
void hsp_buffer_drop(struct hsp_buffer *buffer, uint32_t slot);

#endif

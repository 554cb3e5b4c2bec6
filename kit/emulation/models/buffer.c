#include "buffer.h"

#include <stdlib.h>

int hsp_buffer_init(struct hsp_buffer *buffer, uint32_t slots, uint32_t pages)
{
	const struct hsp_slot_list empty = { HSP_NO_SLOT, HSP_NO_SLOT, 0 };

	*buffer = (struct hsp_buffer){ .slots = slots, .pages = pages, .free = empty, .dirty = empty };
	buffer->slot = calloc(slots, sizeof(*buffer->slot));
	buffer->heap = calloc(slots, sizeof(*buffer->heap));
	buffer->slot_of = malloc(sizeof(*buffer->slot_of) * pages);
	if (!buffer->slot || !buffer->heap || !buffer->slot_of)
		return -1;
	for (uint32_t page = 0; page < pages; page++)
		buffer->slot_of[page] = HSP_NO_SLOT;
	for (uint32_t slot = 0; slot < slots; slot++)
		hsp_buffer_append(buffer, &buffer->free, slot);
	return 0;
}

void hsp_buffer_free(struct hsp_buffer *buffer)
{
	free(buffer->slot_of);
	free(buffer->heap);
	free(buffer->slot);
	*buffer = (struct hsp_buffer){ 0 };
}

void hsp_buffer_append(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot)
{
	buffer->slot[slot].next = HSP_NO_SLOT;
	buffer->slot[slot].previous = list->last;
	if (list->last == HSP_NO_SLOT)
		list->first = slot;
	else
		buffer->slot[list->last].next = slot;
	list->last = slot;
	list->count++;
}

void hsp_buffer_prepend(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot)
{
	buffer->slot[slot].previous = HSP_NO_SLOT;
	buffer->slot[slot].next = list->first;
	if (list->first == HSP_NO_SLOT)
		list->last = slot;
	else
		buffer->slot[list->first].previous = slot;
	list->first = slot;
	list->count++;
}

void hsp_buffer_remove(struct hsp_buffer *buffer, struct hsp_slot_list *list, uint32_t slot)
{
	uint32_t next = buffer->slot[slot].next, previous = buffer->slot[slot].previous;

	if (previous == HSP_NO_SLOT)
		list->first = next;
	else
		buffer->slot[previous].next = next;
	if (next == HSP_NO_SLOT)
		list->last = previous;
	else
		buffer->slot[next].previous = previous;
	list->count--;
}

void hsp_buffer_take(struct hsp_buffer *buffer, uint32_t page, uint64_t mask, uint64_t now_ns)
{
	uint32_t number = buffer->free.first;
	struct hsp_slot *slot = &buffer->slot[number];

	hsp_buffer_remove(buffer, &buffer->free, number);
	*slot = (struct hsp_slot){ .mask = mask, .since_ns = now_ns, .page = page, .state = HSP_SLOT_DIRTY };
	hsp_buffer_append(buffer, &buffer->dirty, number);
	buffer->slot_of[page] = number;
}

void hsp_buffer_drop(struct hsp_buffer *buffer, uint32_t number)
{
	struct hsp_slot *slot = &buffer->slot[number];

	if (buffer->slot_of[slot->page] == number)
		buffer->slot_of[slot->page] = HSP_NO_SLOT;
	slot->state = HSP_SLOT_FREE;
	hsp_buffer_append(buffer, &buffer->free, number);
}

/* Order by end time, then by slot number: independent of the heap's history. */
static int ends_before(const struct hsp_buffer *buffer, uint32_t a, uint32_t b)
{
	uint64_t a_ns = buffer->slot[a].end_ns, b_ns = buffer->slot[b].end_ns;

	return a_ns != b_ns ? a_ns < b_ns : a < b;
}

void hsp_buffer_begin(struct hsp_buffer *buffer, uint32_t slot)
{
	uint32_t at = buffer->heap_count++;

	buffer->slot[slot].state = HSP_SLOT_PROGRAMMING;
	while (at && ends_before(buffer, slot, buffer->heap[(at - 1) / 2])) {
		buffer->heap[at] = buffer->heap[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	buffer->heap[at] = slot;
}

static void pop(struct hsp_buffer *buffer)
{
	uint32_t last = buffer->heap[--buffer->heap_count], at = 0;

	for (;;) {
		uint32_t child = 2 * at + 1;

		if (child >= buffer->heap_count)
			break;
		if (child + 1 < buffer->heap_count &&
		    ends_before(buffer, buffer->heap[child + 1], buffer->heap[child]))
			child++;
		if (!ends_before(buffer, buffer->heap[child], last))
			break;
		buffer->heap[at] = buffer->heap[child];
		at = child;
	}
	buffer->heap[at] = last;
}

void hsp_buffer_release(struct hsp_buffer *buffer, uint64_t now_ns)
{
	while (buffer->heap_count && buffer->slot[buffer->heap[0]].end_ns <= now_ns) {
		uint32_t slot = buffer->heap[0];

		buffer->released_ns = buffer->slot[slot].end_ns;
		pop(buffer);
		hsp_buffer_drop(buffer, slot);
	}
}

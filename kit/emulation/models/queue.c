#include "queue.h"

#include <string.h>

/* Assumed: far above the waits in a queue of 32, far below the 30 s after which Linux gives up on a request. */
static const uint64_t MAX_WAIT_NS = 2000000000;

void hsp_queue_clear(struct hsp_queue *queue)
{
	queue->waiting_count = queue->decided_count = 0;
}

void hsp_queue_add(struct hsp_queue *queue, const struct hsp_queued *queued)
{
	queue->waiting[queue->waiting_count++] = *queued;
}

/* Those beyond the depth wait at the host. */
static unsigned in_disk(const struct hsp_queue *queue)
{
	return queue->waiting_count < queue->depth ? queue->waiting_count : queue->depth;
}

uint64_t hsp_queue_next_ns(const struct hsp_queue *queue, uint64_t free_ns)
{
	uint64_t first_ns = HSP_NEVER;

	for (unsigned i = 0; i < in_disk(queue); i++)
		if (queue->waiting[i].start_ns < first_ns)
			first_ns = queue->waiting[i].start_ns;
	return first_ns > free_ns ? first_ns : free_ns;
}

static int is_ordered(const struct hsp_request *one, const struct hsp_request *other)
{
	return (one->op != HSP_READ || other->op != HSP_READ) && one->sector < other->sector + other->sectors &&
	       other->sector < one->sector + one->sectors;
}

static int overlaps_older(const struct hsp_queue *queue, unsigned older, const struct hsp_request *request)
{
	for (unsigned i = 0; i < older; i++)
		if (is_ordered(&queue->waiting[i].request, request))
			return 1;
	return 0;
}

int hsp_queue_overlaps(const struct hsp_queue *queue, const struct hsp_request *request)
{
	return overlaps_older(queue, queue->waiting_count, request);
}

static unsigned choose(const struct hsp_queue *queue, uint64_t at_ns, hsp_positioning_ns *positioning_ns, void *disk)
{
	uint64_t best = UINT64_MAX;
	unsigned chosen = 0;

	for (unsigned i = 0; i < in_disk(queue); i++) {
		const struct hsp_queued *queued = &queue->waiting[i];
		uint64_t waited_ns = at_ns - queued->request.arrival_ns, weighted;

		if (queued->start_ns > at_ns || overlaps_older(queue, i, &queued->request))
			continue;
		if (waited_ns >= MAX_WAIT_NS)
			return i;
		/* Seek, settling and rotation are below 2^33 ns, the age is below 2^31 ns. */
		weighted = positioning_ns(disk, at_ns, &queued->request) * (MAX_WAIT_NS - waited_ns);
		if (weighted < best) {
			best = weighted;
			chosen = i;
		}
	}
	return chosen;
}

struct hsp_queued hsp_queue_take(struct hsp_queue *queue, uint64_t at_ns, hsp_positioning_ns *positioning_ns,
				 void *disk)
{
	unsigned chosen = queue->waiting_count > 1 ? choose(queue, at_ns, positioning_ns, disk) : 0;
	struct hsp_queued taken = queue->waiting[chosen];

	queue->waiting_count--;
	memmove(&queue->waiting[chosen], &queue->waiting[chosen + 1],
		(queue->waiting_count - chosen) * sizeof(queue->waiting[0]));
	return taken;
}

void hsp_queue_decide(struct hsp_queue *queue, uint8_t tag, uint64_t done_ns)
{
	queue->decided[queue->decided_count].tag = tag;
	queue->decided[queue->decided_count++].done_ns = done_ns;
}

int hsp_queue_collect(struct hsp_queue *queue, uint8_t *tag, uint64_t *done_ns)
{
	if (!queue->decided_count)
		return 0;
	*tag = queue->decided[--queue->decided_count].tag;
	*done_ns = queue->decided[queue->decided_count].done_ns;
	return 1;
}

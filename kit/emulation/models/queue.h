/*
 * Command queue of a disk (SATA Native Command Queuing, 32 tags): which request the arm takes next.
 *
 * Of the oldest `depth` requests, the one with the shortest positioning time, seek and rotation, as in
 * D. Jacobson, J. Wilkes, Disk scheduling algorithms based on rotational position, HPL-CSP-91-7, 1991,
 * and B. Worthington, G. Ganger, Y. Patt, Scheduling algorithms for modern disk drives, SIGMETRICS 1994.
 * Against starvation that time is weighted by age, T * (M - E) / M, where E is how long a request has
 * waited: M. Seltzer, P. Chen, J. Ousterhout, Disk scheduling revisited, USENIX Winter 1990. One that
 * has waited for M comes first.
 */
#ifndef HSP_QUEUE_H
#define HSP_QUEUE_H

#include "model.h"

struct hsp_queued {
	struct hsp_request request;
	uint64_t ready_ns; /* its command is processed */
	uint64_t start_ns; /* the disk has its data too: the arm may take it */
};

struct hsp_queue {
	unsigned depth; /* 1: no queue */
	struct hsp_queued waiting[HSP_TAGS]; /* oldest first */
	struct {
		uint64_t done_ns;
		uint8_t tag;
	} decided[HSP_TAGS]; /* and not collected */
	unsigned waiting_count, decided_count;
};

/* Positioning time of a request from `at_ns` on. */
typedef uint64_t hsp_positioning_ns(void *disk, uint64_t at_ns, const struct hsp_request *request);

void hsp_queue_clear(struct hsp_queue *queue);
void hsp_queue_add(struct hsp_queue *queue, const struct hsp_queued *queued);

/* When the arm, free from free_ns on, takes the next request; HSP_NEVER if none waits. */
uint64_t hsp_queue_next_ns(const struct hsp_queue *queue, uint64_t free_ns);

/* Take the request that the arm serves at that time (at least one waits). */
struct hsp_queued hsp_queue_take(struct hsp_queue *queue, uint64_t at_ns, hsp_positioning_ns *positioning_ns,
				 void *disk);

/* Whether a waiting request overlaps that one, and one of the two is a write: they keep their order. */
int hsp_queue_overlaps(const struct hsp_queue *queue, const struct hsp_request *request);

void hsp_queue_decide(struct hsp_queue *queue, uint8_t tag, uint64_t done_ns);
/* Take one that is decided; 0 if there is none. */
int hsp_queue_collect(struct hsp_queue *queue, uint8_t *tag, uint64_t *done_ns);

#endif

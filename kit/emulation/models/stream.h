/* Read-ahead of a disk: what passes under the arm after a read goes on into the track buffer. */
#ifndef HSP_STREAM_H
#define HSP_STREAM_H

#include "arm.h"

/* [first, next) is in the track buffer, `next` passes under the head at next_ns, `limit` ends it. */
struct hsp_stream {
	struct hsp_arm *arm;
	uint64_t sectors; /* of the device */
	uint64_t buffer_sectors, ahead_sectors;

	uint64_t first, next, limit;
	uint64_t next_ns, read_ns; /* end of the last sector read */
	int is_running; /* the arm is still on the stream */
};

/* Begin at the end of a read of [sector, end), at free_ns. */
void hsp_stream_begin(struct hsp_stream *stream, uint64_t sector, uint64_t end, uint64_t free_ns);

/* Forget what is in the buffer, and end. */
void hsp_stream_drop(struct hsp_stream *stream);

/* Advance to a time, or to the limit. */
void hsp_stream_advance(struct hsp_stream *stream, uint64_t until_ns);

/* Whether sectors are in the buffer, or whether the stream comes to them. */
int hsp_stream_has(const struct hsp_stream *stream, uint64_t sector, uint64_t end);
int hsp_stream_comes_to(const struct hsp_stream *stream, uint64_t sector, uint64_t end);

/* The host has read up to `end`, which is in the buffer: read on. */
void hsp_stream_hit(struct hsp_stream *stream, uint64_t now_ns, uint64_t end);

/* Advance to the sector `end`, to which it comes, and beyond it later; returns when that is read. */
uint64_t hsp_stream_read_to(struct hsp_stream *stream, uint64_t end);

#endif

/* Injected faults of a device: a stall, ranges of errors, permanent failure. */
#ifndef HSP_FAULTS_H
#define HSP_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "model.h"

enum { HSP_ERROR_RANGES = 64 };

struct hsp_error_range {
	uint64_t first, count;
	int reads, writes;
};

struct hsp_faults {
	uint64_t stalled_until_ns;
	int is_gone;
	struct hsp_error_range range[HSP_ERROR_RANGES];
	size_t ranges;
};

/* Add the fault `text`, as hsp_device_fault takes it. -1 and a message in `error` if it is invalid. */
int hsp_faults_add(struct hsp_faults *faults, uint64_t now_ns, uint64_t sectors, const char *text, char *error,
		   size_t error_size);

/* EIO if the request overlaps an error range of its kind, else 0. */
int hsp_faults_error(const struct hsp_faults *faults, const struct hsp_request *request);

#endif

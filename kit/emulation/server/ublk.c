#define _GNU_SOURCE
#include "ublk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Since Linux 6.4; headers of 6.0 have neither. */
#ifndef UBLK_F_CMD_IOCTL_ENCODE
#define UBLK_F_CMD_IOCTL_ENCODE (1ULL << 6)
#endif

static uint32_t encode(int encoded, uint32_t command, uint32_t argument_bytes)
{
	return encoded ? _IOC(_IOC_READ | _IOC_WRITE, 'u', command, argument_bytes) : command;
}

struct io_uring_sqe *ublk_entry(struct io_uring *ring)
{
	struct io_uring_sqe *entry = io_uring_get_sqe(ring);
	if (!entry) {
		io_uring_submit(ring);
		entry = io_uring_get_sqe(ring);
	}
	if (!entry) {
		fputs("hsp-devices: the ring stays full\n", stderr);
		abort();
	}
	memset(entry, 0, 2 * sizeof *entry); /* an entry has 128 bytes on these rings */
	return entry;
}

static void control_command(struct io_uring *ring, int control, uint32_t operation,
			    const struct ublksrv_ctrl_cmd *command, uint64_t user_data)
{
	struct io_uring_sqe *entry = ublk_entry(ring);
	entry->opcode = IORING_OP_URING_CMD;
	entry->fd = control;
	entry->off = operation; /* cmd_op is its lower half; older headers have no name for it */
	memcpy((char *)entry + 48, command, sizeof *command);
	entry->user_data = user_data;
}

/* Run one command on a ring that has no other entries yet, and wait for it. */
static int control_wait(struct io_uring *ring, int control, uint32_t operation,
			const struct ublksrv_ctrl_cmd *command)
{
	control_command(ring, control, operation, command, 0);
	struct io_uring_cqe *answer;
	int result = io_uring_submit_and_wait(ring, 1);
	if (result < 0)
		return result;
	result = io_uring_peek_cqe(ring, &answer);
	if (result < 0)
		return result;
	result = answer->res;
	io_uring_cqe_seen(ring, answer);
	return result;
}

static int add(struct ublk *device, int control, struct io_uring *ring)
{
	int result = -EINVAL;
	/* The newer encoding first; an older driver refuses it. */
	for (int encoded = 1; encoded >= 0; encoded--) {
		struct ublksrv_ctrl_dev_info info = {
			.nr_hw_queues = 1,
			.queue_depth = UBLK_DEPTH,
			.max_io_buf_bytes = UBLK_BUFFER_BYTES,
			.dev_id = UINT32_MAX, /* any that is free */
			.ublksrv_pid = getpid(),
			.flags = UBLK_F_USER_RECOVERY | UBLK_F_USER_RECOVERY_REISSUE |
				 (encoded ? UBLK_F_CMD_IOCTL_ENCODE : 0),
		};
		struct ublksrv_ctrl_cmd command = {
			.dev_id = UINT32_MAX,
			.queue_id = UINT16_MAX,
			.addr = (uintptr_t)&info,
			.len = sizeof info,
		};
		result = control_wait(ring, control, encode(encoded, UBLK_CMD_ADD_DEV, sizeof command), &command);
		if (result >= 0) {
			device->id = info.dev_id;
			device->encoded = encoded;
			return 0;
		}
	}
	return result;
}

static int set_parameters(struct ublk *device, int control, struct io_uring *ring, const struct ublk_shape *shape)
{
	struct ublk_params parameters = {
		.len = sizeof parameters,
		.types = UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD,
		.basic = {
			.attrs = (shape->rotational ? UBLK_ATTR_ROTATIONAL : 0) |
				 (shape->volatile_cache ? UBLK_ATTR_VOLATILE_CACHE | UBLK_ATTR_FUA : 0),
			.logical_bs_shift = 9,
			.physical_bs_shift = 9,
			.io_min_shift = 9,
			.io_opt_shift = 9,
			.max_sectors = UBLK_BUFFER_BYTES >> 9,
			.dev_sectors = shape->sectors,
		},
		.discard = {
			.discard_granularity = 512,
			.max_discard_sectors = shape->discards ? 1 << 22 : 0,
			.max_write_zeroes_sectors = 1 << 22,
			.max_discard_segments = 1,
		},
	};
	struct ublksrv_ctrl_cmd command = {
		.dev_id = device->id,
		.queue_id = UINT16_MAX,
		.addr = (uintptr_t)&parameters,
		.len = sizeof parameters,
	};
	return control_wait(ring, control, encode(device->encoded, UBLK_CMD_SET_PARAMS, sizeof command), &command);
}

/* Open the character device; udev makes its node shortly after the command. */
static int open_channel(uint32_t id)
{
	char path[32];
	snprintf(path, sizeof path, "/dev/ublkc%u", id);
	for (int attempt = 0; attempt < 500; attempt++) {
		int file = open(path, O_RDWR | O_CLOEXEC);
		if (file >= 0)
			return file;
		nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
	}
	return -errno;
}

static int make_buffers(struct ublk *device)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = (UBLK_DEPTH * sizeof(struct ublksrv_io_desc) + page - 1) / page * page;
	void *requests = mmap(NULL, bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, device->file, UBLKSRV_CMD_BUF_OFFSET);
	if (requests == MAP_FAILED)
		return -errno;
	device->requests = requests;
	for (int tag = 0; tag < UBLK_DEPTH; tag++) {
		void *buffer;
		if (posix_memalign(&buffer, page, UBLK_BUFFER_BYTES))
			return -ENOMEM;
		device->buffers[tag] = buffer;
	}
	return 0;
}

int ublk_add(struct ublk *device, int control, struct io_uring *ring, const struct ublk_shape *shape)
{
	int result = add(device, control, ring);
	if (result < 0)
		return result;
	result = set_parameters(device, control, ring, shape);
	if (result >= 0)
		result = device->file = open_channel(device->id);
	if (result >= 0)
		result = make_buffers(device);
	if (result < 0)
		ublk_delete(device, control, ring);
	return result < 0 ? result : 0;
}

int ublk_delete(struct ublk *device, int control, struct io_uring *ring)
{
	struct ublksrv_ctrl_cmd command = { .dev_id = device->id, .queue_id = UINT16_MAX };
	return control_wait(ring, control, encode(device->encoded, UBLK_CMD_DEL_DEV, sizeof command), &command);
}

int ublk_recover(struct ublk *device, int control, struct io_uring *ring)
{
	struct ublksrv_ctrl_cmd command = { .dev_id = device->id, .queue_id = UINT16_MAX };
	uint32_t operation = encode(device->encoded, UBLK_CMD_START_USER_RECOVERY, sizeof command);
	int result = -EBUSY;
	/* The driver needs up to seconds to notice the end of the previous server process. */
	for (int attempt = 0; attempt < 1000 && result == -EBUSY; attempt++) {
		if (attempt)
			nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
		result = control_wait(ring, control, operation, &command);
	}
	if (result >= 0)
		result = device->file = open_channel(device->id);
	if (result >= 0)
		result = make_buffers(device);
	return result < 0 ? result : 0;
}

void ublk_start(struct ublk *device, int control, struct io_uring *ring, int recovered, uint64_t user_data)
{
	struct ublksrv_ctrl_cmd command = {
		.dev_id = device->id,
		.queue_id = UINT16_MAX,
		.data = { (uint64_t)getpid() },
	};
	uint32_t operation = recovered ? UBLK_CMD_END_USER_RECOVERY : UBLK_CMD_START_DEV;
	control_command(ring, control, encode(device->encoded, operation, sizeof command), &command, user_data);
}

static void io_command(struct ublk *device, struct io_uring *ring, uint32_t operation, uint16_t tag, int32_t result,
		       uint64_t user_data)
{
	struct ublksrv_io_cmd command = {
		.tag = tag,
		.result = result,
		.addr = (uintptr_t)device->buffers[tag],
	};
	struct io_uring_sqe *entry = ublk_entry(ring);
	entry->opcode = IORING_OP_URING_CMD;
	entry->fd = device->file;
	entry->off = encode(device->encoded, operation, sizeof command);
	memcpy((char *)entry + 48, &command, sizeof command);
	entry->user_data = user_data;
}

void ublk_fetch(struct ublk *device, struct io_uring *ring, uint16_t tag, uint64_t user_data)
{
	io_command(device, ring, UBLK_IO_FETCH_REQ, tag, 0, user_data);
}

void ublk_commit(struct ublk *device, struct io_uring *ring, uint16_t tag, int32_t result, uint64_t user_data)
{
	io_command(device, ring, UBLK_IO_COMMIT_AND_FETCH_REQ, tag, result, user_data);
}

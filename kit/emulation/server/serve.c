#define _GNU_SOURCE
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* What a completion on the ring is about: kind, device, tag, turn. */
enum kind { REQUEST = 1, TIMER, STARTED, COMMAND };

#define ABOUT(kind, device, tag, turn) \
	((uint64_t)(kind) << 56 | (uint64_t)(device) << 48 | (uint64_t)(tag) << 32 | (uint32_t)(turn))

enum {
	CALIBRATION_NS = 300000, /* longer than the server itself takes */
	CALIBRATION_WARM = 8,
	CALIBRATION_COUNT = 31,
};

uint64_t hsp_host_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t hsp_model_ns(const struct hsp_server *server)
{
	return (hsp_host_ns() - server->epoch_ns) / server->dilation;
}

static int is_in_range(const struct hsp_served *device, const struct ublksrv_io_desc *request)
{
	return request->start_sector <= device->sectors &&
	       request->nr_sectors <= device->sectors - request->start_sector;
}

/* The model's answer, and the content changed if it is not a refusal. */
static struct hsp_answer ask_model(struct hsp_served *device, const struct hsp_request *asked, const void *buffer)
{
	int changes = asked->op == HSP_WRITE || asked->op == HSP_DISCARD || asked->op == HSP_WRITE_ZEROES;
	if (changes)
		hsp_store_prepare(device->store, asked->arrival_ns, asked->sector, asked->sectors);
	struct hsp_answer answer = hsp_device_submit(device->model, asked);
	if (changes && !answer.error)
		hsp_store_write(device->store, asked->sector, asked->sectors, asked->op == HSP_WRITE ? buffer : NULL);
	return answer;
}

static int model_op(const struct ublksrv_io_desc *request)
{
	switch (ublksrv_get_op(request)) {
	case UBLK_IO_OP_READ: return HSP_READ;
	case UBLK_IO_OP_WRITE: return HSP_WRITE;
	case UBLK_IO_OP_FLUSH: return HSP_FLUSH;
	case UBLK_IO_OP_DISCARD: return HSP_DISCARD;
	case UBLK_IO_OP_WRITE_ZEROES: return HSP_WRITE_ZEROES;
	default: return -1;
	}
}

static void commit(struct hsp_server *server, unsigned number, uint16_t tag)
{
	struct hsp_served *device = server->devices[number];
	struct hsp_inflight *inflight = &device->inflight[tag];
	const struct ublksrv_io_desc *request = &device->ublk.requests[tag];
	if (inflight->result >= 0 && ublksrv_get_op(request) == UBLK_IO_OP_READ)
		hsp_store_read(device->store, request->start_sector, request->nr_sectors, device->ublk.buffers[tag]);
	inflight->active = 0;
	inflight->turn++;
	ublk_commit(&device->ublk, &server->ring, tag, inflight->result, ABOUT(REQUEST, number, tag, 0));
}

/* Answer now, or when `due_ns` of the host's clock has come. */
static void answer_at(struct hsp_server *server, unsigned number, uint16_t tag, uint64_t due_ns)
{
	struct hsp_inflight *inflight = &server->devices[number]->inflight[tag];
	inflight->active = 1;
	if (due_ns == HSP_NEVER)
		return;
	if (due_ns <= hsp_host_ns()) {
		commit(server, number, tag);
		return;
	}
	inflight->due.tv_sec = (long long)(due_ns / 1000000000u);
	inflight->due.tv_nsec = (long long)(due_ns % 1000000000u);
	struct io_uring_sqe *entry = ublk_entry(&server->ring);
	io_uring_prep_timeout(entry, &inflight->due, 0, IORING_TIMEOUT_ABS);
	entry->user_data = ABOUT(TIMER, number, tag, inflight->turn);
}

static void accept_request(struct hsp_server *server, unsigned number, uint16_t tag)
{
	struct hsp_served *device = server->devices[number];
	struct hsp_inflight *inflight = &device->inflight[tag];
	const struct ublksrv_io_desc *request = &device->ublk.requests[tag];
	uint64_t host_ns = hsp_host_ns();
	int op = model_op(request);

	inflight->result = (int32_t)(request->nr_sectors * HSP_SECTOR_BYTES);
	if (device->calibrating) {
		answer_at(server, number, tag, host_ns + CALIBRATION_NS);
		return;
	}
	if (op < 0 || (op != HSP_FLUSH && !is_in_range(device, request))) {
		inflight->result = op < 0 ? -EOPNOTSUPP : -EIO;
		answer_at(server, number, tag, host_ns);
		return;
	}
	struct hsp_request asked = {
		.arrival_ns = (host_ns - server->epoch_ns) / server->dilation,
		.sector = op == HSP_FLUSH ? 0 : request->start_sector,
		.sectors = op == HSP_FLUSH ? 0 : request->nr_sectors,
		.op = (uint8_t)op,
		.fua = (request->op_flags & UBLK_IO_F_FUA) != 0,
	};
	struct hsp_answer answer = ask_model(device, &asked, device->ublk.buffers[tag]);
	if (answer.error)
		inflight->result = -answer.error;
	uint64_t due_ns = answer.done_ns;
	if (due_ns == HSP_NEVER && answer.error) /* the device is gone; the kernel shall know at once */
		due_ns = host_ns;
	else if (due_ns != HSP_NEVER)
		due_ns = host_ns + (due_ns - asked.arrival_ns) * server->dilation - device->own_cost_ns;
	answer_at(server, number, tag, due_ns);
}

void hsp_power_loss(struct hsp_server *server, struct hsp_served *device)
{
	uint64_t now_ns = hsp_model_ns(server);
	unsigned number = 0;
	while (server->devices[number] != device)
		number++;
	hsp_store_lose(device->store, now_ns);
	hsp_device_power_loss(device->model, now_ns);
	for (uint16_t tag = 0; tag < UBLK_DEPTH; tag++) {
		if (!device->inflight[tag].active)
			continue;
		device->inflight[tag].result = -EIO;
		commit(server, number, tag);
	}
}

/* One connection: a line of words, a line of answer. */
static void serve_command(struct hsp_server *server)
{
	char command[4096], answer[65536];
	int connection = accept4(server->socket, NULL, NULL, SOCK_CLOEXEC);
	if (connection < 0)
		return;
	/* Whoever connects has the line ready; nobody may hold up the devices. */
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 1 }, sizeof(struct timeval));
	ssize_t count;
	do /* a completion on the ring interrupts what waits */
		count = recv(connection, command, sizeof command - 1, 0);
	while (count < 0 && errno == EINTR);
	if (count > 0) {
		command[count] = 0;
		command[strcspn(command, "\n")] = 0;
		int refused = hsp_command(server, command, answer + 1, sizeof answer - 2);
		answer[0] = refused ? '!' : '=';
		strcat(answer, "\n");
		ssize_t sent;
		do
			sent = send(connection, answer, strlen(answer), MSG_NOSIGNAL);
		while (sent < 0 && errno == EINTR);
		if (sent < 0)
			perror("hsp-devices: answer to a command");
	}
	close(connection);
}

static void await_command(struct hsp_server *server)
{
	struct io_uring_sqe *entry = ublk_entry(&server->ring);
	io_uring_prep_poll_add(entry, server->socket, POLLIN);
	entry->user_data = ABOUT(COMMAND, 0, 0, 0);
}

/* Returns a negative errno if a device cannot go on. */
static int handle(struct hsp_server *server, uint64_t about, int32_t result, unsigned *started)
{
	unsigned number = about >> 48 & 0xff;
	uint16_t tag = about >> 32 & 0xffff;
	struct hsp_inflight *inflight = &server->devices[number]->inflight[tag];
	switch (about >> 56) {
	case REQUEST:
		if (result == UBLK_IO_RES_OK)
			accept_request(server, number, tag);
		else if (result != UBLK_IO_RES_ABORT)
			return result;
		return 0;
	case TIMER:
		if (inflight->active && inflight->turn == (uint32_t)about)
			commit(server, number, tag);
		return 0;
	case STARTED:
		++*started;
		return result < 0 ? result : 0;
	case COMMAND:
		serve_command(server);
		await_command(server);
		return 0;
	default:
		return 0;
	}
}

static int turn(struct hsp_server *server, unsigned *started)
{
	int result = io_uring_submit_and_wait(&server->ring, 1);
	if (result < 0 && result != -EINTR)
		return result;
	struct io_uring_cqe *completion;
	while (io_uring_peek_cqe(&server->ring, &completion) == 0) {
		uint64_t about = completion->user_data;
		int32_t told = completion->res;
		io_uring_cqe_seen(&server->ring, completion);
		result = handle(server, about, told, started);
		if (result < 0)
			return result;
	}
	return 0;
}

struct calibration {
	char path[32];
	uint64_t cost_ns;
	volatile int done, error;
};

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

/* What a request takes beyond the time the server was told to answer in: the median of a few. */
static void *measure_own_cost(void *argument)
{
	struct calibration *calibration = argument;
	uint64_t took_ns[CALIBRATION_COUNT];
	void *buffer = NULL;
	int file = open(calibration->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (file < 0 || posix_memalign(&buffer, 4096, 4096)) {
		calibration->error = errno ? errno : ENOMEM;
		goto out;
	}
	for (int i = -CALIBRATION_WARM; i < CALIBRATION_COUNT; i++) {
		uint64_t began_ns = hsp_host_ns();
		if (pread(file, buffer, 512, 0) != 512) {
			calibration->error = errno ? errno : EIO;
			goto out;
		}
		if (i >= 0)
			took_ns[i] = hsp_host_ns() - began_ns;
	}
	qsort(took_ns, CALIBRATION_COUNT, sizeof *took_ns, compare);
	if (took_ns[CALIBRATION_COUNT / 2] > CALIBRATION_NS)
		calibration->cost_ns = took_ns[CALIBRATION_COUNT / 2] - CALIBRATION_NS;
out:
	if (file >= 0)
		close(file);
	free(buffer);
	calibration->done = 1;
	return NULL;
}

/* One device at a time: what it costs beside others is not its own cost. */
static int calibrate(struct hsp_server *server, struct hsp_served *device, unsigned *started)
{
	struct calibration calibration = { .cost_ns = 0 };
	pthread_t thread;
	int result;
	snprintf(calibration.path, sizeof calibration.path, "/dev/ublkb%u", device->ublk.id);
	if ((result = pthread_create(&thread, NULL, measure_own_cost, &calibration)))
		return -result;
	/* Its last answer is what wakes this loop for the last time; a short timer sees it has ended. */
	while (!calibration.done && result >= 0) {
		struct __kernel_timespec soon = { .tv_nsec = 1000000 };
		struct io_uring_sqe *entry = ublk_entry(&server->ring);
		io_uring_prep_timeout(entry, &soon, 0, 0);
		entry->user_data = 0;
		result = turn(server, started);
	}
	pthread_join(thread, NULL);
	device->own_cost_ns = calibration.cost_ns;
	return result < 0 ? result : -calibration.error;
}

static int start(struct hsp_server *server, unsigned number, int recovered)
{
	struct hsp_served *device = server->devices[number];
	unsigned attributes = hsp_device_attributes(device->model);
	struct ublk_shape shape = {
		.sectors = device->sectors,
		.rotational = attributes & HSP_ROTATIONAL,
		.volatile_cache = attributes & HSP_VOLATILE_CACHE,
		.discards = attributes & HSP_DISCARDS,
	};
	int result = recovered ? ublk_recover(&device->ublk, server->control, &server->ring)
			       : ublk_add(&device->ublk, server->control, &server->ring, &shape);
	device->is_made = result >= 0 || recovered;
	return result;
}

static int bring_up(struct hsp_server *server, int recovered, unsigned *started)
{
	int result;
	/* Commands to the driver are waited for one by one, before the ring has requests to serve. */
	for (unsigned number = 0; number < server->count; number++)
		if ((result = start(server, number, recovered)) < 0)
			return result;
	for (unsigned number = 0; number < server->count; number++) {
		struct hsp_served *device = server->devices[number];
		device->calibrating = !recovered;
		for (uint16_t tag = 0; tag < UBLK_DEPTH; tag++)
			ublk_fetch(&device->ublk, &server->ring, tag, ABOUT(REQUEST, number, tag, 0));
		ublk_start(&device->ublk, server->control, &server->ring, recovered, ABOUT(STARTED, number, 0, 0));
	}
	while (*started < server->count)
		if ((result = turn(server, started)) < 0)
			return result;
	for (unsigned number = 0; number < server->count && !recovered; number++)
		if ((result = calibrate(server, server->devices[number], started)) < 0)
			return result;
	for (unsigned number = 0; number < server->count; number++)
		server->devices[number]->calibrating = 0;
	return 0;
}

int hsp_serve(struct hsp_server *server, int recovered, void (*ready)(struct hsp_server *))
{
	unsigned started = 0;
	int result = io_uring_queue_init(256, &server->ring, IORING_SETUP_SQE128);
	if (result < 0)
		return result;
	result = bring_up(server, recovered, &started);
	if (result >= 0) {
		ready(server);
		await_command(server);
		while (!server->stopping && result >= 0)
			result = turn(server, &started);
	}
	io_uring_queue_exit(&server->ring);
	return result;
}

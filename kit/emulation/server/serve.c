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

/* user_data of a completion on the ring: kind, device, tag, generation of the tag. */
enum kind { REQUEST = 1, TIMER, STARTED, COMMAND, DECISION };

#define USER_DATA(kind, device, tag, generation) \
	((uint64_t)(kind) << 56 | (uint64_t)(device) << 48 | (uint64_t)(tag) << 32 | (uint32_t)(generation))

enum {
	RING_ENTRIES = 4096, /* more than HSP_MAX_DEVICES * (UBLK_DEPTH + 1) */
	CALIBRATION_NS = 300000, /* longer than the server's own cost */
	CALIBRATION_WARM = 8,
	CALIBRATION_COUNT = 100,
	CALIBRATION_PAUSE_NS = 1000000,
};

_Static_assert((int)UBLK_DEPTH <= (int)HSP_TAGS, "a request of the kernel has its tag at the model too");
_Static_assert(RING_ENTRIES > HSP_MAX_DEVICES * (UBLK_DEPTH + 1), "no entry is used twice before all devices are up");

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

static unsigned number_of(const struct hsp_server *server, const struct hsp_served *device)
{
	unsigned number = 0;
	while (server->devices[number] != device)
		number++;
	return number;
}

static int is_in_range(const struct hsp_served *device, const struct ublksrv_io_desc *request)
{
	return request->start_sector <= device->sectors &&
	       request->nr_sectors <= device->sectors - request->start_sector;
}

/* Submit a request to the model; change the content unless the model fails the request. */
static struct hsp_answer submit_to_model(struct hsp_served *device, const struct hsp_request *request,
					 const void *buffer)
{
	int changes = request->op == HSP_WRITE || request->op == HSP_DISCARD || request->op == HSP_WRITE_ZEROES;
	if (changes)
		hsp_store_prepare(device->store, request->arrival_ns, request->sector, request->sectors);
	struct hsp_answer answer = hsp_device_submit(device->model, request);
	if (changes && !answer.error)
		hsp_store_write(device->store, request->sector, request->sectors, request->op == HSP_WRITE ? buffer : NULL);
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
	inflight->generation++;
	ublk_commit(&device->ublk, &server->ring, tag, inflight->result, USER_DATA(REQUEST, number, tag, 0));
}

/* `due` must stay until the ring is submitted. */
static void set_timer(struct hsp_server *server, struct __kernel_timespec *due, uint64_t due_ns, uint64_t user_data)
{
	struct io_uring_sqe *entry = ublk_entry(&server->ring);
	due->tv_sec = (long long)(due_ns / 1000000000u);
	due->tv_nsec = (long long)(due_ns % 1000000000u);
	io_uring_prep_timeout(entry, due, 0, IORING_TIMEOUT_ABS);
	entry->user_data = user_data;
}

/* Complete the request now, or at `due_ns` of the host's clock. */
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
	set_timer(server, &inflight->due, due_ns, USER_DATA(TIMER, number, tag, inflight->generation));
}

/* Give the model's answer to the kernel when it is due. */
static void give_answer(struct hsp_server *server, unsigned number, uint16_t tag, const struct hsp_answer *answer)
{
	struct hsp_served *device = server->devices[number];
	uint64_t due_ns = answer->done_ns;
	if (answer->error)
		device->inflight[tag].result = -answer->error;
	if (due_ns == HSP_NEVER && answer->error) /* the device has failed: report it to the kernel at once */
		due_ns = hsp_host_ns();
	else if (due_ns != HSP_NEVER)
		due_ns = server->epoch_ns + due_ns * server->dilation - device->own_cost_ns;
	answer_at(server, number, tag, due_ns);
}

/* Give the answers that the model has decided since, and come back when it decides the next one. */
static void collect_answers(struct hsp_server *server, unsigned number)
{
	struct hsp_served *device = server->devices[number];
	struct hsp_answer answer;
	uint8_t tag;
	if (hsp_device_next_ns(device->model) == HSP_NEVER)
		return;
	while (hsp_device_collect(device->model, hsp_model_ns(server), &tag, &answer))
		give_answer(server, number, tag, &answer);
	uint64_t next_ns = hsp_device_next_ns(device->model);
	if (next_ns == device->decision_ns || next_ns == HSP_NEVER)
		return;
	device->decision_ns = next_ns; /* an earlier timer may come too, and finds nothing */
	set_timer(server, &device->decision, server->epoch_ns + next_ns * server->dilation,
		  USER_DATA(DECISION, number, 0, 0));
}

void hsp_answer_all(struct hsp_server *server, struct hsp_served *device)
{
	unsigned number = number_of(server, device);
	struct hsp_answer answer;
	uint8_t tag;
	uint64_t next_ns, now_ns = hsp_model_ns(server);
	while ((next_ns = hsp_device_next_ns(device->model)) != HSP_NEVER)
		while (hsp_device_collect(device->model, next_ns > now_ns ? next_ns : now_ns, &tag, &answer))
			give_answer(server, number, tag, &answer);
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
	struct hsp_request model_request = {
		.arrival_ns = (host_ns - server->epoch_ns) / server->dilation,
		.sector = op == HSP_FLUSH ? 0 : request->start_sector,
		.sectors = op == HSP_FLUSH ? 0 : request->nr_sectors,
		.op = (uint8_t)op,
		.fua = (request->op_flags & UBLK_IO_F_FUA) != 0,
		.tag = (uint8_t)tag,
	};
	hsp_device_deliver(device->model, &model_request);
	struct hsp_answer answer = submit_to_model(device, &model_request, device->ublk.buffers[tag]);
	if (answer.done_ns == HSP_LATER)
		inflight->active = 1;
	else
		give_answer(server, number, tag, &answer);
	collect_answers(server, number);
}

void hsp_power_loss(struct hsp_server *server, struct hsp_served *device)
{
	uint64_t now_ns = hsp_model_ns(server);
	unsigned number = number_of(server, device);
	hsp_store_lose(device->store, now_ns);
	hsp_device_power_loss(device->model, now_ns);
	device->power_losses++;
	for (uint16_t tag = 0; tag < UBLK_DEPTH; tag++) {
		if (!device->inflight[tag].active)
			continue;
		device->inflight[tag].result = -EIO;
		commit(server, number, tag);
	}
}

/* Serve one connection: one line with a command, one line with the answer. */
static void serve_command(struct hsp_server *server)
{
	char command[4096], answer[65536];
	int connection = accept4(server->socket, NULL, NULL, SOCK_CLOEXEC);
	if (connection < 0)
		return;
	/* A client sends its line at once; a slow one must not delay the devices. */
	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = 1 }, sizeof(struct timeval));
	ssize_t count;
	do /* a completion on the ring interrupts recv */
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
	entry->user_data = USER_DATA(COMMAND, 0, 0, 0);
}

/* Handle one completion. Returns a negative errno if a device cannot continue. */
static int handle(struct hsp_server *server, uint64_t user_data, int32_t result, unsigned *started)
{
	unsigned number = user_data >> 48 & 0xff;
	uint16_t tag = user_data >> 32 & 0xffff;
	struct hsp_inflight *inflight = &server->devices[number]->inflight[tag];
	switch (user_data >> 56) {
	case REQUEST:
		if (result == UBLK_IO_RES_OK)
			accept_request(server, number, tag);
		else if (result != UBLK_IO_RES_ABORT)
			return result;
		return 0;
	case TIMER:
		if (inflight->active && inflight->generation == (uint32_t)user_data)
			commit(server, number, tag);
		return 0;
	case DECISION:
		server->devices[number]->decision_ns = HSP_NEVER;
		collect_answers(server, number);
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

/* Wait for at least one completion and handle all that are there. Returns 0 or a negative errno. */
static int process_completions(struct hsp_server *server, unsigned *started)
{
	int result = io_uring_submit_and_wait(&server->ring, 1);
	if (result < 0 && result != -EINTR)
		return result;
	struct io_uring_cqe *completion;
	while (io_uring_peek_cqe(&server->ring, &completion) == 0) {
		uint64_t user_data = completion->user_data;
		int32_t value = completion->res;
		io_uring_cqe_seen(&server->ring, completion);
		result = handle(server, user_data, value, started);
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

/*
 * Measure the server's own cost: the time of a request beyond the delay that was set. The shortest of requests with
 * pauses between: programs that look at new disks (udev) compete for the CPU meanwhile, and what they delay is none
 * of the server's cost. A median was up to 10 us of the guest's clock too large in some starts of the lab, and the
 * device then faster by as much.
 */
static void *measure_own_cost(void *argument)
{
	struct calibration *calibration = argument;
	uint64_t shortest_ns = UINT64_MAX;
	void *buffer = NULL;
	int file = open(calibration->path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (file < 0 || posix_memalign(&buffer, 4096, 4096)) {
		calibration->error = errno ? errno : ENOMEM;
		goto out;
	}
	for (int i = -CALIBRATION_WARM; i < CALIBRATION_COUNT; i++) {
		uint64_t start_ns = hsp_host_ns();
		if (pread(file, buffer, 512, 0) != 512) {
			calibration->error = errno ? errno : EIO;
			goto out;
		}
		uint64_t duration_ns = hsp_host_ns() - start_ns;
		if (i >= 0 && duration_ns < shortest_ns)
			shortest_ns = duration_ns;
		nanosleep(&(struct timespec){ .tv_nsec = CALIBRATION_PAUSE_NS }, NULL);
	}
	if (shortest_ns > CALIBRATION_NS)
		calibration->cost_ns = shortest_ns - CALIBRATION_NS;
out:
	if (file >= 0)
		close(file);
	free(buffer);
	calibration->done = 1;
	return NULL;
}

/* Calibrate one device while the others are idle, so that only its own cost is measured. */
static int calibrate(struct hsp_server *server, struct hsp_served *device, unsigned *started)
{
	struct calibration calibration = { .cost_ns = 0 };
	pthread_t thread;
	int result;
	snprintf(calibration.path, sizeof calibration.path, "/dev/ublkb%u", device->ublk.id);
	if ((result = pthread_create(&thread, NULL, measure_own_cost, &calibration)))
		return -result;
	/*
	 * The last answer is the last event that wakes this loop; a timer notices that the thread ended. Each pass sets
	 * one: shorter ones would wake the loop more often than the answers do.
	 */
	while (!calibration.done && result >= 0) {
		struct __kernel_timespec soon = { .tv_nsec = 20000000 };
		struct io_uring_sqe *entry = ublk_entry(&server->ring);
		io_uring_prep_timeout(entry, &soon, 0, 0);
		entry->user_data = 0;
		result = process_completions(server, started);
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
	/* Driver commands are synchronous, so all of them come before the ring serves requests. */
	for (unsigned number = 0; number < server->count; number++)
		if ((result = start(server, number, recovered)) < 0)
			return result;
	for (unsigned number = 0; number < server->count; number++) {
		struct hsp_served *device = server->devices[number];
		device->calibrating = !recovered;
		for (uint16_t tag = 0; tag < UBLK_DEPTH; tag++)
			ublk_fetch(&device->ublk, &server->ring, tag, USER_DATA(REQUEST, number, tag, 0));
		ublk_start(&device->ublk, server->control, &server->ring, recovered, USER_DATA(STARTED, number, 0, 0));
	}
	while (*started < server->count)
		if ((result = process_completions(server, started)) < 0)
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
	/*
	 * Linux 6.12 reads the entry of a command again when its worker comes to it (io_uring/uring_cmd.c): that of
	 * UBLK_CMD_START_DEV must not be overwritten before. So no entry is used twice until all devices have started.
	 */
	int result = io_uring_queue_init(RING_ENTRIES, &server->ring, IORING_SETUP_SQE128);
	if (result < 0)
		return result;
	result = bring_up(server, recovered, &started);
	if (result >= 0) {
		ready(server);
		await_command(server);
		while (!server->stopping && result >= 0)
			result = process_completions(server, &started);
	}
	io_uring_queue_exit(&server->ring);
	return result;
}

/* The devices of one server process: their requests, the model's answers, and the moments these are due. */
#ifndef HSP_SERVE_H
#define HSP_SERVE_H

#include "../models/model.h"
#include "store.h"
#include "ublk.h"

enum { HSP_MAX_DEVICES = 32, HSP_NAME_BYTES = 32, HSP_KEPT_FAULTS = 256 };

struct hsp_inflight {
	int active;
	uint32_t turn; /* a timer of an earlier turn of this tag is to be ignored */
	int32_t result;
	struct __kernel_timespec due;
};

struct hsp_served {
	char name[HSP_NAME_BYTES];
	char *spec;
	uint64_t sectors;
	struct hsp_store *store; /* shared memory: outlives a crash of the process that serves it */
	struct hsp_device *model;
	struct ublk ublk;
	struct hsp_inflight inflight[UBLK_DEPTH];
	uint64_t own_cost_ns; /* of this server, on the host's clock: taken off each answer */
	int calibrating;
	int is_made; /* the driver knows it */
};

struct hsp_fault {
	uint64_t at_ns; /* of the host's clock */
	char what[96];
};

struct hsp_server {
	struct io_uring ring;
	int control; /* /dev/ublk-control */
	int socket;  /* commands in words, one a connection */
	uint32_t dilation;
	uint64_t epoch_ns; /* the host's clock when the devices were made */
	unsigned count;
	struct hsp_served *devices[HSP_MAX_DEVICES];
	int stopping, is_ready;
	unsigned fault_count; /* the newest are kept */
	struct hsp_fault faults[HSP_KEPT_FAULTS];
	unsigned crashes; /* of processes that served these devices */
};

uint64_t hsp_host_ns(void);
/* The experiment's time: the host's, divided by the dilation, since the devices were made. */
uint64_t hsp_model_ns(const struct hsp_server *server);

/*
 * Make the block devices (or take them over, when `recovered`) and answer requests. `ready` is
 * called once, when all of them are there and calibrated. Returns 0 after a stop, or a negative errno.
 */
int hsp_serve(struct hsp_server *server, int recovered, void (*ready)(struct hsp_server *));

/* The power of one device goes and comes back: what is in flight fails. */
void hsp_power_loss(struct hsp_server *server, struct hsp_served *device);

/* One command, in words (see commands.c); the answer is a line. Returns 0, or -1 for a refusal. */
int hsp_command(struct hsp_server *server, char *command, char *answer, size_t answer_size);

#endif

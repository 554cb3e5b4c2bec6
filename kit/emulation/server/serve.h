/* Serving block devices: requests from the kernel, answers of the models, and the times they are due. */
#ifndef HSP_SERVE_H
#define HSP_SERVE_H

#include "../models/model.h"
#include "store.h"
#include "ublk.h"

enum { HSP_MAX_DEVICES = 32, HSP_NAME_BYTES = 32, HSP_KEPT_FAULTS = 256 };

struct hsp_inflight {
	int active;
	uint32_t generation; /* a timer of an earlier request with this tag is ignored */
	int32_t result;
	struct __kernel_timespec due;
};

struct hsp_served_bus {
	char name[HSP_NAME_BYTES];
	uint64_t bytes_per_s, command_ns;
	struct hsp_bus *bus; /* of this server process */
};

struct hsp_served {
	char name[HSP_NAME_BYTES];
	struct hsp_served_bus *bus; /* or NULL */
	char *spec;
	uint64_t sectors;
	struct hsp_store *store; /* shared memory: survives a crash of the server process */
	struct hsp_device *model;
	struct ublk ublk;
	struct hsp_inflight inflight[UBLK_DEPTH];
	uint64_t decision_ns; /* a timer is set for it, HSP_NEVER: none; the model then has answers to collect */
	struct __kernel_timespec decision;
	uint64_t own_cost_ns; /* of this server, host clock; subtracted from each answer's delay */
	uint64_t power_losses;
	int calibrating;
	int is_made; /* added to the driver */
};

struct hsp_fault {
	uint64_t at_ns; /* host clock */
	char what[96];
};

struct hsp_server {
	struct io_uring ring;
	int control; /* /dev/ublk-control */
	int socket;  /* for text commands, one per connection */
	uint32_t dilation;
	uint64_t epoch_ns; /* host clock when the devices were made */
	unsigned count;
	struct hsp_served *devices[HSP_MAX_DEVICES];
	unsigned bus_count;
	struct hsp_served_bus buses[HSP_MAX_DEVICES];
	int stopping, is_ready;
	unsigned fault_count; /* of all; `faults` is a ring of the newest */
	struct hsp_fault faults[HSP_KEPT_FAULTS];
	unsigned crashes; /* of server processes */
};

uint64_t hsp_host_ns(void);
/* Time of the models: host time since the devices were made, divided by the dilation. */
uint64_t hsp_model_ns(const struct hsp_server *server);

/*
 * Make the block devices (or take them over, when `recovered`) and serve requests. `ready` is called
 * once, when all devices exist and are calibrated. Returns 0 after a stop, or a negative errno.
 */
int hsp_serve(struct hsp_server *server, int recovered, void (*ready)(struct hsp_server *));

/* Make the model of a device, on its bus. NULL and a message in `error` if that cannot be. */
struct hsp_device *hsp_served_model(const struct hsp_served *device, char *error, size_t error_size);

/* Decide what the model would decide later, for it gets no more requests: each has its answer then, or a timer. */
void hsp_answer_all(struct hsp_server *server, struct hsp_served *device);

/* Power loss of one device: requests in flight fail. */
void hsp_power_loss(struct hsp_server *server, struct hsp_served *device);

/* Execute one text command (see commands.c); the answer is one line. Returns 0, or -1 for an error. */
int hsp_command(struct hsp_server *server, char *command, char *answer, size_t answer_size);

#endif

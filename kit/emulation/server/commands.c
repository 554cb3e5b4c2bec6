/*
 * Commands to the devices, a line of words each:
 *
 *   status                      the devices, as JSON
 *   NAME counters               what the model has counted, as JSON
 *   NAME power-loss             the power goes and comes back
 *   NAME stall NS | fail | error FIRST COUNT read|write|any | heal
 *   NAME save FILE | load FILE  content and state (load: before anything else has used the device)
 *   all mark | return           see hsp_store_mark: what a power loss of all devices now would leave
 *   faults                      what of the above was told, and when, as JSON
 *   stop                        end of all devices
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "serve.h"

static const char MAGIC[8] = "HSPDEV1";

struct answer {
	char *text;
	size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void say(struct answer *answer, const char *format, ...)
{
	va_list values;
	va_start(values, format);
	int count = vsnprintf(answer->text + answer->used, answer->size - answer->used, format, values);
	va_end(values);
	if (count > 0)
		answer->used += (size_t)count < answer->size - answer->used ? (size_t)count
									  : answer->size - answer->used - 1;
}

static struct hsp_served *find(struct hsp_server *server, const char *name)
{
	for (unsigned number = 0; number < server->count; number++)
		if (!strcmp(server->devices[number]->name, name))
			return server->devices[number];
	return NULL;
}

static int status(struct hsp_server *server, struct answer *answer)
{
	say(answer, "[");
	for (unsigned number = 0; number < server->count; number++) {
		const struct hsp_served *device = server->devices[number];
		say(answer, "%s{\"name\": \"%s\", \"path\": \"/dev/ublkb%u\", \"bytes\": %" PRIu64 ", \"own_cost_ns\": %" PRIu64
			    ", \"crashes\": %u}",
		    number ? ", " : "", device->name, device->ublk.id, device->sectors * HSP_SECTOR_BYTES,
		    device->own_cost_ns, server->crashes);
	}
	say(answer, "]");
	return 0;
}

static int counters(const struct hsp_served *device, struct answer *answer)
{
	char *names = strdup(hsp_device_counter_names(device->model)), *rest = names;
	const char *separator = "";
	say(answer, "{");
	for (char *name; names && (name = strsep(&rest, " "));) {
		if (!*name)
			continue;
		say(answer, "%s\"%s\": %" PRIu64, separator, name, hsp_device_counter(device->model, name));
		separator = ", ";
	}
	say(answer, "}");
	free(names);
	return 0;
}

static int failed(struct answer *answer, const char *what)
{
	say(answer, "%s: %s", what, strerror(errno));
	return -1;
}

/* As a device that is shut down in order: what it held in a cache is written first. */
static int save(struct hsp_server *server, struct hsp_served *device, const char *path, struct answer *answer)
{
	struct hsp_request flush = { .arrival_ns = hsp_model_ns(server), .op = HSP_FLUSH };
	uint64_t end_ns = hsp_device_submit(device->model, &flush).done_ns;
	if (end_ns == HSP_NEVER)
		end_ns = flush.arrival_ns;
	uint64_t head[2] = { device->sectors, hsp_device_save(device->model, end_ns, NULL, 0) };
	char *state = malloc(head[1] ? head[1] : 1);
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	int result = -1;
	if (state && file >= 0) {
		hsp_device_save(device->model, end_ns, state, head[1]);
		if (write(file, MAGIC, sizeof MAGIC) == sizeof MAGIC && write(file, head, sizeof head) == sizeof head &&
		    write(file, state, head[1]) == (ssize_t)head[1])
			result = hsp_store_save(device->store, file);
	}
	if (file >= 0 && close(file))
		result = -1;
	free(state);
	return result ? failed(answer, path) : 0;
}

static int load(struct hsp_served *device, const char *path, struct answer *answer)
{
	char magic[sizeof MAGIC], error[256] = "";
	uint64_t head[2];
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return failed(answer, path);
	int result = -1;
	char *state = NULL;
	/* Only a new model takes a state, and the kernel has looked at this one already. */
	struct hsp_device *model = hsp_device_new(device->spec, device->sectors, error, sizeof error);
	if (!model)
		say(answer, "%s", error);
	else if (read(file, magic, sizeof magic) != sizeof magic || memcmp(magic, MAGIC, sizeof MAGIC) ||
	    read(file, head, sizeof head) != sizeof head || head[1] > UINT64_C(1) << 32)
		say(answer, "%s: not the state of a device", path);
	else if (head[0] != device->sectors)
		say(answer, "%s: the state of a device of %" PRIu64 " sectors, this one has %" PRIu64, path, head[0],
		    device->sectors);
	else if (!(state = malloc(head[1] ? head[1] : 1)) || read(file, state, head[1]) != (ssize_t)head[1])
		say(answer, "%s: cut short", path);
	else if (hsp_device_load(model, state, head[1], error, sizeof error))
		say(answer, "%s: %s", path, error);
	else if (hsp_store_load(device->store, file))
		failed(answer, path);
	else
		result = 0;
	if (!result) {
		hsp_device_free(device->model);
		device->model = model;
		hsp_store_serve(device->store, model);
	} else if (model) {
		hsp_device_free(model);
	}
	free(state);
	close(file);
	return result;
}

static int of_all(struct hsp_server *server, const char *word, struct answer *answer)
{
	uint64_t now_ns = hsp_model_ns(server);
	int marks = !strcmp(word, "mark");
	if (!marks && strcmp(word, "return")) {
		say(answer, "all devices can mark or return, not '%s'", word);
		return -1;
	}
	for (unsigned number = 0; number < server->count; number++) {
		struct hsp_served *device = server->devices[number];
		if (marks) {
			hsp_store_mark(device->store, now_ns);
		} else if (hsp_store_return(device->store)) {
			say(answer, "%s: there is no mark to return to", device->name);
			return -1;
		} else {
			hsp_device_power_loss(device->model, now_ns);
		}
	}
	/* The host's clock: with it is compared what was acknowledged until now. */
	say(answer, "%" PRIu64, server->epoch_ns + now_ns * server->dilation);
	return 0;
}

static void note_fault(struct hsp_server *server, const char *name, const char *words)
{
	struct hsp_fault *fault = &server->faults[server->fault_count % HSP_KEPT_FAULTS];
	fault->at_ns = hsp_host_ns();
	snprintf(fault->what, sizeof fault->what, "%s %s", name, words);
	server->fault_count++;
}

/* The words have been understood, so they hold no quote or backslash. */
static int faults(const struct hsp_server *server, struct answer *answer)
{
	unsigned first = server->fault_count > HSP_KEPT_FAULTS ? server->fault_count - HSP_KEPT_FAULTS : 0;
	say(answer, "[");
	for (unsigned i = first; i < server->fault_count; i++) {
		const struct hsp_fault *fault = &server->faults[i % HSP_KEPT_FAULTS];
		say(answer, "%s{\"at_ns\": %" PRIu64 ", \"what\": \"%s\"}", i > first ? ", " : "", fault->at_ns,
		    fault->what);
	}
	say(answer, "]");
	return 0;
}

static int of_one(struct hsp_server *server, struct hsp_served *device, char *words, struct answer *answer)
{
	if (!strcmp(words, "counters"))
		return counters(device, answer);
	if (!strncmp(words, "save ", 5))
		return save(server, device, words + 5, answer);
	if (!strncmp(words, "load ", 5))
		return load(device, words + 5, answer);
	if (!strcmp(words, "power-loss"))
		hsp_power_loss(server, device);
	else if (hsp_device_fault(device->model, hsp_model_ns(server), words, answer->text, answer->size))
		return -1;
	note_fault(server, device->name, words);
	return 0;
}

int hsp_command(struct hsp_server *server, char *command, char *text, size_t size)
{
	struct answer answer = { .text = text, .size = size };
	text[0] = 0;
	if (!strcmp(command, "status"))
		return status(server, &answer);
	if (!strcmp(command, "faults"))
		return faults(server, &answer);
	if (!strcmp(command, "stop")) {
		server->stopping = 1;
		return 0;
	}
	char *words = command, *name = strsep(&words, " ");
	if (!words) {
		say(&answer, "'%s' is not a command", name);
		return -1;
	}
	if (!strcmp(name, "all"))
		return of_all(server, words, &answer);
	struct hsp_served *device = find(server, name);
	if (!device) {
		say(&answer, "there is no device '%s'", name);
		return -1;
	}
	return of_one(server, device, words, &answer);
}

/*
 * Text commands to the server, one per line:
 *
 *   status                      list the devices, as JSON
 *   NAME counters               counters of the model, as JSON
 *   NAME power-loss             power loss and power on
 *   NAME stall NS | fail | error FIRST COUNT read|write|any | heal
 *   NAME save FILE | load FILE  content and state (load: before the device is used)
 *   NAME write-cache            whether its volatile write cache is on: "on", "off", or "none" for a device without one
 *   NAME write-cache on | off   switch it; the answer is how long it is still written out, in ns of the host's clock
 *   all mark | return           mark a power loss of all devices, return to it (see hsp_store_mark)
 *   faults                      the injected faults and their times, as JSON
 *   stop                        remove all devices and exit
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

__attribute__((format(printf, 2, 3))) static void append_answer(struct answer *answer, const char *format, ...)
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
	append_answer(answer, "[");
	for (unsigned number = 0; number < server->count; number++) {
		const struct hsp_served *device = server->devices[number];
		append_answer(answer, "%s{\"name\": \"%s\", \"path\": \"/dev/ublkb%u\", \"bytes\": %" PRIu64 ", \"own_cost_ns\": %" PRIu64
			    ", \"crashes\": %u, \"power_losses\": %" PRIu64 "}",
		    number ? ", " : "", device->name, device->ublk.id, device->sectors * HSP_SECTOR_BYTES,
		    device->own_cost_ns, server->crashes, device->power_losses);
	}
	append_answer(answer, "]");
	return 0;
}

static int counters(const struct hsp_served *device, struct answer *answer)
{
	char *names = strdup(hsp_device_counter_names(device->model)), *rest = names;
	const char *separator = "";
	append_answer(answer, "{");
	for (char *name; names && (name = strsep(&rest, " "));) {
		if (!*name)
			continue;
		append_answer(answer, "%s\"%s\": %" PRIu64, separator, name, hsp_device_counter(device->model, name));
		separator = ", ";
	}
	append_answer(answer, "}");
	free(names);
	return 0;
}

static int failed(struct answer *answer, const char *what)
{
	append_answer(answer, "%s: %s", what, strerror(errno));
	return -1;
}

/* Save a device as after an orderly shutdown: flush its cache first. */
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

static int load(struct hsp_server *server, struct hsp_served *device, const char *path, struct answer *answer)
{
	char magic[sizeof MAGIC], error[256] = "";
	uint64_t head[2];
	int file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return failed(answer, path);
	int result = -1;
	char *state = NULL;
	/* Only a new model can load a state, and the kernel has already read from this one. */
	struct hsp_device *model = hsp_served_model(device, error, sizeof error);
	if (!model)
		append_answer(answer, "%s", error);
	else if (read(file, magic, sizeof magic) != sizeof magic || memcmp(magic, MAGIC, sizeof MAGIC) ||
	    read(file, head, sizeof head) != sizeof head || head[1] > UINT64_C(1) << 32)
		append_answer(answer, "%s: not the state of a device", path);
	else if (head[0] != device->sectors)
		append_answer(answer, "%s: the state of a device of %" PRIu64 " sectors, this one has %" PRIu64, path, head[0],
		    device->sectors);
	else if (!(state = malloc(head[1] ? head[1] : 1)) || read(file, state, head[1]) != (ssize_t)head[1])
		append_answer(answer, "%s: cut short", path);
	else if (hsp_device_load(model, state, head[1], error, sizeof error))
		append_answer(answer, "%s: %s", path, error);
	else if (hsp_store_load(device->store, file))
		failed(answer, path);
	else
		result = 0;
	if (!result) {
		hsp_answer_all(server, device); /* udev may read the device at any time */
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

static int command_all(struct hsp_server *server, const char *word, struct answer *answer)
{
	uint64_t now_ns = hsp_model_ns(server);
	int marks = !strcmp(word, "mark");
	if (!marks && strcmp(word, "return")) {
		append_answer(answer, "all devices can mark or return, not '%s'", word);
		return -1;
	}
	for (unsigned number = 0; number < server->count; number++) {
		struct hsp_served *device = server->devices[number];
		if (marks) {
			hsp_store_mark(device->store, now_ns);
		} else if (hsp_store_return(device->store)) {
			append_answer(answer, "%s: there is no mark to return to", device->name);
			return -1;
		} else {
			hsp_device_power_loss(device->model, now_ns);
			device->power_losses++;
		}
	}
	/* Host clock, to compare with the times of acknowledged writes. */
	append_answer(answer, "%" PRIu64, server->epoch_ns + now_ns * server->dilation);
	return 0;
}

static void record_fault(struct hsp_server *server, const char *name, const char *words)
{
	struct hsp_fault *fault = &server->faults[server->fault_count % HSP_KEPT_FAULTS];
	fault->at_ns = hsp_host_ns();
	snprintf(fault->what, sizeof fault->what, "%s %s", name, words);
	server->fault_count++;
}

/* Only valid commands are recorded, so the text contains no quote or backslash. */
static int faults(const struct hsp_server *server, struct answer *answer)
{
	unsigned first = server->fault_count > HSP_KEPT_FAULTS ? server->fault_count - HSP_KEPT_FAULTS : 0;
	append_answer(answer, "[");
	for (unsigned i = first; i < server->fault_count; i++) {
		const struct hsp_fault *fault = &server->faults[i % HSP_KEPT_FAULTS];
		append_answer(answer, "%s{\"at_ns\": %" PRIu64 ", \"what\": \"%s\"}", i > first ? ", " : "", fault->at_ns,
		    fault->what);
	}
	append_answer(answer, "]");
	return 0;
}

static int write_cache(const struct hsp_served *device, struct answer *answer)
{
	int is_on = hsp_device_write_cache_is_on(device->model);
	append_answer(answer, "%s", is_on < 0 ? "none" : is_on ? "on" : "off");
	return 0;
}

static int switch_write_cache(struct hsp_server *server, struct hsp_served *device, const char *word, struct answer *answer)
{
	uint64_t now_ns = hsp_model_ns(server), done_ns;
	int on = !strcmp(word, "on");
	if (!on && strcmp(word, "off")) {
		append_answer(answer, "a write cache is on or off, not '%s'", word);
		return -1;
	}
	if (hsp_device_set_write_cache(device->model, now_ns, on, &done_ns)) {
		append_answer(answer, "%s has no volatile write cache", device->name);
		return -1;
	}
	append_answer(answer, "%" PRIu64, done_ns == HSP_NEVER || done_ns < now_ns ? 0 : (done_ns - now_ns) * server->dilation);
	return 0;
}

static int command_device(struct hsp_server *server, struct hsp_served *device, char *words, struct answer *answer)
{
	if (!strcmp(words, "counters"))
		return counters(device, answer);
	if (!strcmp(words, "write-cache"))
		return write_cache(device, answer);
	if (!strncmp(words, "write-cache ", 12))
		return switch_write_cache(server, device, words + 12, answer);
	if (!strncmp(words, "save ", 5))
		return save(server, device, words + 5, answer);
	if (!strncmp(words, "load ", 5))
		return load(server, device, words + 5, answer);
	if (!strcmp(words, "power-loss"))
		hsp_power_loss(server, device);
	else if (hsp_device_fault(device->model, hsp_model_ns(server), words, answer->text, answer->size))
		return -1;
	record_fault(server, device->name, words);
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
		append_answer(&answer, "'%s' is not a command", name);
		return -1;
	}
	if (!strcmp(name, "all"))
		return command_all(server, words, &answer);
	struct hsp_served *device = find(server, name);
	if (!device) {
		append_answer(&answer, "there is no device '%s'", name);
		return -1;
	}
	return command_device(server, device, words, &answer);
}

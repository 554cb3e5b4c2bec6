/*
 * hsp-devices serve FILE [--foreground]   serve the block devices /dev/ublkbN that FILE describes
 * hsp-devices tell SOCKET WORDS...        send a command to the server (commands.c)
 *
 * FILE: lines "dilation N", "socket PATH", for each bus "bus NAME BYTES_PER_S COMMAND_NS", then for each
 * device "device NAME SECTORS [BUS]", the lines of its spec, "end". `serve` prints the devices as JSON and continues in the background.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve.h"

enum { MAX_CRASHES = 8 };

static int ready_pipe = 1; /* the parent process reads the devices from it when they are ready */

static int refuse(const char *text)
{
	fprintf(stderr, "hsp-devices: %s\n", text);
	return 2;
}

static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	if (!file)
		return NULL;
	if (getdelim(&text, &size, 0, file) < 0) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

/* Make a device in shared memory, where a new server process finds it after a crash. */
static struct hsp_served *new_device(const char *name, uint64_t sectors)
{
	struct hsp_served *device = mmap(NULL, sizeof *device, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (device == MAP_FAILED)
		return NULL;
	snprintf(device->name, sizeof device->name, "%s", name);
	device->sectors = sectors;
	device->store = hsp_store_new(sectors);
	device->spec = calloc(1, 1);
	return device->store && device->spec ? device : NULL;
}

static int append(char **text, const char *line)
{
	size_t length = strlen(*text);
	char *longer = realloc(*text, length + strlen(line) + 2);
	if (!longer)
		return -1;
	sprintf(longer + length, "%s\n", line);
	*text = longer;
	return 0;
}

static struct hsp_served_bus *find_bus(struct hsp_server *server, const char *name)
{
	for (unsigned number = 0; number < server->bus_count; number++)
		if (!strcmp(server->buses[number].name, name))
			return &server->buses[number];
	return NULL;
}

/* Parse the description. Returns 0, or an exit code after printing an error. */
static int parse(char *text, struct hsp_server *server, char *socket_path, size_t socket_size)
{
	struct hsp_served *open_device = NULL;
	for (char *line; (line = strsep(&text, "\n"));) {
		char name[HSP_NAME_BYTES], bus_name[HSP_NAME_BYTES] = "";
		struct hsp_served_bus bus = { .bus = NULL };
		uint64_t sectors;
		if (open_device && strcmp(line, "end")) {
			if (append(&open_device->spec, line))
				return refuse("out of memory");
		} else if (open_device) {
			open_device = NULL;
		} else if (sscanf(line, "bus %31s %" SCNu64 " %" SCNu64, bus.name, &bus.bytes_per_s, &bus.command_ns) == 3) {
			if (server->bus_count == HSP_MAX_DEVICES)
				return refuse("too many buses");
			server->buses[server->bus_count++] = bus;
		} else if (sscanf(line, "device %31s %" SCNu64 " %31s", name, &sectors, bus_name) >= 2 && sectors) {
			if (server->count == HSP_MAX_DEVICES)
				return refuse("too many devices");
			if (!(open_device = new_device(name, sectors)))
				return refuse("not enough memory for the devices");
			server->devices[server->count++] = open_device;
			open_device->bus = find_bus(server, bus_name);
			if (*bus_name && !open_device->bus)
				return refuse("a device names a bus that is not described before it");
		} else if (!strncmp(line, "socket ", 7)) {
			snprintf(socket_path, socket_size, "%s", line + 7);
		} else if (sscanf(line, "dilation %" SCNu32, &server->dilation) != 1 && *line) {
			fprintf(stderr, "hsp-devices: cannot read the line '%s'\n", line);
			return 2;
		}
	}
	if (!server->count || !server->dilation || !*socket_path || open_device)
		return refuse("the description needs dilation, socket and at least one whole device");
	return 0;
}

struct hsp_device *hsp_served_model(const struct hsp_served *device, char *error, size_t error_size)
{
	struct hsp_device *model = hsp_device_new(device->spec, device->sectors, error, error_size);
	if (model && device->bus && hsp_device_join(model, device->bus->bus)) {
		snprintf(error, error_size, "the bus %s is full", device->bus->name);
		hsp_device_free(model);
		return NULL;
	}
	return model;
}

/* Make new models in each server process: after a crash the devices start without state. */
static int make_models(struct hsp_server *server)
{
	for (unsigned number = 0; number < server->bus_count; number++) {
		struct hsp_served_bus *bus = &server->buses[number];
		if (!(bus->bus = hsp_bus_new(bus->bytes_per_s, bus->command_ns))) {
			fprintf(stderr, "hsp-devices: %s: no bus has this rate\n", bus->name);
			return -1;
		}
	}
	for (unsigned number = 0; number < server->count; number++) {
		struct hsp_served *device = server->devices[number];
		char error[256] = "";
		device->model = hsp_served_model(device, error, sizeof error);
		if (!device->model) {
			fprintf(stderr, "hsp-devices: %s: %s\n", device->name, error);
			return -1;
		}
		hsp_store_serve(device->store, device->model);
		memset(device->inflight, 0, sizeof device->inflight);
		device->decision_ns = HSP_NEVER;
	}
	return 0;
}

static void close_ready_pipe(void)
{
	if (ready_pipe > 1)
		close(ready_pipe);
	ready_pipe = -1;
}

static void report_ready(struct hsp_server *server)
{
	char answer[65536], command[] = "status";
	server->is_ready = 1;
	if (ready_pipe < 0)
		return;
	hsp_command(server, command, answer, sizeof answer);
	dprintf(ready_pipe, "%s\n", answer);
	close_ready_pipe();
}

static int listen_on(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	/* An accept that waited would delay the devices. */
	int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink(path);
	mode_t before = umask(0077);
	int failed = file < 0 || bind(file, (struct sockaddr *)&address, sizeof address) || listen(file, 8);
	umask(before);
	return failed ? -1 : file;
}

/* Run one server process; returns its exit code. */
static int serve_once(struct hsp_server *server, int recovered)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* Answers are due to the microsecond: run before everything else. */
	setpriority(PRIO_PROCESS, 0, -20);
	/* Memory reclaim may write to these devices: this process must not wait for that writeback. */
	prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0);
	if (make_models(server))
		return 2;
	int result = hsp_serve(server, recovered, report_ready);
	if (result < 0)
		fprintf(stderr, "hsp-devices: %s\n", strerror(-result));
	return result < 0 ? 1 : 0;
}

static void delete_devices(struct hsp_server *server)
{
	struct io_uring ring;
	if (io_uring_queue_init(8, &ring, IORING_SETUP_SQE128))
		return;
	for (unsigned number = 0; number < server->count; number++)
		if (server->devices[number]->is_made)
			ublk_delete(&server->devices[number]->ublk, server->control, &ring);
	io_uring_queue_exit(&ring);
}

static volatile sig_atomic_t stopped;
static pid_t child;

static void on_stop(int number)
{
	(void)number;
	stopped = 1;
	if (child > 0)
		kill(child, SIGKILL);
}

/*
 * Serve, and restart with the same content after a crash, so that users of the devices can still
 * release them. `status` reports the number of crashes, so that no such result is trusted.
 */
static int keep_serving(struct hsp_server *server)
{
	int code = 1;
	struct sigaction stop = { .sa_handler = on_stop };
	sigaction(SIGTERM, &stop, NULL);
	sigaction(SIGINT, &stop, NULL);
	server->epoch_ns = hsp_host_ns();
	while (!stopped && server->crashes <= MAX_CRASHES) {
		int status;
		child = fork();
		if (child == 0)
			_exit(serve_once(server, server->crashes > 0));
		close_ready_pipe(); /* only the child writes to it */
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
		if (stopped || !server->is_ready || (WIFEXITED(status) && code == 0))
			break;
		server->crashes++;
		fprintf(stderr, "hsp-devices: the server ended with status %d, crash %u\n", status, server->crashes);
	}
	delete_devices(server);
	return stopped ? 0 : code;
}

/*
 * Fork. The child continues in the background (-1); the parent prints the child's output until the
 * child is ready or has failed, and returns the exit code.
 */
static int to_background(const char *log)
{
	int ends[2];
	char text[4096];
	if (pipe2(ends, O_CLOEXEC))
		return refuse("no pipe");
	pid_t pid = fork();
	if (pid < 0)
		return refuse("no process");
	if (pid == 0) {
		setsid();
		close(ends[0]);
		ready_pipe = ends[1];
		/* The caller waits for the end of our streams, so the server must not keep them open. */
		if (!freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stdout) || !freopen(log, "w", stderr))
			_exit(1);
		setvbuf(stderr, NULL, _IONBF, 0);
		return -1;
	}
	close(ends[1]);
	ssize_t count, total = 0;
	while ((count = read(ends[0], text, sizeof text)) > 0) {
		total += count;
		fwrite(text, 1, (size_t)count, stdout);
	}
	if (total)
		return 0;
	char *why = read_file(log);
	fputs(why ? why : "hsp-devices: the server ended without a word\n", stderr);
	free(why);
	return 1;
}

static int serve(const char *path, int foreground)
{
	static struct hsp_server *server;
	char socket_path[sizeof((struct sockaddr_un *)0)->sun_path] = "";
	char *text = read_file(path);
	if (!text)
		return refuse("cannot read the description of the devices");
	server = mmap(NULL, sizeof *server, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (server == MAP_FAILED)
		return refuse("out of memory");
	int code = parse(text, server, socket_path, sizeof socket_path);
	if (code)
		return code;
	server->control = open("/dev/ublk-control", O_RDWR | O_CLOEXEC);
	if (server->control < 0)
		return refuse("no /dev/ublk-control: load the module ublk_drv (Linux >= 6.0), as root");
	if ((server->socket = listen_on(socket_path)) < 0)
		return refuse("cannot listen on the socket");
	char log[sizeof socket_path + 4];
	snprintf(log, sizeof log, "%s.log", socket_path);
	if (!foreground && (code = to_background(log)) >= 0)
		return code;
	code = keep_serving(server);
	unlink(socket_path);
	return code;
}

static int tell(const char *path, int count, char **words)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char line[4096] = "", answer[65536];
	size_t used = 0;
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	for (int i = 0; i < count; i++) {
		size_t length = strlen(words[i]);
		if (used + length + 2 > sizeof line)
			return refuse("the command is too long");
		used += (size_t)sprintf(line + used, "%s%s", i ? " " : "", words[i]);
	}
	strcat(line, "\n");
	int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (file < 0 || connect(file, (struct sockaddr *)&address, sizeof address)) {
		fprintf(stderr, "hsp-devices: %s: %s\n", path, strerror(errno));
		return 1;
	}
	if (send(file, line, strlen(line), MSG_NOSIGNAL) < 0)
		return refuse("the devices did not take the command");
	used = 0;
	for (ssize_t got; used < sizeof answer - 1 && (got = recv(file, answer + used, sizeof answer - 1 - used, 0)) > 0;)
		used += (size_t)got;
	answer[used] = 0;
	if (answer[0] == '=')
		return fputs(answer + 1, stdout), 0;
	fprintf(stderr, "hsp-devices: %s", used ? answer + 1 : "no answer\n");
	return 1;
}

int main(int count, char **words)
{
	if (count >= 3 && !strcmp(words[1], "serve"))
		return serve(words[2], count > 3 && !strcmp(words[3], "--foreground"));
	if (count >= 4 && !strcmp(words[1], "tell"))
		return tell(words[2], count - 3, words + 3);
	return refuse("usage: serve FILE [--foreground] | tell SOCKET WORDS...");
}

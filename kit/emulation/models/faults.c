#include "faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(char *error, size_t error_size, const char *what, const char *text)
{
	if (error && error_size)
		snprintf(error, error_size, "%s: '%.60s'", what, text);
	return -1;
}

/* Parse a whole number at *text and advance behind it and one space. -1: not a number. */
static int parse_number(const char **text, uint64_t *value)
{
	char *end;

	if (**text < '0' || **text > '9')
		return -1;
	errno = 0;
	*value = strtoull(*text, &end, 10);
	if (errno || (*end && *end != ' '))
		return -1;
	*text = *end ? end + 1 : end;
	return 0;
}

static int add_stall(struct hsp_faults *faults, uint64_t now_ns, const char *text, char *error, size_t error_size)
{
	const char *rest = text;
	uint64_t length_ns;

	if (parse_number(&rest, &length_ns) || *rest || length_ns > UINT64_C(1) << 60)
		return refuse(error, error_size, "a stall is \"stall NS\", at most 2^60 ns", text);
	if (now_ns + length_ns > faults->stalled_until_ns)
		faults->stalled_until_ns = now_ns + length_ns;
	return 0;
}

static int add_errors(struct hsp_faults *faults, uint64_t sectors, const char *text, char *error, size_t error_size)
{
	struct hsp_error_range range = { 0 };
	const char *rest = text;

	if (parse_number(&rest, &range.first) || parse_number(&rest, &range.count))
		return refuse(error, error_size, "errors are \"error FIRST COUNT read|write|any\"", text);
	range.reads = !strcmp(rest, "read") || !strcmp(rest, "any");
	range.writes = !strcmp(rest, "write") || !strcmp(rest, "any");
	if (!range.reads && !range.writes)
		return refuse(error, error_size, "the kind of errors is read, write or any", text);
	if (!range.count || range.first >= sectors || range.count > sectors - range.first)
		return refuse(error, error_size, "a range of errors must lie inside the device", text);
	if (faults->ranges == HSP_ERROR_RANGES)
		return refuse(error, error_size, "too many ranges of errors; \"heal\" removes them", text);
	faults->range[faults->ranges++] = range;
	return 0;
}

int hsp_faults_add(struct hsp_faults *faults, uint64_t now_ns, uint64_t sectors, const char *text, char *error,
		   size_t error_size)
{
	if (error && error_size)
		error[0] = '\0';
	if (!strncmp(text, "stall ", 6))
		return add_stall(faults, now_ns, text + 6, error, error_size);
	if (!strncmp(text, "error ", 6))
		return add_errors(faults, sectors, text + 6, error, error_size);
	if (!strcmp(text, "fail")) {
		faults->is_gone = 1;
		return 0;
	}
	if (!strcmp(text, "heal")) {
		faults->is_gone = 0;
		faults->ranges = 0;
		return 0;
	}
	return refuse(error, error_size, "not a fault (stall NS, fail, error FIRST COUNT KIND, heal)", text);
}

int hsp_faults_error(const struct hsp_faults *faults, const struct hsp_request *request)
{
	for (size_t i = 0; i < faults->ranges; i++) {
		const struct hsp_error_range *range = &faults->range[i];
		int applies = request->op == HSP_READ  ? range->reads :
			      request->op == HSP_WRITE || request->op == HSP_WRITE_ZEROES ? range->writes :
											    0;

		if (applies && request->sector < range->first + range->count &&
		    range->first < request->sector + request->sectors)
			return EIO;
	}
	return 0;
}

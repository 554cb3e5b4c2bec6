#include "spec.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hsp_spec_fail(struct hsp_spec *spec, const char *format, ...)
{
	va_list arguments;

	if (spec->failed)
		return;
	spec->failed = 1;
	if (!spec->error || !spec->error_size)
		return;
	va_start(arguments, format);
	vsnprintf(spec->error, spec->error_size, format, arguments);
	va_end(arguments);
}

static struct hsp_spec_line *line_of(struct hsp_spec *spec, const char *prefix, const char *key)
{
	size_t length = strlen(prefix);

	for (size_t i = 0; i < spec->count; i++)
		if (!strncmp(spec->lines[i].key, prefix, length) && !strcmp(spec->lines[i].key + length, key))
			return &spec->lines[i];
	return NULL;
}

static int add_line(struct hsp_spec *spec, char *line)
{
	char *value = strchr(line, ' ');

	if (!value || value == line || !value[1]) {
		hsp_spec_fail(spec, "'%.40s' is not \"key value\"", line);
		return -1;
	}
	*value++ = '\0';
	if (line_of(spec, "", line)) {
		hsp_spec_fail(spec, "%.40s is given twice", line);
		return -1;
	}
	if (spec->count == HSP_SPEC_KEYS) {
		hsp_spec_fail(spec, "more than %d keys", HSP_SPEC_KEYS);
		return -1;
	}
	spec->lines[spec->count++] = (struct hsp_spec_line){ .key = line, .value = value };
	return 0;
}

int hsp_spec_parse(struct hsp_spec *spec, const char *text, char *error, size_t error_size)
{
	size_t length = text ? strlen(text) : 0;

	*spec = (struct hsp_spec){ .prefix = "", .error = error, .error_size = error_size };
	if (error && error_size)
		error[0] = '\0';
	if (!length || length >= sizeof(spec->text)) {
		hsp_spec_fail(spec, "a spec is 1 to %d bytes of text", HSP_SPEC_BYTES - 1);
		return -1;
	}
	memcpy(spec->text, text, length + 1);
	for (char *line = spec->text, *end; line && *line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		if (*line && add_line(spec, line))
			return -1;
	}
	return 0;
}

static const char *value_of(struct hsp_spec *spec, const char *key)
{
	struct hsp_spec_line *line = line_of(spec, spec->prefix, key);

	if (!line) {
		hsp_spec_fail(spec, "%s%s is missing", spec->prefix, key);
		return NULL;
	}
	line->used = 1;
	return line->value;
}

uint64_t hsp_spec_number(struct hsp_spec *spec, const char *key, uint64_t min, uint64_t max)
{
	const char *text = value_of(spec, key);
	char *end;
	uint64_t value;

	if (!text)
		return min;
	errno = 0;
	value = strtoull(text, &end, 10);
	/* strtoull accepts a sign and leading spaces; a spec does not. */
	if (errno || *end || text[0] < '0' || text[0] > '9') {
		hsp_spec_fail(spec, "%s%s is '%.40s', not a whole number", spec->prefix, key, text);
		return min;
	}
	if (value < min || value > max) {
		hsp_spec_fail(spec, "%s%s is %" PRIu64 ", not from %" PRIu64 " to %" PRIu64, spec->prefix, key,
			      value, min, max);
		return min;
	}
	return value;
}

uint64_t hsp_spec_number_or(struct hsp_spec *spec, const char *key, uint64_t min, uint64_t max, uint64_t otherwise)
{
	return line_of(spec, spec->prefix, key) ? hsp_spec_number(spec, key, min, max) : otherwise;
}

unsigned hsp_spec_word(struct hsp_spec *spec, const char *key, const char *const *words)
{
	const char *text = value_of(spec, key);

	if (!text)
		return 0;
	for (unsigned i = 0; words[i]; i++)
		if (!strcmp(words[i], text))
			return i;
	hsp_spec_fail(spec, "%s%s is '%.40s', not a valid value", spec->prefix, key, text);
	return 0;
}

int hsp_spec_finish(struct hsp_spec *spec)
{
	for (size_t i = 0; i < spec->count && !spec->failed; i++)
		if (!spec->lines[i].used)
			hsp_spec_fail(spec, "%.40s is not a key of this model", spec->lines[i].key);
	return spec->failed ? -1 : 0;
}

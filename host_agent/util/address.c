// SPDX-License-Identifier: GPL-2.0-or-later
/* Writes addresses and bit masks as the kernel's %p extensions do. */
#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "host_agent/util/address.h"
#include "host_agent/util/text.h"

static char *address_put(char *to, const char *text)
{
	return stpcpy(to, text);
}

static char *put_mac(char *to, const char *variant, const u8 *data)
{
	bool reverse = strchr(variant, 'R');
	u32 k;

	for (k = 0; k < 6; k++) {
		if (k && *variant == 'M')
			*to++ = variant[1] == 'F' ? '-' : ':';
		to += sprintf(to, "%02x", data[reverse ? 5 - k : k]);
	}
	return to;
}

static char *put_ip4(char *to, bool zeros, bool reverse, const u8 *data)
{
	u32 k;

	for (k = 0; k < 4; k++)
		to += sprintf(to, zeros ? "%s%03u" : "%s%u", k ? "." : "",
			      data[reverse ? 3 - k : k]);
	return to;
}

static u32 word_at(const u8 *data, u32 index)
{
	return data[2 * index] << 8 | data[2 * index + 1];
}

/* The longest run of two or more zero words. Return: its length. */
static u32 longest_run(const u8 *data, u32 words, u32 *from)
{
	u32 longest = 1, k, j;

	for (k = 0; k < words; k++) {
		for (j = k; j < words && !word_at(data, j); j++)
			;
		if (j - k > longest) {
			longest = j - k;
			*from = k;
		}
	}
	return longest > 1 ? longest : 0;
}

/* An IPv4 address in an IPv6 one: mapped, or ISATAP. */
static bool holds_ip4(const u8 *data)
{
	static const u8 mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(data, mapped, sizeof(mapped)) ||
	       ((data[8] | 2) == 2 && !data[9] && data[10] == 0x5e && data[11] == 0xfe);
}

static char *put_ip6_short(char *to, const u8 *data)
{
	bool ip4 = holds_ip4(data), colon = false;
	u32 words = ip4 ? 6 : 8, from = 0, run = longest_run(data, words, &from), k;

	for (k = 0; k < words; k++) {
		if (run && k == from) {
			to = address_put(to, colon || !k ? "::" : ":");
			colon = false;
			k += run - 1;
			continue;
		}
		to += sprintf(to, colon ? ":%x" : "%x", word_at(data, k));
		colon = true;
	}
	if (ip4)
		to = put_ip4(address_put(to, colon ? ":" : ""), false, false, data + 12);
	return to;
}

static char *put_ip6(char *to, bool colons, bool brief, const u8 *data)
{
	u32 k;

	if (brief)
		return put_ip6_short(to, data);
	for (k = 0; k < 8; k++)
		to += sprintf(to, "%s%04x", k && colons ? ":" : "", word_at(data, k));
	return to;
}

/* struct sockaddr_in, struct sockaddr_in6. */
static char *put_socket(char *to, const char *variant, const u8 *data, u32 bytes)
{
	bool port = strchr(variant + 2, 'p'), colons = *variant == 'I';
	u16 family;

	if (bytes < sizeof(family))
		return to;
	memcpy(&family, data, sizeof(family));
	if (family == AF_INET) {
		if (bytes < sizeof(struct sockaddr_in))
			return address_put(to, "INVALIDIPv4");
		to = put_ip4(to, !colons, strpbrk(variant + 2, "hl"), data + 4);
		if (port)
			to += sprintf(to, ":%u", word_at(data, 1));
	} else if (family == AF_INET6) {
		if (bytes < sizeof(struct sockaddr_in6))
			return address_put(to, "INVALIDIPv6");
		to = put_ip6(address_put(to, port ? "[" : ""), colons, strchr(variant + 2, 'c'),
			     data + 8);
		if (port)
			to += sprintf(to, "]:%u", word_at(data, 1));
	}
	return to;
}

static char *put_uuid(char *to, const char *variant, const u8 *data)
{
	static const u8 swapped[16] = { 3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15 };
	bool swap = variant[1] == 'l' || variant[1] == 'L';
	bool upper = variant[1] == 'L' || variant[1] == 'B';
	u32 k;

	for (k = 0; k < 16; k++) {
		if (k == 4 || k == 6 || k == 8 || k == 10)
			*to++ = '-';
		to += sprintf(to, upper ? "%02X" : "%02x", data[swap ? swapped[k] : k]);
	}
	return to;
}

char *braid_address_put(char *to, const char *variant, const u8 *data, u32 bytes)
{
	bool colons = *variant == 'I';

	switch (*variant) {
	case 'M':
	case 'm':
		return bytes < 6 ? address_put(to, "INVALIDMAC") : put_mac(to, variant, data);
	case 'U':
		return bytes < 16 ? address_put(to, "INVALIDUUID") : put_uuid(to, variant, data);
	}
	if (variant[1] == '4')
		return bytes < 4 ? address_put(to, "INVALIDIPv4") :
		       put_ip4(to, !colons, variant[2] == 'h' || variant[2] == 'l', data);
	if (variant[1] == '6')
		return bytes < 16 ? address_put(to, "INVALIDIPv6") :
		       put_ip6(to, colons, variant[2] == 'c', data);
	return put_socket(to, variant, data, bytes);
}

char *braid_mask_put(char *to, const u8 *data, u32 bits)
{
	static const char digit[] = "0123456789abcdef";
	u32 k;

	for (k = (bits + 3) / 4; k--;) {
		u32 nibble = data[k / 2] >> 4 * (k & 1) & 15;

		if (4 * k + 4 > bits)
			nibble &= (1u << (bits & 3)) - 1;
		*to++ = digit[nibble];
		if (k && k % 8 == 0)
			*to++ = ',';
	}
	return to;
}

static bool is_set(const u8 *data, u32 bit)
{
	return data[bit / 8] >> (bit & 7) & 1;
}

char *braid_cpus_put(char *to, const u8 *data, u32 bits)
{
	bool any = false;
	u32 k, from;

	for (k = 0; k < bits; k++) {
		if (!is_set(data, k))
			continue;
		for (from = k; k + 1 < bits && is_set(data, k + 1); k++)
			;
		if (any)
			*to++ = ',';
		any = true;
		to += braid_text_digits(to, from);
		if (k > from) {
			*to++ = '-';
			to += braid_text_digits(to, k);
		}
	}
	return to;
}

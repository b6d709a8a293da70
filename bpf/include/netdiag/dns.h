/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* Records about names: what the C library was asked for, and DNS messages as they passed the socket. */
#ifndef NETDIAG_DNS_H
#define NETDIAG_DNS_H

#include "types.h"

enum nd_lookup_kind {
	ND_LOOKUP_NAME = 1, /* addresses of a name */
	ND_LOOKUP_SOCKADDR = 2, /* the name of an address, given as the sockets have it */
	ND_LOOKUP_ADDRESS = 3, /* the same, given as bytes */
};

/* the longest name has 253, and one goes to the end */
#define ND_LOOKUP_NAME_BYTES 256
#define ND_LOOKUP_ADDRESSES 8

/* One call into the C library, from its entry to its return. */
struct name_lookup_event {
	nd_ktime_ns time; /* of the return */
	nd_ktime_ns started;
	nd_pid tgid;
	nd_tid tid;
	__s32 result; /* as the function returned it; of functions that return a pointer 0 or 1 */
	nd_family family; /* that was asked for, 0 = any */
	__u8 kind; /* enum nd_lookup_kind */
	__u8 ok; /* it worked */
	__u8 count; /* of addresses below */
	__u8 reserved[7];
	char name[ND_LOOKUP_NAME_BYTES];
	nd_addr address_1; /* answers, one behind the other; or the address whose name was sought */
	nd_addr address_2;
	nd_addr address_3;
	nd_addr address_4;
	nd_addr address_5;
	nd_addr address_6;
	nd_addr address_7;
	nd_addr address_8;
};

enum nd_transport { ND_TRANSPORT_UDP = 1, ND_TRANSPORT_TCP = 2 };

#define ND_DNS_BYTES 512

/* A datagram, or a piece of a stream, between a traced program and port 53. */
struct dns_message_event {
	nd_ktime_ns time; /* when the packet passed the socket */
	nd_cookie cookie;
	nd_netns netns; /* net cookie, 0 = not known */
	nd_pid tgid; /* who connected the socket or sent on it */
	nd_tid tid;
	__u32 offset; /* TCP: in the direction's byte stream */
	__u16 length; /* of the payload */
	__u16 copied; /* of it in data */
	nd_port local_port;
	nd_port remote_port;
	__u8 direction; /* enum nd_direction */
	__u8 transport; /* enum nd_transport */
	__u16 reserved;
	nd_addr remote;
	__u8 data[ND_DNS_BYTES];
};

#endif

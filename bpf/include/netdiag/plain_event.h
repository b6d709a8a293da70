/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * Records of plaintext: what a TLS library was given to send or gave as read, or what passed on a socket without TLS,
 * cut to the bytes that name a request or an event of a stream. They are never written to a file.
 *
 * Two structs that differ in their room alone, so that a small call does not cost a large record.
 */
#ifndef NETDIAG_PLAIN_EVENT_H
#define NETDIAG_PLAIN_EVENT_H

#include "types.h"

#define ND_PLAIN_SMALL_BYTES 256
#define ND_PLAIN_LARGE_BYTES 4096

/* How it is known which socket the bytes belong to. */
enum nd_plain_binding {
	ND_PLAIN_BOUND_NOT = 0,
	ND_PLAIN_BOUND_INSIDE = 1, /* calls with this object read and wrote that socket */
	ND_PLAIN_BOUND_HANDSHAKE = 2, /* its thread sent that socket's first bytes right after the handshake began */
	ND_PLAIN_BOUND_SIZE = 3, /* its thread sent on that socket just as many bytes, encrypted, right after a call */
	ND_PLAIN_BOUND_DESCRIPTOR = 4, /* the object holds that socket's descriptor */
	ND_PLAIN_BOUND_PACKET = 5, /* no TLS: the socket's own packets */
};

enum nd_plain_flags {
	ND_PLAIN_WHOLE = 1, /* offsets count from the first byte of the conversation, which was seen */
	ND_PLAIN_END = 2, /* no bytes: the object is gone, or the direction ended */
	ND_PLAIN_UNSEEN = 4, /* the bytes passed, but could not be read: a file that the kernel sent, say */
	ND_PLAIN_MIXED = 8, /* calls with this object used more than one socket: it is bound to none */
};

/*
 * A conversation is (tgid, handle, generation), or the socket where handle is 0. Its cookie may become known late, and
 * the last record that says one is right for the earlier ones too. A call with more bytes than a record holds may be
 * told in several records; bytes between copied and tail are not known. Where offset jumps, records were lost.
 */
#define ND_PLAIN_HEAD                                                                                  \
	nd_ktime_ns time; /* when the call returned, or the packet passed */                           \
	nd_ktime_ns entered; /* when the call began; 0 for a packet */                                 \
	nd_cookie cookie; /* 0 = not bound */                                                          \
	__u64 offset; /* of the first byte in this direction of the conversation */                    \
	__u32 handle; /* number of the TLS object; says nothing about where it lies. 0 = a socket */   \
	__u32 generation; /* of objects that lay at the same place */                                  \
	__u32 length; /* bytes moved */                                                                \
	__u32 copied; /* of them, the first so many are in data */                                     \
	__u32 tail; /* and the last so many behind those */                                            \
	nd_pid tgid;                                                                                   \
	nd_tid tid;                                                                                    \
	__u8 direction; /* enum nd_direction: send or receive */                                       \
	__u8 library; /* enum nd_tls_library; 0 = no TLS */                                            \
	__u8 binding; /* enum nd_plain_binding */                                                      \
	__u8 flags; /* enum nd_plain_flags */

struct plain_event {
	ND_PLAIN_HEAD
	__u8 data[ND_PLAIN_SMALL_BYTES];
};

struct plain_large_event {
	ND_PLAIN_HEAD
	__u8 data[ND_PLAIN_LARGE_BYTES];
};

#endif

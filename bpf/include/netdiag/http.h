/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * What netdiag's front writes about HTTP: no kernel program fills these, but the
 * layout stands here, as every other one does, so that BTF tells it.
 *
 * Texts are numbers: of facts `strings`, from 1; 0 = none. Numbers of tokens
 * are one more than what the server said; 0 = it said nothing.
 */
#ifndef NETDIAG_HTTP_H
#define NETDIAG_HTTP_H

#include "types.h"

enum nd_http_protocol { ND_HTTP_10 = 1, ND_HTTP_11 = 2, ND_HTTP_2 = 3 };

enum nd_http_stream {
	ND_HTTP_STREAM_NONE = 0,
	ND_HTTP_STREAM_SSE = 1,
	ND_HTTP_STREAM_NDJSON = 2,
	ND_HTTP_STREAM_CHUNKED = 3,
};

enum nd_http_format {
	ND_HTTP_FORMAT_UNKNOWN = 0,
	ND_HTTP_FORMAT_TEXT = 1,
	ND_HTTP_FORMAT_JSON_OBJECT = 2,
	ND_HTTP_FORMAT_JSON_SCHEMA = 3,
};

enum nd_http_ended {
	ND_HTTP_COMPLETE = 1,
	ND_HTTP_CUT = 2, /* the connection ended before the answer did */
	ND_HTTP_CLIENT_RESET = 3, /* RST_STREAM by the client */
	ND_HTTP_SERVER_RESET = 4,
	ND_HTTP_REFUSED = 5, /* the server did not touch it: REFUSED_STREAM, or beyond a GOAWAY */
	ND_HTTP_NOT_FOLLOWED = 6, /* bytes were missing: its end is not known */
	ND_HTTP_OPEN = 7, /* still going on when the trace ended */
};

enum nd_http_flags {
	ND_HTTP_CLIENT_CLOSE = 1, /* the request says that the connection shall end */
	ND_HTTP_SERVER_CLOSE = 2,
	ND_HTTP_EXPECT = 4, /* Expect: 100-continue */
	ND_HTTP_CONTINUED = 8, /* an interim answer came */
	ND_HTTP_UPGRADED = 16,
	ND_HTTP_GAPS = 32, /* bytes of it were not seen */
	ND_HTTP_STREAM_ASKED = 64, /* the request's body asks for a stream */
	ND_HTTP_STREAM_NOT_ASKED = 128,
	ND_HTTP_CODED = 256, /* the answer is compressed */
	ND_HTTP_PIPELINED = 512,
	ND_HTTP_HEADERS_UNKNOWN = 1024, /* HPACK entries from before the conversation was joined */
	ND_HTTP_FINISHED = 2048, /* the stream's own end was seen */
	ND_HTTP_JOINED = 4096, /* its beginning was not seen */
	ND_HTTP_REQUEST_PART = 8192, /* whole frames were not seen: the request's size is not known */
	ND_HTTP_RESPONSE_PART = 16384, /* the same of the answer */
};

/* One request and what came back; written when it is over or given up. */
struct http_request_event {
	nd_ktime_ns time; /* when it ended, or was given up */
	nd_cookie conversation;
	nd_cookie cookie; /* 0 = not bound */
	nd_ktime_ns began; /* the call that moved its first byte returned */
	nd_ktime_ns sent; /* the same of its last byte */
	nd_ktime_ns first_byte; /* of the final answer */
	nd_ktime_ns ended;
	nd_bytes request_first; /* offsets in the plaintext of the client's direction */
	nd_bytes request_end;
	nd_bytes response_first; /* in that of the server's */
	nd_bytes response_end;
	nd_bytes response_body; /* where the body begins */
	nd_bytes request_bytes;
	nd_bytes response_bytes;
	nd_duration_ns blocked; /* HTTP/2: the sender stood at the end of a window */
	__u32 number; /* in its conversation, from 1 */
	__u32 stream; /* of HTTP/2 */
	__u32 method; /* texts */
	__u32 host;
	__u32 path;
	__u32 model;
	__u32 request_headers; /* a JSON object */
	__u32 headers; /* of the answer */
	__u32 input_tokens;
	__u32 cached_tokens;
	__u32 output_tokens;
	__u32 reasoning_tokens;
	nd_pid tgid;
	nd_tid tid;
	__u32 concurrent; /* HTTP/2: open streams when it began */
	__u32 flags; /* enum nd_http_flags */
	__u16 status;
	__u8 protocol; /* enum nd_http_protocol */
	__u8 stream_kind; /* enum nd_http_stream */
	__u8 format; /* enum nd_http_format */
	__u8 result; /* enum nd_http_ended */
	__u8 server; /* 1 = the traced program is the server */
	__u8 reserved;
};

enum nd_http_chunk_kind {
	ND_HTTP_CHUNK_OTHER = 1,
	ND_HTTP_CHUNK_HEARTBEAT = 2,
	ND_HTTP_CHUNK_ROLE = 3,
	ND_HTTP_CHUNK_USAGE = 4,
	ND_HTTP_CHUNK_DONE = 5,
	ND_HTTP_CHUNK_REASONING = 6,
	ND_HTTP_CHUNK_CONTENT = 7,
	ND_HTTP_CHUNK_ERROR = 8,
};

/* What one piece brought of a streamed answer. */
struct http_chunk_event {
	nd_ktime_ns time; /* the call that moved it returned */
	nd_cookie conversation;
	nd_bytes offset; /* of its first byte in the plaintext that the server sends */
	nd_bytes token; /* offset after the first event with content; 0 = none */
	__u32 exchange; /* number in the conversation */
	__u32 length; /* bytes of the body */
	__u16 events; /* that ended in it */
	__u16 tokens; /* of them with content or reasoning */
	__u8 kind; /* enum nd_http_chunk_kind */
	__u8 reserved[3];
};

#endif

// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
/*
 * No program: the layouts of what netdiag's front writes about HTTP, as BTF.
 */

#include "netdiag/http.h"

const struct http_request_event *nd_layout_http_request_event __attribute__((unused));
const struct http_chunk_event *nd_layout_http_chunk_event __attribute__((unused));

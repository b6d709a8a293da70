// SPDX-License-Identifier: Apache-2.0
// Habits of programs on node: `node client.mjs PLAN.json`.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; // the certificate is a throw-away one
process.removeAllListeners('warning');

const plan = { calls: 6, gap_s: 0.05, burst: 1, body_bytes: 20, stream: false, ...JSON.parse(readFileSync(process.argv[2])) };
const pause = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const payload = JSON.stringify({ model: 'lab', stream: plan.stream, messages: [{ role: 'user', content: 'x'.repeat(plan.body_bytes) }] });
const url = (turn) => plan.urls[turn % plan.urls.length];
const library = plan.urls[0].startsWith('https') ? https : http;
const headers = { 'content-type': 'application/json' };

const post = (turn, agent) => new Promise((resolve) => {
  const request = library.request(url(turn), { method: 'POST', agent, headers }, (answer) => {
    answer.resume();
    answer.on('close', resolve);
  });
  request.on('error', resolve);
  request.end(payload);
});

async function viaFetch(turn) {
  const answer = await fetch(url(turn), { method: 'POST', headers, body: payload });
  await answer.text();
}

async function again(turn) { // asks again after an error, with pauses that double
  for (let attempt = 0; attempt < (plan.tries ?? 3); attempt += 1) {
    if (attempt) await pause((plan.pause_s ?? 0.1) * 2 ** (attempt - 1));
    const answer = await fetch(url(turn), { method: 'POST', headers, body: payload });
    await answer.text();
    if (answer.status < 500 && answer.status !== 429) return;
  }
}

let session = null;
const viaHttp2 = (turn) => new Promise((resolve) => {
  session ??= http2.connect(new URL(url(turn)).origin);
  session.on('error', resolve);
  const request = session.request({ ':method': 'POST', ':path': new URL(url(turn)).pathname, ...headers });
  request.resume();
  request.on('close', resolve);
  request.on('error', resolve);
  request.end(payload);
});

const shared = new library.Agent({ keepAlive: true });
const none = new library.Agent({ keepAlive: false });
const habits = {
  session: (turn) => post(turn, shared), // one agent that keeps its sockets
  asks_close: (turn) => post(turn, none), // sends Connection: close
  per_call: async (turn) => { // an agent a call, thrown away after it
    const agent = new library.Agent({ keepAlive: true });
    await post(turn, agent);
    agent.destroy();
  },
  timed_expiry: viaFetch, // fetch drops an idle socket after four seconds
  fetch: viaFetch,
  h2_burst: viaHttp2, // one session with node's own windows of 65,535 bytes
  retries: again,
  async_stream: viaFetch, // text() takes the stream to its end
};

for (let turn = 0; turn < plan.calls; turn += 1) {
  await Promise.all(Array.from({ length: plan.burst }, () => habits[plan.habit](turn).catch(() => null)));
  await pause(plan.gap_s);
}
process.exit(0);

// SPDX-License-Identifier: Apache-2.0
// `node gets.mjs MODE CA COUNT URL…`: COUNT requests to each URL in turn; MODE is agent (one that keeps connections),
// single (no agent: a connection each) or fetch. With `timed`, COUNT handshakes to the first URL's port and for each a
// line `local-port began ended` by the program's own clock. A body in which s_server says what was agreed is printed.
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import net from 'node:net';
import tls from 'node:tls';

const [mode, authority, times, ...urls] = process.argv.slice(2);
const count = Number(times);
const ca = readFileSync(authority);
const agent = mode === 'agent' ? new https.Agent({ keepAlive: true, ca }) : false;

const show = (body) => {
  if (body.includes('Cipher is')) console.log(body);
};

const get = (url) => new Promise((resolve, reject) => {
  https.get(url, { agent, ca }, (answer) => {
    let body = '';
    answer.setEncoding('utf8');
    answer.on('data', (data) => { body += data; });
    answer.on('end', () => resolve(show(body)));
  }).on('error', reject);
});

const timed = (port) => new Promise((resolve, reject) => {
  const socket = net.connect(port, '127.0.0.1', () => {
    const local = socket.localPort;
    const began = process.hrtime.bigint();
    const secure = tls.connect({ socket, ca, servername: 'localhost' }, () => {
      console.log(`${local} ${began} ${process.hrtime.bigint()}`);
      secure.end();
      secure.on('close', resolve);
      secure.resume();
    });
    secure.on('error', reject);
  });
});

if (mode === 'timed') {
  for (let turn = 0; turn < count; turn += 1) await timed(Number(new URL(urls[0]).port));
} else {
  // fetch has no option for a certificate: the variable NODE_EXTRA_CA_CERTS names it
  for (const url of urls) {
    for (let turn = 0; turn < count; turn += 1) {
      if (mode === 'fetch') show(await (await fetch(url)).text());
      else await get(url);
    }
  }
}
agent?.destroy?.();
http.globalAgent.destroy();

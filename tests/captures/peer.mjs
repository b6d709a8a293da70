// SPDX-License-Identifier: Apache-2.0
// `node peer.mjs serve PORT CERT KEY TRUTH [h2]` answers over TLS and writes a line of JSON per request of what it saw.
// `node peer.mjs get CA COUNT MODE URL…`: MODE is agent (keeps connections), single (a connection each) or fetch.
import { appendFileSync, readFileSync } from 'node:fs';
import http2 from 'node:http2';
import https from 'node:https';

const [what, ...args] = process.argv.slice(2);

const serve = ([port, cert, key, truth, h2]) => {
  const options = { cert: readFileSync(cert), key: readFileSync(key), allowHTTP1: true };
  const answer = (asked, answered) => {
    const socket = asked.stream?.session?.socket ?? asked.socket;
    const path = asked.url.split('?')[0];
    const status = path.startsWith('/status/') ? Number(path.slice(8)) : 200;
    appendFileSync(truth, `${JSON.stringify({
      server_port: Number(port), client_port: socket.remotePort, method: asked.method, path, status,
      protocol: `HTTP/${asked.httpVersion}`, version: socket.getProtocol(), cipher: socket.getCipher().standardName,
      reused: socket.isSessionReused(), sni: socket.servername || '', alpn: socket.alpnProtocol || '',
    })}\n`);
    answered.writeHead(status, { 'content-type': 'text/plain' });
    answered.end('answer '.repeat(200));
  };
  const server = h2 ? http2.createSecureServer(options, answer) : https.createServer(options, answer);
  server.listen(Number(port), '127.0.0.1');
};

const get = async ([authority, count, mode, ...urls]) => {
  const ca = readFileSync(authority);
  const agent = mode === 'agent' ? new https.Agent({ keepAlive: true, ca }) : new https.Agent({ ca, maxCachedSessions: mode === 'single' ? 0 : 100 });
  const one = (url) => new Promise((resolve) => {
    https.get(url, { agent, ca }, (answer) => {
      answer.resume();
      answer.on('end', resolve);
    }).on('error', resolve);
  });
  for (const url of urls) {
    for (let turn = 0; turn < Number(count); turn += 1) await one(url);
  }
  agent.destroy();
};

if (what === 'serve') serve(args);
else await get(args);

// SPDX-License-Identifier: Apache-2.0
// Many short connections, one after another: `node shorts.mjs PORT COUNT` prints `pid port sent received closer how`.
import net from 'node:net';

const [port, count] = process.argv.slice(2).map(Number);
const modes = { 0: ['/keep', 'local', 'fin'], 1: ['/close', 'remote', 'fin'], 2: ['/keep', 'local', 'rst'] };

const one = (turn) => new Promise((resolve) => {
  const [path, closer, how] = modes[turn % 3];
  const message = `GET ${path}?${'x'.repeat(turn % 50)} HTTP/1.1\r\nHost: t\r\n\r\n`;
  const socket = net.connect(port, '127.0.0.1');
  let text = '';
  let local = 0;
  socket.on('connect', () => {
    local = socket.localPort;
    socket.write(message);
  });
  socket.on('data', (data) => {
    text += data;
    if (closer === 'remote' || !text.endsWith('END\n')) return;
    if (how === 'rst') socket.resetAndDestroy();
    else socket.end();
  });
  socket.on('close', () => {
    console.log(process.pid, local, message.length, text.length, closer, how);
    resolve();
  });
});

for (let turn = 0; turn < count; turn += 1) await one(turn);

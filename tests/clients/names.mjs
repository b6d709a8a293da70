// SPDX-License-Identifier: Apache-2.0
// Looks names up by the C library (lookup) or by c-ares (resolve): `node names.mjs lookup|resolve NAME…`.
import { promises as dns } from 'node:dns';

const [how, ...names] = process.argv.slice(2);
for (const name of names) {
  const found = how === 'lookup' ? dns.lookup(name, { all: true }) : dns.resolve4(name);
  console.log(name, JSON.stringify(await found.catch((error) => error.code)));
}

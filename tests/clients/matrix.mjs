// SPDX-License-Identifier: Apache-2.0
// The same calls by Node.js: `matrix.mjs fetch|https|undici URL CA PLAN`; undici comes from the folder in NODE_MODULES.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import https from "node:https";

const [client, url, ca, plan] = process.argv.slice(2);
const planted = { authorization: "Bearer planted-key-7f3a", cookie: "session=planted-cookie-7f3a" };
const body = (stream) =>
  JSON.stringify({ model: "m-1", stream, messages: [{ role: "user", content: "planted-prompt-7f3a" }] });
const calls = JSON.parse(plan).map(([method, target, stream]) => {
  const data = target.startsWith("/v1/chat") ? body(stream) : undefined;
  return { method, target, data, headers: { ...planted, ...(data ? { "content-type": "application/json" } : {}) } };
});

const withFetch = async () => {
  for (const { method, target, data, headers } of calls) {
    const answer = await fetch(url + target, { method, headers, body: data });
    if (answer.body) for await (const _ of answer.body);
  }
};
const withHttps = async () => {
  const agent = new https.Agent({ keepAlive: true, ca: readFileSync(ca) });
  for (const { method, target, data, headers } of calls)
    await new Promise((done, failed) => {
      const asked = https.request(url + target, { method, headers, agent }, (answer) => {
        answer.resume();
        answer.on("end", done);
      });
      asked.on("error", failed);
      asked.end(data);
    });
  agent.destroy();
};
const withUndici = async (allowH2) => {
  const { Agent, request } = createRequire(process.env.NODE_MODULES + "/x.js")("undici");
  const dispatcher = new Agent({ connect: { ca: readFileSync(ca) }, allowH2 });
  await Promise.all(calls.map(async ({ method, target, data, headers }) => {
    const answer = await request(url + target, { method, headers, body: data, dispatcher });
    for await (const _ of answer.body);
  }));
  await dispatcher.close();
};
const all = { fetch: withFetch, https: withHttps, undici: () => withUndici(false), "undici-h2": () => withUndici(true) };
await all[client]();

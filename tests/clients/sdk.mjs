#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// The openai package of node with its own retries: `sdk.mjs PLAN.json`, the package from .cache/npm.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'; // the certificate is a throw-away one
process.removeAllListeners('warning');
const { OpenAI } = createRequire(new URL('../../.cache/npm/x.js', import.meta.url))('openai');

const plan = JSON.parse(readFileSync(process.argv[2]));
const client = new OpenAI({ apiKey: 'lab-key', baseURL: plan.urls[0].split('/chat/')[0], maxRetries: (plan.tries ?? 3) - 1 });
for (let turn = 0; turn < plan.calls; turn += 1) {
  await client.chat.completions.create({ model: 'lab', messages: [{ role: 'user', content: 'x' }] }).catch(() => null);
  await new Promise((resolve) => setTimeout(resolve, (plan.gap_s ?? 0.05) * 1000));
}
process.exit(0);

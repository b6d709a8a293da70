// SPDX-License-Identifier: Apache-2.0
// Opens a page in headless Chromium as readers do (light and dark, narrow and wide) and tells what is wrong with it.
//   node page.mjs FILE.html [FOLDER for pictures]      one JSON object on stdout; NODE_PATH has the packages
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.NODE_PATH}/x.js`);
const puppeteer = require("puppeteer-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const [file, folder] = process.argv.slice(2);
const url = pathToFileURL(file).href;
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND"],
});
const found = { console: [], requests: [], axe: [], wide: [], images: 0, sorted: null };
try {
  for (const scheme of ["light", "dark"]) {
    for (const width of [375, 1280]) {
      const page = await browser.newPage();
      await page.setViewport({ width, height: 900 });
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      page.on("console", (message) => found.console.push(message.text()));
      page.on("pageerror", (error) => found.console.push(String(error)));
      page.on("dialog", (dialog) => { found.console.push(`dialog ${dialog.message()}`); dialog.dismiss(); });
      page.on("request", (request) => request.url() === url || found.requests.push(request.url()));
      await page.goto(url, { waitUntil: "load" });
      if (folder) await page.screenshot({ path: `${folder}/${scheme}-${width}.png`, fullPage: true });
      const over = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (over > 0) found.wide.push(`${over} px at ${width}`);
      found.images += await page.evaluate(() => document.querySelectorAll("img").length);
      found.sorted ??= await page.evaluate(() => {
        const table = document.querySelector("table.sortable");
        if (!table) return null;
        table.querySelector("th:nth-child(3) button").click();
        const values = [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.v));
        return values.every((value, at) => at === 0 || values[at - 1] <= value);
      });
      await page.close();
      const looked = await browser.newPage();
      looked.on("dialog", (dialog) => dialog.dismiss());
      await looked.setBypassCSP(true); // the checker's own script; the page's was run above
      await looked.setViewport({ width, height: 900 });
      await looked.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      await looked.goto(url, { waitUntil: "load" });
      await looked.evaluate(axe);
      const result = await looked.evaluate(() => window.axe.run(document));
      for (const rule of result.violations)
        found.axe.push(`${scheme} ${width}: ${rule.id}: ${rule.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(" | ")}`);
      await looked.close();
    }
  }
} finally {
  await browser.close();
}
process.stdout.write(JSON.stringify(found));

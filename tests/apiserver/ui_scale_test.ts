// The page of a large cluster: 10,000 pods on 500 nodes, from memory.
import assert from "node:assert/strict";
import { serveAt } from "../../lib/telemetry/mod.ts";
import { Address } from "../../lib/inet/mod.ts";
import { Feed } from "../../roles/cli/ui/feed.ts";
import { newSecret, urlOf } from "../../roles/cli/ui/guard.ts";
import { serveSite } from "../../roles/cli/ui/site.ts";
import { poolEntries, statusEntries } from "../../roles/cli/ui/view.ts";
import { block, pod, pool } from "../../lib/ipam/audit/testing.ts";
import { Browser, type Page } from "../lab/browser/mod.ts";

const NODES = 500;
const PODS = 10_000;
const PODS_OF_BLOCK = 20;

const FIRST = Address.parse("10.64.0.0");
const POOL = pool("default", [{ ipv4: "10.64.0.0/12" }]);
const BLOCKS = Array.from({ length: PODS / PODS_OF_BLOCK }, (_, n) => {
  const ipv4 = `${FIRST.offset(BigInt(n * 32))}/27`;
  return block(["default", n, `node${n % NODES}`], { ipv4 });
});

/** Names that no API server allows, for what comes from one that is not well. */
const MARKUP = "<img src=x onerror=alert(1)>";

function pods(prefix: string) {
  return Array.from({ length: PODS }, (_, n) => {
    const place = n % PODS_OF_BLOCK;
    const of = Math.floor(n / PODS_OF_BLOCK);
    const ipv4 = FIRST.offset(BigInt(of * 32 + place)).toString();
    const name = n === 0 ? MARKUP : `${prefix}-${n}`;
    return pod(name, `node${of % NODES}`, { ipv4 });
  });
}

async function withPage(use: (page: Page, feed: Feed) => Promise<void>) {
  const stop = new AbortController();
  const feed = new Feed();
  const door = { port: 0, secret: newSecret() };
  const { port, finished } = serveAt(
    "127.0.0.1:0",
    (request) => serveSite(request, { door, feed }),
    { flag: "--port", signal: stop.signal },
  );
  door.port = port;
  publish(feed, "web");
  feed.publish(
    "status",
    statusEntries({
      nodes: Array.from({ length: NODES }, (_, n) => ({
        name: `node${n}`,
        networkUnavailable: undefined,
      })),
      unseen: [],
    }, { cluster: "large:6443", now: new Date() }),
  );
  {
    await using browser = await Browser.start();
    await using page = await browser.open(urlOf(door));
    await use(page, feed);
  }
  stop.abort();
  await finished;
}

function publish(feed: Feed, prefix: string): void {
  const started = performance.now();
  const entries = poolEntries({
    pools: [POOL],
    blocks: BLOCKS,
    pods: pods(prefix),
  });
  note("entries made", performance.now() - started);
  feed.publish("map", entries);
}

function note(what: string, ms: number): void {
  // deno-lint-ignore no-console -- what was measured
  console.log(`  ${what}: ${Math.round(ms)} ms`);
}

/** The longest time between two frames while an expression is at work, in ms. */
function longestFrame(page: Page, work: string): Promise<number> {
  return page.evaluate(`(async () => {
    let [last, longest, isOver] = [performance.now(), 0, false];
    const frame = () => {
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
      if (!isOver) requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
    await (${work});
    // What was done in the last frame delays the next.
    for (let n = 0; n < 3; n++) await new Promise(requestAnimationFrame);
    isOver = true;
    return longest;
  })()`);
}

/** Sixty keys, one a frame. */
const WALK = `(async () => {
  for (let n = 0; n < 60; n++) {
    const key = n % 3 === 0 ? "PageDown" : "ArrowRight";
    document.querySelector(".map").dispatchEvent(
      new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }),
    );
    await new Promise(requestAnimationFrame);
  }
})()`;

Deno.test("the page of coil ui holds 10,000 pods", async () => {
  await withPage(async (page, feed) => {
    await page.until('performance.getEntriesByName("painted").length');
    note(
      "first paint",
      await page.evaluate(
        'performance.getEntriesByName("painted")[0].startTime',
      ),
    );
    const elements = () =>
      page.evaluate<number>('document.querySelectorAll("*").length');
    await page.press("2");
    await page.until('document.querySelector("canvas")?.width > 300');
    assert.ok(await elements() < 200, "as many elements as pods");
    note("longest frame, by keys", await longestFrame(page, WALK));
    assert.match(
      await page.evaluate('document.querySelector(".details").innerText'),
      /web-\d+/,
    );

    // All pods are others: as many changes as there can be.
    const changed = longestFrame(
      page,
      `(async () => {
        globalThis.isWaiting = true;
        while (!document.querySelector(".details").innerText.includes("api-")) {
          await new Promise(requestAnimationFrame);
        }
      })()`,
    );
    await page.until("globalThis.isWaiting");
    publish(feed, "api");
    note("longest frame, all changed", await changed);
    await page.press("Home");
    await page.until(
      `document.querySelector(".details").innerText.includes(${
        JSON.stringify(MARKUP)
      })`,
    );
    assert.equal(await page.evaluate("document.images.length"), 0);

    await page.press("3");
    await page.until('document.querySelector(".row")');
    const rows = await page.evaluate<number>(
      'document.querySelectorAll(".row").length',
    );
    assert.ok(rows > 10 && rows < 100, `${rows} rows`);
    await page.evaluate(
      'document.querySelector(".rows-frame").scrollTop = 1e9',
    );
    await page.until('document.body.innerText.includes("node99")');
    assert.deepEqual(page.troubles, []);
  });
});

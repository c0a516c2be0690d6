import assert from "node:assert/strict";
import { withTimeout } from "../../../lib/async/mod.ts";
import { serveAt } from "../../../lib/telemetry/mod.ts";
import { Feed } from "./feed.ts";
import { admit, newSecret, urlOf } from "./guard.ts";
import { serveSite } from "./site.ts";

/** For a server in this process to answer. */
const PATIENCE_MS = 20_000;

interface Site {
  readonly port: number;
  readonly secret: string;
  readonly feed: Feed;
  /** Sends a request with these headers and reads the answer until a text, or its end. */
  ask(
    target: string,
    options?: Asked,
  ): Promise<{ readonly status: number; readonly head: string; body: string }>;
}

interface Asked {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly until?: string;
  /** Gets what has come so far, whenever there is more. */
  readonly onMore?: (answer: string) => void;
}

async function withSite(use: (site: Site) => Promise<void>): Promise<void> {
  const stop = new AbortController();
  const feed = new Feed();
  const door = { port: 0, secret: newSecret() };
  const { port, finished } = serveAt(
    "127.0.0.1:0",
    (request) => serveSite(request, { door, feed }),
    { flag: "--port", signal: stop.signal },
  );
  door.port = port;
  const ask = (target: string, options: Asked = {}) =>
    withTimeout(PATIENCE_MS, () => askAt(port, target, options));
  try {
    await use({ port, secret: door.secret, feed, ask });
  } finally {
    stop.abort();
    await finished;
  }
}

async function askAt(port: number, target: string, options: Asked) {
  const { method = "GET", headers = {}, until, onMore } = options;
  using socket = await Deno.connect({ hostname: "127.0.0.1", port });
  const all = { host: `127.0.0.1:${port}`, connection: "close", ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  const text = [`${method} ${target} HTTP/1.1`, ...lines, "", ""].join("\r\n");
  await socket.write(new TextEncoder().encode(text));
  const decoder = new TextDecoder();
  const buffer = new Uint8Array(64 * 1024);
  let answer = "";
  while (until === undefined || !answer.includes(until)) {
    const count = await socket.read(buffer);
    if (count === null) break;
    answer += decoder.decode(buffer.subarray(0, count), { stream: true });
    onMore?.(answer);
  }
  const [head = "", body = ""] = answer.split("\r\n\r\n");
  return { status: Number(head.split(" ")[1]), head, body };
}

Deno.test("the page, its script and its style are served below the secret", async () => {
  await withSite(async ({ secret, ask }) => {
    const page = await ask(`/${secret}/`);
    assert.equal(page.status, 200);
    const parts = [...page.body.matchAll(/(?:href|src)="([^"]+)"/g)]
      .map(([, part]) => part);
    assert.deepEqual(parts, ["page.css", "page.js"]);
    for (
      const [part, type] of [["page.css", "css"], ["page.js", "javascript"]]
    ) {
      const { status, head } = await ask(`/${secret}/${part}`);
      assert.equal(status, 200);
      assert.match(head, new RegExp(`\r\ncontent-type: text/${type};`));
    }
    assert.equal((await ask(`/${secret}/other`)).status, 404);
  });
});

Deno.test("each answer forbids scripts of others, frames, forms, guesses at its type and copies", async () => {
  await withSite(async ({ secret, ask }) => {
    for (const path of ["", "page.js", "page.css", "other", "../x"]) {
      const { head } = await ask(`/${secret}/${path}`);
      const policy = /\r\ncontent-security-policy: (.*)\r\n/.exec(head)?.[1];
      const rules = policy?.split("; ") ?? [];
      for (
        const rule of [
          "default-src 'none'",
          "script-src 'self'",
          "style-src 'self'",
          "connect-src 'self'",
          "base-uri 'none'",
          "form-action 'none'",
          "frame-ancestors 'none'",
          "require-trusted-types-for 'script'",
        ]
      ) assert.ok(rules.includes(rule), `${rule} of ${path}: ${policy}`);
      assert.doesNotMatch(policy ?? "", /unsafe|https?:|\*/);
      assert.match(head, /\r\ncache-control: no-store\r\n/);
      assert.match(head, /\r\nx-content-type-options: nosniff\r\n/);
      assert.match(head, /\r\nx-frame-options: DENY\r\n/);
      assert.match(head, /\r\nreferrer-policy: no-referrer\r\n/);
      assert.match(head, /\r\ncross-origin-resource-policy: same-origin\r\n/);
      assert.doesNotMatch(head, /access-control-allow/i);
    }
  });
});

Deno.test("a name that a site has made to mean 127.0.0.1 is refused, also with the secret", async () => {
  await withSite(async ({ port, secret, ask }) => {
    const status = async (host: string) =>
      (await ask(`/${secret}/`, { headers: { host } })).status;
    assert.equal(await status(`127.0.0.1:${port}`), 200);
    assert.equal(await status(`localhost:${port}`), 200);
    for (
      const host of [
        `evil.example:${port}`,
        `127.0.0.1.evil.example:${port}`,
        `evil.localhost:${port}`,
        "127.0.0.1",
        "localhost",
        `127.0.0.1:${port + 1}`,
        `127.1:${port}`,
        `0.0.0.0:${port}`,
        `[::1]:${port}`,
        `user@127.0.0.1:${port}`,
        `127.0.0.1:${port},evil.example`,
        "",
      ]
    ) assert.equal(await status(host), 403, host);
  });
});

Deno.test("a page of another site is refused, also with the secret", async () => {
  await withSite(async ({ port, secret, ask }) => {
    const status = async (origin: string, path = "events") =>
      (await ask(`/${secret}/${path}`, {
        headers: { origin },
        until: "\r\n\r\n",
      })).status;
    assert.equal(await status(`http://127.0.0.1:${port}`), 200);
    assert.equal(await status(`http://localhost:${port}`), 200);
    for (
      const origin of [
        "http://evil.example",
        `http://evil.example:${port}`,
        `https://127.0.0.1:${port}`,
        `http://127.0.0.1:${port + 1}`,
        "http://127.0.0.1",
        "null",
        "file://",
      ]
    ) {
      assert.equal(await status(origin), 403, origin);
      assert.equal(await status(origin, ""), 403, origin);
    }
  });
});

Deno.test("without the whole secret nothing is shown, and no two are the same", async () => {
  await withSite(async ({ port, secret, ask }) => {
    const url = urlOf({ port, secret });
    assert.equal(url, `http://127.0.0.1:${port}/${secret}/`);
    assert.match(secret, /^[\w-]{32}$/);
    assert.notEqual(newSecret(), newSecret());
    const last = secret.endsWith("x") ? "y" : "x";
    for (
      const target of [
        "/",
        "//",
        "/page.js",
        "/events",
        `/${secret.slice(0, -1)}/`,
        `/${secret.slice(0, -1)}${last}/`,
        `/${secret}x/events`,
        `/x/${secret}/`,
        `/?${secret}`,
        `/x/?/${secret}/`,
      ]
    ) {
      const { status, body } = await ask(target);
      assert.equal(status, 404, target);
      assert.doesNotMatch(body, new RegExp(secret), target);
    }
  });
});

Deno.test("the page is served at port 80, too, which browsers leave out", () => {
  const door = { port: 80, secret: newSecret() };
  const url = urlOf(door);
  for (
    const [headers, is] of [
      [{ host: "localhost", origin: "http://localhost" }, "page.js"],
      [{ host: "127.0.0.1" }, "page.js"],
      [{ host: "evil.example" }, 403],
    ] as const
  ) {
    const path = admit(new Request(`${url}page.js`, { headers }), door);
    assert.equal(path instanceof Response ? path.status : path, is);
  }
});

Deno.test("only GET is answered", async () => {
  await withSite(async ({ secret, ask }) => {
    for (
      const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"]
    ) {
      const { status, head } = await ask(`/${secret}/events`, { method });
      assert.equal(status, 405, method);
      assert.match(head, /\r\nallow: GET\r\n/, method);
    }
  });
});

Deno.test("events are everything first, then what has changed, each as one message", async () => {
  await withSite(async ({ secret, feed, ask }) => {
    feed.publish("a", new Map([["x", "1"], ["y", '{"z":"\\n<b>"}']]));
    const first =
      'event: state\ndata: {"set":{"x":1,"y":{"z":"\\n<b>"}},"gone":[]}\n\n';
    const { head, body } = await ask(`/${secret}/events`, {
      until: '"gone":["y"]}\n\n',
      onMore: (answer) => {
        if (answer.endsWith(first)) feed.publish("a", new Map([["x", "2"]]));
      },
    });
    assert.match(head, /\r\ncontent-type: text\/event-stream\r\n/);
    assert.equal(
      body,
      `${first}event: changes\ndata: {"set":{"x":2},"gone":["y"]}\n\n`,
    );
  });
});

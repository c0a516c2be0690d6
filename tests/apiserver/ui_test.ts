import assert from "node:assert/strict";
import { coil } from "../../roles/cli/testing.ts";
import { testedSessions } from "../arch/pages.ts";
import { Browser, type Page } from "../lab/browser/mod.ts";
import { eventually, startCoilPlane } from "../lab/mod.ts";
import { TextLineStream } from "../lab/lines.ts";
import { coilCommand } from "./coild_lab.ts";
import { addPod } from "./ipam_books.ts";
import { patchStatus } from "./patch_status.ts";
import { populateUi, setPool, startUi } from "./ui_lab.ts";
import { addViewer } from "./viewer.ts";

/** Set, it has the pictures of docs/ui.md made again. */
const hasPictures = Deno.env.has("COIL_UI_PICTURES");

async function picture(page: Page, name: string): Promise<void> {
  const png = await page.screenshot();
  assert.ok(png.length < 200_000, `${name}: ${png.length} bytes`);
  if (!hasPictures) return;
  const path = new URL(`../../docs/ui/${name}.png`, import.meta.url);
  await Deno.writeFile(path, png);
}

/** Waits until the page shows all of that: what it knows comes to it kind by kind. */
async function untilText(
  page: Page,
  expected: readonly RegExp[],
): Promise<void> {
  await eventually("the text of the page", async () => {
    const text = await page.text();
    for (const each of expected) assert.match(text, each);
    return true;
  });
}

/** Everything that the server has for the page, as text. */
async function all(url: string): Promise<string> {
  const texts = ["", "page.js", "page.css"].map(async (path) =>
    await (await fetch(url + path)).text()
  );
  const events = await fetch(`${url}events`);
  const stop = AbortSignal.timeout(140_000);
  let text = "";
  for await (const chunk of events.body ?? []) {
    text += new TextDecoder().decode(chunk);
    const isWhole = ["status", "pool/", "egress/", "contact"]
      .every((key) => text.includes(`"${key}`));
    if (isWhole) break;
    stop.throwIfAborted();
  }
  return [text, ...await Promise.all(texts)].join("\n");
}

/** As large as the pictures of the document. */
const VIEW = { width: 1200, height: 560 };

const DETAILS = 'document.querySelector(".details").innerText';

Deno.test("coil ui shows a cluster in a browser", async (t) => {
  await using plane = await startCoilPlane({ name: "ui" });
  await populateUi(plane);
  await using browser = await Browser.start({ hosts: ["evil.example"] });
  await using ui = await startUi(plane.kubeconfig);
  const { url } = ui;
  await using page = await browser.open(url, VIEW);
  await page.until('document.querySelector(".problem")');

  await t.step("the document shows what it prints", async () => {
    const [session] = await testedSessions("docs/ui.md", import.meta.url);
    const shapeOf = (text = "") =>
      text.trim().replace(/:\d+\//, ":PORT/").replace(/[\w-]{32}/, "SECRET");
    assert.equal(session?.command, "coil ui");
    assert.equal(shapeOf(session.output), shapeOf(url));
  });

  await t.step(
    "what the server has is data of the cluster, and no credentials",
    async () => {
      const text = await all(url);
      assert.match(text, /"block\/default-0":\{/);
      assert.match(text, /"pod":"web-0"/);
      const config = await Deno.readTextFile(plane.kubeconfig);
      assert.ok(config.includes(plane.adminToken));
      assert.ok(!text.includes(plane.adminToken));
      const shown = await page.evaluate<string>(
        "document.documentElement.outerHTML",
      );
      assert.ok(!shown.includes(plane.adminToken));
    },
  );

  await t.step("problems come first, each with the next command", async () => {
    await untilText(page, [
      /AddressPool public: Ready is False, Exhausted/,
      /coil ipam show blocks --pool=public/,
      /coild on Node node3 is not ready: CrashLoopBackOff/,
    ]);
    await picture(page, "problems");
  });

  await t.step("markup in what the cluster says is text", async () => {
    const markup = '<img src=x onerror="document.title=1"><b>low</b>';
    await setPool(plane, "public", "False", markup);
    await page.until('document.body.innerText.includes("onerror")');
    assert.ok((await page.text()).includes(markup));
    assert.equal(await page.evaluate("document.title"), "Coil");
    assert.equal(await page.evaluate("document.images.length"), 0);
    await setPool(plane, "public", "False", "no block is free");
  });

  await t.step(
    "keys lead to a pool's map and from address to address",
    async () => {
      await page.press("2");
      await page.until('document.querySelector("canvas")?.width > 300');
      await page.press("ArrowRight");
      await page.until(`${DETAILS}.startsWith("10.2.0.0\\n")`);
      assert.match(
        await page.evaluate(DETAILS),
        /Pod shop\/web-0 on Node node1/,
      );
      await page.press("ArrowRight", "ArrowDown");
      await page.until(`${DETAILS}.startsWith("10.2.0.17\\n")`);
      await page.press("PageDown");
      await page.until(`${DETAILS}.startsWith("10.9.0.17\\n")`);
      await page.press("Home", "n");
      await page.until(`${DETAILS}.startsWith("10.2.0.65\\n")`);
      const details = await page.evaluate<string>(DETAILS);
      assert.match(details, /twin-a .* duplicate[^]*twin-b .* duplicate/);
      assert.match(details, /Block default-2 of Node node3, active/);
      await picture(page, "pool");
      await page.press("]");
      await page.until(
        'document.querySelector(".pool.chosen b").innerText === "public"',
      );
      await page.press("[");
    },
  );

  await t.step("a search leads to a pod, as soon as it is there", async () => {
    await page.press("/", ..."late", "Enter", "n");
    await addPod(plane, ["shop", "late", "node2"], ["10.2.0.191"]);
    await eventually("the pod", async () => {
      await page.press("n");
      return (await page.evaluate<string>(DETAILS)).includes("shop/late");
    });
    await plane.kubectl("-n", "shop", "delete", "pod", "late", "--force");
    await page.until(`!${DETAILS}.includes("shop/late")`);
    await page.press("Escape");
  });

  await t.step("nodes, and the way from clients to sources", async () => {
    await page.press("3");
    await page.until(
      'document.body.innerText.includes("not ready: CrashLoopBackOff")',
    );
    await page.press("4");
    await page.until('document.querySelector(".egress")');
    await untilText(page, [
      /nat\/internet/,
      /5 clients[^]*shop\/web-0/,
      /2 gateways[^]*not-ready/,
      /1 source[^]*10\.9\.0\.4/,
    ]);
    await picture(page, "egress");
    const [address, seenAs] = ["10.9.0.4", "192.0.2.12"];
    await patchStatus(
      plane,
      "/apis/coil.cybozu.com/v2/namespaces/nat/egresses/internet",
      {
        gateways: [{
          name: "internet-0",
          translated: [{ address, seenAs, destination: "203.0.113.9" }],
        }],
      },
    );
    await page.until(
      `document.body.innerText.includes("${address}, seen as ${seenAs}")`,
    );
  });

  await t.step("keys count that come before the next picture", async () => {
    await page.evaluate(`(async () => {
      for (const key of ["2", "]"]) {
        dispatchEvent(new KeyboardEvent("keydown", { key }));
        await new Promise(queueMicrotask); // it has been rendered
      }
    })()`);
    await page.until(
      'document.querySelector(".pool.chosen b")?.innerText === "public"',
    );
    await page.press("[", "4");
    await page.until('document.querySelector(".egress")');
  });

  await t.step("it is dark where the system is, and by a key", async () => {
    await using dark = await browser.open(url, { ...VIEW, scheme: "dark" });
    await dark.until('document.querySelector(".problem")');
    const colour = "getComputedStyle(document.body).backgroundColor";
    const [isDark, isLight] = ["rgb(22, 24, 28)", "rgb(255, 255, 255)"];
    assert.equal(await dark.evaluate(colour), isDark);
    await dark.press("2");
    await dark.until('document.querySelector("canvas")?.width > 300');
    await dark.press("End");
    await dark.until(`${DETAILS}.startsWith("10.9.0.31")`);
    await picture(dark, "dark");
    await dark.press("t");
    assert.equal(await dark.evaluate(colour), isLight);
    await dark.press("t");
    assert.equal(await dark.evaluate(colour), isDark);
    assert.deepEqual(dark.troubles, []);
  });

  await t.step(
    "a page of another site learns nothing, also if it knows the URL",
    async () => {
      const site = Deno.serve(
        { port: 0, hostname: "127.0.0.1", onListen: () => {} },
        () =>
          new Response("<p>evil", { headers: { "content-type": "text/html" } }),
      );
      const { port } = site.addr;
      await using evil = await browser.open(`http://127.0.0.1:${port}/`);
      await evil.until('document.querySelector("p")');
      const read = (what: string) =>
        evil.evaluate<string>(`(async () => {
      try { return "read " + await (${what}); } catch (error) { return error.name; }
    })()`);
      assert.equal(
        await read(`fetch("${url}").then((r) => r.text())`),
        "TypeError",
      );
      assert.equal(
        await read(
          `fetch("${url}page.js", { mode: "no-cors" }).then((r) => r.text())`,
        ),
        "TypeError",
      );
      assert.equal(
        await read(`new Promise((done, fail) => {
        const source = new EventSource("${url}events");
        source.onmessage = source.onopen = () => done("events");
        source.onerror = () => fail(new RangeError());
      })`),
        "RangeError",
      );
      await evil.evaluate(`new Promise((done) => {
      const frame = document.createElement("iframe");
      frame.onload = done;
      frame.src = "${url}";
      document.body.append(frame);
    })`);
      await eventually("the browser's refusal", () => {
        const isRefused = evil.troubles
          .some((text) => text.includes("frame-ancestors"));
        assert.ok(isRefused, evil.troubles.join("\n"));
        return true;
      });
      // The site's own name, made to mean 127.0.0.1.
      await evil.go(url.replace("127.0.0.1", "evil.example"));
      await evil.until('document.body?.innerText.includes("not served here")');
      await site.shutdown();
    },
  );

  await t.step(
    "what an account may not watch is named, and the rest is shown",
    async () => {
      // It may list pods, not watch them.
      const viewer = await addViewer(plane, ["coilv2-addresspool-viewer-role"]);
      await using limited = await startUi(viewer);
      await using page = await browser.open(limited.url);
      await page.until('document.querySelector(".notice")');
      await untilText(page, [
        ...["pods", "nodes", "addressblocks", "egresses"].map((what) =>
          new RegExp(`Not looked at: ${what} \\(forbidden\\)`)
        ),
        /AddressPool public: Ready is False/,
      ]);
    },
  );

  await t.step(
    "it says that the API server is away, and that it is back",
    async () => {
      await plane.killApiServer();
      await page.until(`document.querySelector(".stale")?.innerText
      .startsWith("The API server does not answer")`);
      assert.match(await page.text(), /nat\/internet/);
      await plane.startApiServer();
      await page.until('!document.querySelector(".stale")');
    },
  );

  await t.step("the browser finds nothing wrong with the page", () => {
    assert.deepEqual(page.troubles, []);
  });

  await t.step("the program serves the same page, until Ctrl-C", async () => {
    const [command = "", ...args] = coilCommand("ui");
    const child = new Deno.Command(command, {
      args: [...args, `--kubeconfig=${plane.kubeconfig}`],
      stdout: "piped",
    }).spawn();
    const lines = child.stdout.pipeThrough(new TextLineStream()).getReader();
    const { value: its = "" } = await lines.read();
    for (const path of ["", "page.js", "page.css"]) {
      const [same, other] = await Promise.all(
        [url, its].map(async (base) => await (await fetch(base + path)).text()),
      );
      assert.equal(same, other, path);
    }
    child.kill("SIGINT");
    assert.equal((await child.status).signal, "SIGINT");
    await lines.cancel();
  });

  await t.step("a port that is taken is an error", async () => {
    const { port } = new URL(url);
    const { code, err } = await coil([
      "ui",
      `--port=${port}`,
      `--kubeconfig=${plane.kubeconfig}`,
    ]);
    assert.equal(code, 1);
    assert.match(
      err,
      /Cannot listen at "127\.0\.0\.1:\d+" \(--port\): another process/,
    );
  });

  await t.step("it ends at once, and the page says so", async () => {
    const { code, out, err } = await ui.end();
    assert.deepEqual([code, out, err], [0, `${url}\n`, ""]);
    await page.until(`document.querySelector(".stale")?.innerText
      .startsWith("coil ui does not answer")`);
  });
});

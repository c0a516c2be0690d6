// Another program removes coil-router's routes from a node.
import assert from "node:assert/strict";
import { assertSoon, eventually, startCoilPlane } from "../lab/mod.ts";

const HEARING = new URL("./hearing_main.ts", import.meta.url).pathname;

/** Until the routes are back, and counted. */
const MAX_BACK_MS = 10_000;

const LINK_DOWN = "their link is set down and up";

Deno.test("a node's direct routes survive another program that changes its network", async (t) => {
  await using plane = await startCoilPlane({ name: "hostrouter" });
  const node = await plane.addNode(1);
  await using _node = node;
  const other = await plane.addNode(2);
  await using _other = other;
  const [via4 = "", via6 = ""] = other.addresses;
  for (let index = 0; index < 3; index++) {
    await plane.apply({
      apiVersion: "coil.cybozu.com/v2",
      kind: "AddressBlock",
      metadata: {
        name: `p-${index}`,
        labels: {
          "coil.cybozu.com/pool": "p",
          "coil.cybozu.com/node": other.name,
        },
      },
      index,
      ipv4: `10.2.${index}.0/27`,
      ipv6: `fd02:${index + 1}::/123`,
    });
  }
  await using _router = await plane.startProcess({
    node,
    serviceAccount: { namespace: "kube-system", name: "coil-router" },
    command: Deno.execPath(),
    args: [
      ...["run", "--no-check", "-A", HEARING, "coil-router"],
      "--update-interval=1h",
    ],
    env: { COIL_NODE_NAME: node.name },
  });
  const routes = async () => {
    const shown = await Promise.all(
      ["-4", "-6"].map((f) =>
        node.run("ip", f, "route", "show", "proto", "31")
      ),
    );
    return shown.map((text) => text.replaceAll(/ (dev|metric).*$/gm, ""))
      .join("").split("\n").filter((line) => line !== "").sort();
  };
  const wanted = [0, 1, 2].flatMap((i) => [
    `10.2.${i}.0/27 via ${via4}`,
    `fd02:${i + 1}::/123 via ${via6}`,
  ]).sort();
  const whole = async () => {
    assert.deepEqual(await routes(), wanted);
    return true;
  };
  const metric = async (name: string) => {
    const text = await node.run("curl", "-sS", "http://127.0.0.1:9388/metrics");
    return Number(new RegExp(`^${name}\\S* (\\d+)$`, "m").exec(text)?.[1]);
  };
  const repairs = () => metric("coil_router_repairs_total");
  await eventually("the routes", whole);
  // Before it knows that they are there, none is missing.
  await eventually("coil-router to know them", async () => {
    return await metric("coil_router_routes_synced") === wanted.length;
  });

  const attacks: Readonly<Record<string, readonly string[][]>> = {
    "they are flushed": ["-4", "-6"].map((family) => [
      ...["ip", family, "route", "flush", "proto", "31"],
    ]),
    "one leads elsewhere": [
      ["ip", "route", "change", "10.2.1.0/27", "dev", "lo", "proto", "31"],
    ],
    [LINK_DOWN]: [
      ["ip", "link", "set", "eth0", "down"],
      ["ip", "link", "set", "eth0", "up"],
      ["ip", "address", "replace", `${node.addresses[1]}/64`, "dev", "eth0"],
    ],
  };
  for (const [name, commands] of Object.entries(attacks)) {
    await t.step(`${name}: they are back at once`, async () => {
      const before = await repairs();
      for (const [command = "", ...args] of commands) {
        await node.run(command, ...args);
      }
      const ms = await assertSoon(async () => {
        await eventually("the routes", whole);
        // While the link is down the kernel refuses them; what was refused before is no repair.
        if (name === LINK_DOWN) return;
        await eventually("the metric", async () => await repairs() > before);
      }, { what: "the routes", limitMs: MAX_BACK_MS });
      // deno-lint-ignore no-console -- a figure
      console.log(`${name}: ${Math.round(ms)} ms`);
    });
  }
});

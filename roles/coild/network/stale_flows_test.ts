import assert from "node:assert/strict";
import { TaskGroup } from "../../../lib/async/mod.ts";
import { settle, untilPasses, untilQuiet } from "../../../lib/async/testing.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { LinuxError } from "../../../lib/linux/mod.ts";
import type { ConntrackFlow } from "../../../lib/netlink/mod.ts";
import { type Conntrack, StaleFlows } from "./stale_flows.ts";

function flow(from: string, to: string): ConntrackFlow {
  const [originalSource, replySource] = [from, to].map((a) => Address.parse(a));
  return { originalSource, replySource } as unknown as ConntrackFlow;
}

/** A node with three connections. */
class Site {
  flows = [
    flow("10.1.0.1", "10.1.0.9"),
    flow("10.1.0.9", "10.1.0.2"),
    flow("::a01:1", "fd01::9"),
  ];
  /** Dumps so far. */
  readonly looks: string[] = [];
  /** Sockets so far. */
  opened = 0;
  failure: Error | undefined;
  /** Called in the middle of a dump. */
  onLook = () => {};
  readonly held = new Set<string>();
  readonly stale = new StaleFlows({
    isFree: (address) => !this.held.has(address.toString()),
    open: () => this.#open(),
    togetherMs: 1,
  });

  #open(): Conntrack {
    this.opened++;
    if (this.failure !== undefined) throw this.failure;
    return {
      deleteWhere: (match, { end, family } = {}) => {
        // Two for each address of IPv4.
        this.looks.push(end === undefined ? `${family}` : `${end.address}`);
        this.onLook();
        this.flows = this.flows.filter((flow) => !match(flow));
        return Promise.resolve(0);
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }

  freed(...addresses: string[]): void {
    this.stale.freed(addresses.map((address) => Address.parse(address)));
  }

  get sources(): string[] {
    return this.flows.map(({ originalSource }) => `${originalSource}`);
  }
}

Deno.test("StaleFlows looks once for all that came together, and not without any", async () => {
  const site = new Site();
  await using group = new TaskGroup();
  group.run("flows", (signal) => site.stale.run(signal));
  await settle();
  site.freed();
  await settle();
  assert.deepEqual(site.looks, []);
  site.freed("10.1.0.1");
  site.freed("10.1.0.2");
  await untilPasses(() => assert.deepEqual(site.sources, ["::a01:1"]));
  const [a, b] = ["10.1.0.1", "10.1.0.2"];
  assert.deepEqual(site.looks.splice(0), [a, a, b, b]);
  site.freed("fd01::9");
  await untilPasses(() => assert.deepEqual(site.looks, ["ipv6"]));
  await untilQuiet(() => site.opened, 20);
  assert.equal(site.opened, 2);
  assert.deepEqual(site.sources, []);
});

Deno.test("StaleFlows looks at all connections once for many addresses", async () => {
  const site = new Site();
  const many = Array.from({ length: 5 }, (_, n) => `10.1.0.${n}`);
  site.freed(...many.slice(1));
  await site.stale.forget();
  assert.equal(site.looks.splice(0).length, 8);
  site.freed(...many, "fd01::1", "fd01::2");
  await site.stale.forget();
  assert.deepEqual(site.looks, ["ipv4", "ipv6"]);
});

Deno.test("StaleFlows keeps connections of the other family, and of addresses that pods have again", async () => {
  const site = new Site();
  // "::a01:1" has the number of 10.1.0.1.
  site.freed("10.1.0.1", "10.1.0.2");
  site.onLook = () => site.held.add("10.1.0.2");
  await site.stale.forget();
  assert.deepEqual(site.sources, ["10.1.0.9", "::a01:1"]);
});

Deno.test("StaleFlows keeps in mind what it could not forget, and what comes while it looks", async () => {
  const site = new Site();
  site.failure = new LinuxError("open a socket", {
    syscall: "socket",
    errno: 24,
  });
  site.freed("10.1.0.1");
  await site.stale.forget();
  assert.equal(site.flows.length, 3);
  site.failure = undefined;
  site.onLook = () => site.freed("fd01::9");
  await site.stale.forget();
  assert.deepEqual(site.sources, ["10.1.0.9", "::a01:1"]);
  await site.stale.forget();
  assert.deepEqual(site.sources, ["10.1.0.9"]);
  site.failure = new TypeError("of ours");
  await assert.rejects(site.stale.forget(), TypeError);
});

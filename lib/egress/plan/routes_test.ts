import assert from "node:assert/strict";
import { Address, Prefix } from "../../inet/mod.ts";
import type { Request, Route, Rule } from "../../netlink/mod.ts";
import { planClient } from "./plan.ts";
import { diffRoutes, diffRules, kernelRoutes, refusals } from "./routes.ts";
import { planRules } from "./rules.ts";
import { gatewayFor, requestFor } from "../testing.ts";

const PLAN = planClient(
  requestFor([gatewayFor("a/a", ["203.0.113.0/24", "::/0"])]),
);
const INDEXES = new Map(PLAN.tunnels.map(({ name }, i) => [name, 7 + i]));
const ROUTES = kernelRoutes(PLAN.routes, INDEXES);

/** As the kernel lists what it was given. */
function listed(route: Route): Route {
  if (route.family === "ipv4") return route;
  return {
    ...route,
    metric: route.metric ?? 1024,
    index: route.type === "unicast" ? route.index : 1,
  };
}

function texts(requests: readonly Request[]): string[] {
  return requests.map((request) => request.describe());
}

Deno.test("diffRoutes() finds nothing to do where all is there", () => {
  const { put, remove } = diffRoutes(ROUTES, ROUTES.map(listed));
  assert.deepEqual(texts(put), []);
  assert.deepEqual(texts(remove), []);
});

Deno.test("diffRoutes() makes everything where nothing is", () => {
  const { put, remove } = diffRoutes(ROUTES, []);
  assert.equal(put.length, ROUTES.length);
  assert.deepEqual(texts(remove), []);
});

Deno.test("diffRoutes() replaces a route to another link, and deletes none for it", () => {
  const old = ROUTES.map(listed).map((route) =>
    route.type === "unicast" ? { ...route, index: 99 } : route
  );
  const { put, remove } = diffRoutes(ROUTES, old);
  assert.deepEqual(texts(put), [
    'replace route "203.0.113.0/24" to table 118',
    'replace route "default" to table 118',
  ]);
  assert.deepEqual(texts(remove), []);
});

Deno.test("diffRoutes() deletes what nobody wants, no matter who made it", () => {
  const foreign: Route = {
    family: "ipv4",
    destination: Prefix.parse("198.51.100.0/24"),
    table: 117,
    protocol: 4,
    scope: "link",
    index: 3,
    type: "unicast",
  };
  const { put, remove } = diffRoutes([], [...ROUTES.map(listed), foreign]);
  assert.deepEqual(texts(put), []);
  assert.equal(remove.length, ROUTES.length + 1);
});

Deno.test("diffRoutes() tells the route that refuses from the one into the tunnel", () => {
  const refusing = ROUTES.filter(({ type }) => type === "unreachable");
  const { put, remove } = diffRoutes(refusing, ROUTES.map(listed));
  assert.deepEqual(texts(put), []);
  assert.equal(remove.length, 2);
});

Deno.test("diffRoutes() sees each difference that counts", () => {
  const [route] = ROUTES;
  assert.ok(route !== undefined && route.type === "unicast");
  const differences: readonly Partial<Route>[] = [
    { index: 8 },
    { protocol: 4 },
    { scope: "link" },
    { source: Address.parse("10.1.2.4") },
    { source: undefined },
    { gateway: Address.parse("10.1.2.1") },
    { onLink: true },
    { type: "throw" },
  ];
  for (const difference of differences) {
    const { put } = diffRoutes([route], [{ ...route, ...difference }]);
    assert.equal(put.length, 1, JSON.stringify(difference));
  }
});

Deno.test("kernelRoutes() refuses a route to a link that is not there", () => {
  assert.throws(() => kernelRoutes(PLAN.routes, new Map()), TypeError);
});

Deno.test("refusals() needs no links", () => {
  assert.deepEqual(texts(refusals(PLAN.routes)), [
    'replace route "203.0.113.0/24" to table 118',
    'replace route "default" to table 118',
  ]);
  const { destination, table } = PLAN.routes[0] ?? {};
  assert.ok(destination !== undefined && table !== undefined);
  // By its own link where there is one.
  const reject = { destination, table, kind: "reject" } as const;
  assert.equal(refusals([reject]).length, 1);
});

const RULES = planRules("ipv4", [Prefix.parse("10.0.0.0/8")]);

Deno.test("diffRules() finds nothing to do where all is there, no matter who made it", () => {
  const present = RULES.map((rule): Rule => ({ ...rule, protocol: 2 }));
  const { put, remove } = diffRules(RULES, present);
  assert.deepEqual([...texts(put), ...texts(remove)], []);
});

Deno.test("diffRules() adds a rule also when the kernel takes another for the same", () => {
  const NLM_F_EXCL = 0x200;
  const { put } = diffRules(RULES, []);
  assert.equal(put.length, RULES.length);
  for (const { flags } of put) assert.equal(flags & NLM_F_EXCL, 0);
});

Deno.test("diffRules() deletes what is there twice, or for another network", () => {
  const other: Rule = {
    family: "ipv4",
    priority: 2001,
    destination: Prefix.parse("172.16.0.0/12"),
    table: 254,
  };
  const { put, remove } = diffRules(RULES, [
    ...RULES,
    ...RULES.slice(0, 1),
    other,
  ]);
  assert.deepEqual(texts(put), []);
  assert.deepEqual(texts(remove), [
    'delete ipv4 rule "1800: from all to 169.254.0.0/16 lookup main"',
    'delete ipv4 rule "2001: from all to 172.16.0.0/12 lookup main"',
  ]);
});

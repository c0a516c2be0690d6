import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, Prefix } from "../inet/mod.ts";
import type { Route } from "../netlink/mod.ts";
import type { WantedRoute } from "./apply.ts";
import { RouteSieve } from "./diff.ts";

const OURS = 31;

function wanted(text: string): WantedRoute {
  const [destination = "", gateway] = text.split(" via ");
  return {
    destination: Prefix.parse(destination),
    ...(gateway === undefined ? {} : { gateway: Address.parse(gateway) }),
  };
}

function present(text: string, protocol: number = OURS): Route {
  const { destination, gateway } = wanted(text);
  return {
    family: destination.family,
    destination: destination.length === 0 ? undefined : destination,
    table: 254,
    protocol,
    scope: "global",
    type: "unicast",
    ...(gateway === undefined ? {} : { gateway }),
  };
}

/** As the kernel lists routes into a sieve; the first of two gateways counts. */
function diffRoutes(
  routes: readonly WantedRoute[],
  listed: readonly Route[],
  options: { readonly protocol: number; readonly isOwnTable?: boolean },
) {
  const byKey = new Map<string, WantedRoute>();
  for (const route of routes) {
    const key = `${route.destination}`;
    if (!byKey.has(key)) byKey.set(key, route);
  }
  const gateways = [...byKey].map(([key, { gateway }]) =>
    [key, gateway] as const
  );
  const sieve = new RouteSieve(new Map(gateways), options);
  const { add, move, ...rest } = sieve.diff(listed.filter(sieve.keep));
  const routesTo = (keys: readonly string[]) =>
    keys.flatMap((key) => byKey.get(key) ?? []);
  return { add: routesTo(add), move: routesTo(move), ...rest };
}

function show(diff: ReturnType<typeof diffRoutes>): Record<string, string[]> {
  return Object.fromEntries(
    Object.entries(diff).map(([name, routes]) => [
      name,
      routes.map((route: WantedRoute | Route) =>
        `${route.destination} via ${route.gateway}`
      ),
    ]).filter(([, routes]) => (routes?.length ?? 0) > 0),
  );
}

const CASES: readonly {
  readonly name: string;
  readonly wanted: readonly string[];
  readonly present: readonly Route[];
  readonly diff: Record<string, string[]>;
}[] = [
  {
    name: "adds what is missing, in both families",
    wanted: ["10.0.0.0/27 via 10.9.0.1", "fd01::/123 via fd09::1"],
    present: [],
    diff: {
      add: ["10.0.0.0/27 via 10.9.0.1", "fd01::/123 via fd09::1"],
    },
  },
  {
    name: "does nothing when all is there",
    wanted: ["10.0.0.0/27 via 10.9.0.1"],
    present: [present("10.0.0.0/27 via 10.9.0.1")],
    diff: {},
  },
  {
    name: "moves a block to another gateway without removing it",
    wanted: ["10.0.0.0/27 via 10.9.0.2"],
    present: [present("10.0.0.0/27 via 10.9.0.1")],
    diff: { move: ["10.0.0.0/27 via 10.9.0.2"] },
  },
  {
    name: "removes ours that nobody wants and leaves the others'",
    wanted: [],
    present: [
      present("10.0.0.0/27 via 10.9.0.1"),
      present("10.0.1.0/27 via 10.9.0.1", 2),
    ],
    diff: {
      remove: ["10.0.0.0/27 via 10.9.0.1"],
      foreign: ["10.0.1.0/27 via 10.9.0.1"],
    },
  },
  {
    name: "keeps its hands off a destination that has a foreign route",
    wanted: ["10.0.0.0/27 via 10.9.0.1"],
    present: [present("10.0.0.0/27 via 10.9.0.7", 2)],
    diff: { foreign: ["10.0.0.0/27 via 10.9.0.7"] },
  },
  {
    name:
      "removes ours beside a foreign route to the same destination only if it is wrong",
    wanted: ["10.0.0.0/27 via 10.9.0.1"],
    present: [
      present("10.0.0.0/27 via 10.9.0.7", 2),
      present("10.0.0.0/27 via 10.9.0.8"),
    ],
    diff: {
      remove: ["10.0.0.0/27 via 10.9.0.8"],
      foreign: ["10.0.0.0/27 via 10.9.0.7"],
    },
  },
  {
    name: "removes the wrong one of two of ours",
    wanted: ["10.0.0.0/27 via 10.9.0.1"],
    present: [
      present("10.0.0.0/27 via 10.9.0.2"),
      present("10.0.0.0/27 via 10.9.0.1"),
    ],
    diff: { remove: ["10.0.0.0/27 via 10.9.0.2"] },
  },
  {
    // fib6_dump_table() of the kernel starts over when the table changes, and may show a route again.
    name: "does not remove a route because the list has it twice",
    wanted: ["fd01::/123 via fd09::1"],
    present: [
      present("fd01::/123 via fd09::1"),
      present("fd01::/123 via fd09::1"),
      present("fd02::/123 via fd09::1"),
      present("fd02::/123 via fd09::1"),
    ],
    diff: { remove: ["fd02::/123 via fd09::1"] },
  },
  {
    name: "ignores default routes, whosesoever",
    wanted: [],
    present: [
      present("0.0.0.0/0 via 10.9.0.1"),
      present("::/0 via fd09::1", 3),
    ],
    diff: {},
  },
  {
    name: "removes a second one of ours to the same gateway, of another metric",
    wanted: ["fd01::/123 via fd09::1"],
    present: [
      { ...present("fd01::/123 via fd09::1"), metric: 1024 },
      { ...present("fd01::/123 via fd09::1"), metric: 1024 },
      { ...present("fd01::/123 via fd09::1"), metric: 7 },
    ],
    diff: { remove: ["fd01::/123 via fd09::1"] },
  },
];

for (const { name, wanted: texts, present: routes, diff } of CASES) {
  Deno.test(`RouteSieve ${name}`, () => {
    const result = diffRoutes(texts.map(wanted), routes, { protocol: OURS });
    assert.deepEqual(show(result), diff);
  });
}

Deno.test("RouteSieve takes IPv6 routes of protocol boot for its own in its own table alone", () => {
  const routes = [present("10.0.0.0/27", 3), present("fd02::/64", 3)];
  const own = diffRoutes([], routes, { protocol: 0, isOwnTable: true });
  assert.deepEqual(own.remove, routes.slice(1));
  assert.deepEqual(own.foreign, routes.slice(0, 1));
  assert.deepEqual(diffRoutes([], routes, { protocol: 0 }).foreign, routes);
});

Deno.test("RouteSieve leads to exactly the wanted routes from any others", () => {
  const route = fc.tuple(fc.nat(7), fc.nat(3))
    .map(([net, gateway]) => `10.0.${net}.0/24 via 10.9.0.${gateway}`);
  const owned = fc.tuple(route, fc.constantFrom(2, OURS))
    .map(([text, protocol]) => present(text, protocol));
  fc.assert(
    fc.property(fc.array(route), fc.array(owned), (texts, before) => {
      const routes = texts.map(wanted);
      const diff = diffRoutes(routes, before, { protocol: OURS });
      const moved = new Set(diff.move.map((r) => String(r.destination)));
      const textOf = (r: Route) => `${r.destination} via ${r.gateway}`;
      // The kernel removes by what a route says, not by where in a list it was.
      const removed = new Set(diff.remove.map(textOf));
      const after = [
        ...before.filter((r) =>
          !(r.protocol === OURS && removed.has(textOf(r))) &&
          !(r.protocol === OURS && moved.has(String(r.destination)))
        ),
        ...diff.add.map((r) => present(`${r.destination} via ${r.gateway}`)),
        ...diff.move.map((r) => present(`${r.destination} via ${r.gateway}`)),
      ];
      const again = diffRoutes(routes, after, { protocol: OURS });
      assert.deepEqual([again.add, again.move, again.remove], [[], [], []]);
      const twice = diffRoutes(routes, [...before, ...before], {
        protocol: OURS,
      });
      assert.deepEqual(twice, diff, "the kernel began the list again");
      const foreign = (list: readonly Route[]) =>
        list.filter((r) => r.protocol !== OURS);
      assert.deepEqual(foreign(after), foreign(before));
    }),
  );
});

Deno.test("RouteSieve keeps none of the routes that are right", () => {
  const text = "10.0.0.0/27 via 10.9.0.1";
  const gateways = new Map([["10.0.0.0/27", Address.parse("10.9.0.1")]]);
  const sieve = new RouteSieve(gateways, { protocol: OURS });
  assert.equal(sieve.keep(present(text)), false);
  assert.equal(sieve.keep(present("10.0.1.0/27 via 10.9.0.1")), true);
});

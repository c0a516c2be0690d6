import assert from "node:assert/strict";
import { Address, type DualStack, mapDualStack } from "../../lib/inet/mod.ts";
import fc from "fast-check";
import { RouteBook, type RoutedBlock } from "./route_book.ts";

const NODES = new Map<string, DualStack<Address>>(
  Object.entries({
    self: { ipv4: "192.168.0.1", ipv6: "fd10::1" },
    v6: { ipv6: "fd10::2" },
    v4: { ipv4: "192.168.0.3" },
    dual: { ipv4: "192.168.0.4", ipv6: "fd10::4" },
  }).map(([name, texts]) => [name, mapDualStack(texts, Address.parse)]),
);

function block(
  name: string,
  node: string,
  prefixes: DualStack<string>,
): RoutedBlock {
  return { name, node, ...prefixes };
}

function text(book: RouteBook): string[] {
  const { gateways, conflicting } = book.routes();
  return [
    ...[...gateways].map(([key, gateway]) => `${key} via ${gateway}`),
    ...conflicting.map((r) => `${r.destination} via ${r.gateway}, too`),
  ].sort();
}

function bookOf(
  blocks: readonly RoutedBlock[],
  nodes: ReadonlyMap<string, DualStack<Address>> = NODES,
): RouteBook {
  const book = new RouteBook("self");
  for (const [name, addresses] of nodes) book.setNode(name, addresses);
  for (const one of blocks) book.setBlock(one);
  return book;
}

const BLOCKS = [
  block("p-0", "self", { ipv4: "10.2.0.0/27", ipv6: "fd02::/123" }),
  block("p-1", "missing", { ipv4: "10.2.1.0/27", ipv6: "fd02::100/123" }),
  block("p-2", "v6", { ipv4: "10.2.2.0/27", ipv6: "fd02::200/123" }),
  block("p-3", "v4", { ipv4: "10.2.3.0/27", ipv6: "fd02::300/123" }),
  block("p-4", "dual", { ipv4: "10.2.4.0/27", ipv6: "fd02::400/123" }),
];

const ROUTES = [
  "fd02::200/123 via fd10::2",
  "10.2.3.0/27 via 192.168.0.3",
  "10.2.4.0/27 via 192.168.0.4",
  "fd02::400/123 via fd10::4",
];

Deno.test("SV-15: RouteBook skips the own and unknown nodes, and families a node lacks", () => {
  const book = bookOf(BLOCKS);
  assert.deepEqual(text(book), ROUTES.toSorted());
  assert.deepEqual(book.withoutAddress, ["v4", "v6"]);
});

Deno.test("SV-16: RouteBook adds single-stack blocks of a dual-stack node", () => {
  const book = bookOf([
    ...BLOCKS,
    block("q-0", "dual", { ipv4: "10.3.0.0/27" }),
    block("r-0", "dual", { ipv6: "fd03::/123" }),
  ]);
  assert.deepEqual(
    text(book),
    [
      ...ROUTES,
      "10.3.0.0/27 via 192.168.0.4",
      "fd03::/123 via fd10::4",
    ].sort(),
  );
});

Deno.test("RouteBook names the destinations of what changed, and no others", () => {
  const book = bookOf(BLOCKS);
  assert.equal(book.takeChanged().length, 4);
  assert.deepEqual(book.takeChanged(), []);
  const moved = block("p-3", "dual", { ipv4: "10.2.3.0/27" });
  book.setBlock(moved, { before: BLOCKS[3] });
  assert.deepEqual(book.takeChanged(), ["10.2.3.0/27"]);
  assert.equal(`${book.claimsOn("10.2.3.0/27")[0]?.gateway}`, "192.168.0.4");
  book.setNode("dual", {
    ...NODES.get("dual"),
    ipv4: Address.parse("192.168.0.9"),
  });
  assert.deepEqual(book.takeChanged().sort(), [
    "10.2.3.0/27",
    "10.2.4.0/27",
    "fd02::400/123",
  ]);
  book.setNode("dual", NODES.get("dual"));
  book.takeChanged();
  book.setNode("dual", NODES.get("dual"));
  assert.deepEqual(book.takeChanged(), [], "a heartbeat changes nothing");
  book.setBlock(undefined, { before: moved });
  assert.deepEqual(book.claimsOn("10.2.3.0/27"), []);
});

Deno.test("RouteBook holds the same routes, in any order of the changes", () => {
  const node = fc.constantFrom(...NODES.keys());
  const step = fc.oneof(
    fc.record({
      node,
      addresses: fc.option(fc.constantFrom(...NODES.values()), {
        nil: undefined,
      }),
    }),
    fc.record({
      block: fc.constantFrom("p-0", "p-1", "p-2", "p-3"),
      on: fc.option(node, { nil: undefined }),
      // Fewer prefixes than blocks: they overlap.
      net: fc.nat(1),
    }),
  );
  fc.assert(fc.property(fc.array(step), (steps) => {
    const nodes = new Map<string, DualStack<Address>>();
    const blocks = new Map<string, RoutedBlock>();
    const book = new RouteBook("self");
    const applied = new Map<string, string>();
    for (const one of steps) {
      if ("node" in one) {
        book.setNode(one.node, one.addresses);
        if (one.addresses === undefined) nodes.delete(one.node);
        else nodes.set(one.node, one.addresses);
      } else {
        const { block: name, on, net } = one;
        const now = on === undefined ? undefined : block(name, on, {
          ipv4: `10.2.${net}.0/27`,
          ipv6: `fd02::${net}00/123`,
        });
        book.setBlock(now, { before: blocks.get(name) });
        if (now === undefined) blocks.delete(name);
        else blocks.set(name, now);
      }
      for (const key of book.takeChanged()) {
        const [route] = book.claimsOn(key);
        if (route === undefined) applied.delete(key);
        else applied.set(key, `${route.destination} via ${route.gateway}`);
      }
    }
    const fresh = bookOf([...blocks.values()], nodes);
    assert.deepEqual(text(book), text(fresh));
    assert.deepEqual(book.withoutAddress, fresh.withoutAddress);
    const { gateways } = fresh.routes();
    assert.deepEqual([...applied.keys()].sort(), [...gateways.keys()].sort());
    for (const [key, route] of applied) {
      const [wanted] = fresh.claimsOn(key);
      assert.equal(route, `${wanted?.destination} via ${wanted?.gateway}`);
    }
  }));
});

Deno.test("RouteBook takes the block whose name is first, and reports another gateway", () => {
  const net = { ipv4: "10.2.0.0/27" };
  const first = block("p-0", "dual", net);
  const last = block("r-0", "dual", net);
  const book = bookOf([block("q-0", "v4", net), first, last]);
  assert.deepEqual(text(book), [
    "10.2.0.0/27 via 192.168.0.3, too",
    "10.2.0.0/27 via 192.168.0.4",
  ]);
  for (const before of [first, last]) book.setBlock(undefined, { before });
  assert.deepEqual(text(book), ["10.2.0.0/27 via 192.168.0.3"]);
});

Deno.test("RouteBook needs Nodes while a block does not say its node's addresses", () => {
  const bare = block("p-1", "v4", { ipv4: "10.2.1.0/27" });
  const gateways = NODES.get("v4");
  const full = { ...bare, gateways };
  const book = bookOf([full]);
  assert.equal(book.needsNodes, false);
  book.setBlock(bare, { before: full });
  assert.equal(book.needsNodes, true);
  book.setBlock(full, { before: bare });
  assert.equal(book.needsNodes, false);
});

Deno.test("RouteBook believes the addresses that a block says itself, Node or none", () => {
  const gateways = mapDualStack({ ipv4: "192.168.0.9" }, Address.parse);
  const own = block("p-9", "self", { ipv4: "10.2.9.0/27" });
  const bare = block("p-4", "dual", { ipv4: "10.2.4.0/27" });
  const book = bookOf([
    { ...block("p-1", "missing", { ipv4: "10.2.1.0/27" }), gateways },
    { ...bare, gateways },
    { ...own, gateways },
  ]);
  assert.deepEqual(text(book), [
    "10.2.1.0/27 via 192.168.0.9",
    "10.2.4.0/27 via 192.168.0.9",
  ]);
  book.takeChanged();
  book.setNode("dual", undefined);
  assert.equal(text(book).length, 2, "its Node is gone");
  book.setBlock(bare, { before: { ...bare, gateways } });
  assert.deepEqual(book.takeChanged(), ["10.2.4.0/27"]);
  assert.equal(text(book).length, 1);
});

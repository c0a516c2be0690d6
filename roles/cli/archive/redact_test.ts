import assert from "node:assert/strict";
import fc from "fast-check";
import { Address, Prefix } from "../../../lib/inet/mod.ts";
import { Redactor } from "./redact.ts";

function redactor(...names: readonly string[]): Redactor {
  const made = new Redactor();
  for (const name of names) made.learn(name);
  return made;
}

Deno.test("a name is replaced by the same other one everywhere, and what is not a name is kept", () => {
  const redact = redactor("shop", "node1.example.com", "web", "10", "10.0.0.1");
  assert.equal(
    redact.text(
      'Pod shop/web of shop waits on node1.example.com. See webs, "web" and web.shop.svc: 10 of 12:34:56',
    ),
    'Pod name-1/name-3 of name-1 waits on name-2. See webs, "name-3" and name-3.name-1.svc: 10 of 12:34:56',
  );
  assert.equal(
    redact.text("nodes/node1.example.com/shop/web.log COIL:shop:web"),
    "nodes/name-2/name-1/name-3.log COIL:name-1:name-3",
  );
});

Deno.test("names of every cluster are kept, and a block is still seen to be of its pool", () => {
  const redact = redactor("default", "kube-system", "coild", "fast", "fast-7");
  redact.learn("default-3");
  assert.equal(
    redact.text("kube-system coild default-3 of default, fast-7 of fast"),
    "kube-system coild default-3 of default, name-1-7 of name-1",
  );
});

const PLACES: readonly ((address: string) => string)[] = [
  (address) => address,
  (address) => `via ${address} dev eth0`,
  (address) => `peer:${address}`,
  (address) => `dial ${address}: refused.`,
  (address) => `"${address}",`,
  (address) => `at [${address}]:9384`,
  (address) => `src=${address}.`,
  (address) => `eth0-${address}`,
];

for (const address of ["10.1.2.3", "fd00:12::a:3", "2001:db8:1:2:3:4:5:6"]) {
  for (const place of PLACES.slice(0, address.includes(":") ? -1 : undefined)) {
    const text = place(address);
    Deno.test(`the address in "${text}" is replaced`, () => {
      const redact = redactor();
      // One of 2 ** 32 is replaced by itself.
      const other = redact.text(address);
      assert.notEqual(other, address);
      assert.ok(Address.tryParse(other), other);
      assert.equal(redact.text(text), place(other));
    });
  }
}

Deno.test("addresses have as long a prefix in common as before", () => {
  const address = fc.oneof(
    fc.nat(0xffffff).map((n) => Address.of("ipv4", 0x0a000000n + BigInt(n))),
    fc.nat(0xffffff).map((n) =>
      Address.of("ipv6", (0xfd00n << 112n) + BigInt(n))
    ),
  );
  fc.assert(
    fc.property(address, address, fc.nat(32), (a, b, length) => {
      fc.pre(a.family === b.family);
      const redact = redactor();
      const [x, y] = [a, b].map((each) => redact.text(`${each}`));
      const host = BigInt(a.bits - length);
      const network = Prefix.of(
        Address.of(a.family, a.value >> host << host),
        length,
      );
      const other = Prefix.parse(redact.text(`${network}`));
      assert.equal(other.length, length);
      assert.ok(other.contains(Address.parse(x ?? "")));
      assert.equal(
        other.contains(Address.parse(y ?? "")),
        network.contains(b),
      );
    }),
  );
});

Deno.test("knowing one address does not give away those of other networks", () => {
  const redact = redactor();
  const changes = Array.from({ length: 20 }, (_, i) => {
    const address = Address.parse(`${i + 1}.1.1.1`);
    const other = Address.parse(redact.text(`${address}`));
    return (address.value ^ other.value) & 0xffffffn;
  });
  assert.ok(new Set(changes).size > 10);
});

Deno.test("addresses that every machine has are kept, and a MAC address is replaced", () => {
  const kept =
    "0.0.0.0/0 127.0.0.1 ::/0 ::1 169.254.1.1 224.0.0.1 lo 00:00:00:00:00:00";
  const redact = redactor();
  assert.equal(redact.text(kept), kept);
  assert.match(redact.text("fe80::1:2"), /^fe80::[0-9a-f:]+$/);
  assert.notEqual(redact.text("fe80::1:2"), "fe80::1:2");
  const mac = "lladdr 52:54:00:12:34:56 x 52:54:00:12:34:57";
  assert.equal(
    redact.text(mac),
    "lladdr 02:00:00:00:00:01 x 02:00:00:00:00:02",
  );
});

Deno.test("a pod that is gone is not named by the name of what made it", () => {
  const redact = redactor("web", "web-shop");
  assert.equal(
    redact.text("web-5b4f-x2x web-shop-0.web webs-1 coild-x7"),
    "name-1-5b4f-x2x name-2-0.name-1 webs-1 coild-x7",
  );
});

Deno.test("json() replaces values, keeps fields, and drops labels of others", () => {
  const redact = redactor();
  assert.deepEqual(
    redact.json({
      kind: "Pod",
      metadata: {
        name: "status",
        namespace: "shop",
        labels: { "app.kubernetes.io/name": "coil", team: "secret-plans" },
        annotations: { "acme.example/owner": "jane" },
      },
      spec: {
        nodeName: "n1",
        containers: [{ name: "coild", image: "registry.acme.example/coil:1" }],
      },
      status: { reason: "n1 of shop", count: 3, ready: true },
    }),
    {
      kind: "Pod",
      metadata: {
        name: "name-1",
        namespace: "name-2",
        labels: { "app.kubernetes.io/name": "coil" },
        annotations: {},
      },
      spec: {
        nodeName: "name-3",
        containers: [{ name: "coild", image: "coil:1" }],
      },
      status: { reason: "name-3 of name-2", count: 3, ready: true },
    },
  );
});

Deno.test("file() learns a log's names before it replaces any, and leaves what is no JSON", () => {
  const redact = redactor();
  const log = [
    'cannot reach gone/x {"half',
    '{"message":"Deleted gone","namespace":"gone","ipv4":"127.0.0.1"}',
    "",
  ];
  assert.equal(
    redact.file("a/coild.log", log.join("\n")),
    [
      'cannot reach name-1/x {"half',
      '{"message":"Deleted name-1","namespace":"name-1","ipv4":"127.0.0.1"}',
      "",
    ].join("\n"),
  );
});

Deno.test("file() reads objects line by line, names of blocks included", () => {
  const redact = redactor();
  const text =
    `[\n{"metadata":{"name":"fast","uid":"1"}},\n{"blocks":{"fast-2":[]}}\n]\n`;
  assert.equal(
    redact.file("objects/x.json", text),
    `[\n{"metadata":{"name":"name-1","uid":"1"}},\n{"blocks":{"name-1-2":[]}}\n]\n`,
  );
});

Deno.test("file() replaces only label values of metrics", () => {
  const redact = redactor("pool", "fast");
  assert.equal(
    redact.file("x/metrics.txt", 'free{pool="fast",x="a\\"fast"} 12\n'),
    'free{pool="name-2",x="a\\"name-2"} 12\n',
  );
});

Deno.test("IDs of an EC2 instance and of its subnet are replaced", () => {
  const redact = new Redactor();
  const json = redact.json({
    status: {
      instance: "i-0abc",
      enis: [{ subnet: "subnet-0abc" }],
      conditions: [{ message: "subnet subnet-0abc had no free address" }],
    },
  });
  const text = JSON.stringify(json);
  assert.doesNotMatch(text, /0abc/);
  assert.match(text, /"subnet name-\d had no free address"/);
});

Deno.test("file() replaces Services and endpoints in the names of kube-proxy's chains", () => {
  const redact = redactor("shop", "till");
  const names = [
    "service-ULMVA6XW-shop/till/tcp/p80",
    "endpoint-5OJB2KTY-shop/till/tcp/p80__10.180.0.1/80",
    "endpoint-5OJB2KTY-shop/till/tcp/p80__fd77..a/80",
  ];
  const text = names.map((name) => `  chain ${name}\n`).join("");
  const redacted = redact.file("x/nft_tables.txt", text);
  // What replaces an address is random: any group of 16 bits alone may come back.
  assert.doesNotMatch(redacted, /shop|till|10\.180\.0\.1|fd77(\.\.|::)a/);
  assert.match(
    redacted,
    /^ {2}chain service-ULMVA6XW-name-1\/name-2\/tcp\/p80\n {2}chain endpoint-5OJB2KTY-name-1\/name-2\/tcp\/p80__\d+\.\d+\.\d+\.\d+\/80\n {2}chain endpoint-5OJB2KTY-name-1\/name-2\/tcp\/p80__[0-9a-f:]+\/80\n$/,
  );
});

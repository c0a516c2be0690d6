import assert from "node:assert/strict";
import { Address } from "../../../lib/inet/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { FormerHolders } from "./former_holders.ts";

const HOUR_MS = 3_600_000;
const A = Address.parse("10.2.0.9");
const B = Address.parse("10.2.0.90");

/** Notes of one node, in a directory of its own, at a time of its own. */
class Site implements Disposable {
  readonly directory = Deno.makeTempDirSync();
  readonly path = `${this.directory}/coild.sock.former`;
  now = new Date("2026-01-01T00:00:00Z");

  open(path = this.path): FormerHolders {
    return new FormerHolders({ path, now: () => this.now });
  }

  pass(ms: number): void {
    this.now = new Date(this.now.getTime() + ms);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

function attachment(containerId: string, ipv4: Address = A) {
  const ipv6 = Address.parse(`fd02::${containerId}`);
  return { containerId, ifname: "eth0", addresses: { ipv4, ipv6 } };
}

async function namesOf(holders: FormerHolders, of = A): Promise<string[]> {
  return (await holders.of(of)).map(({ pod, containerId }) =>
    pod ?? containerId
  );
}

Deno.test("FormerHolders has the last one first, by each of its addresses, with its pod if that is known", async () => {
  using site = new Site();
  const holders = site.open();
  assert.deepEqual(await holders.of(A), []);
  holders.note(attachment("1"), { namespace: "apps", name: "web" });
  site.pass(1_000);
  holders.note(attachment("2"));
  holders.note(attachment("3", B));
  const first = {
    addresses: ["10.2.0.9", "fd02::1"],
    containerId: "1",
    ifname: "eth0",
    namespace: "apps",
    pod: "web",
    until: "2026-01-01T00:00:00.000Z",
  };
  assert.deepEqual(await holders.of(Address.parse("fd02::1")), [first]);
  assert.deepEqual(await namesOf(holders), ["2", "web"]);
  assert.deepEqual(await namesOf(holders, B), ["3"]);
  const { mode } = await Deno.stat(site.path);
  assert.equal((mode ?? 0) & 0o777, 0o600);
});

Deno.test("FormerHolders remembers over a restart, and for a day", async () => {
  using site = new Site();
  site.open().note(attachment("1"));
  site.pass(23 * HOUR_MS);
  site.open().note(attachment("2"));
  assert.deepEqual(await namesOf(site.open()), ["2", "1"]);
  site.pass(2 * HOUR_MS);
  assert.deepEqual(await namesOf(site.open()), ["2"]);
});

Deno.test("FormerHolders keeps a bounded number of them, the last ones", async () => {
  using site = new Site();
  const holders = site.open();
  const long = "x".repeat(64 * 1024);
  for (let n = 0; n < 40; n++) {
    holders.note(attachment(`${n}`), {
      namespace: "apps",
      name: `${n}${long}`,
    });
  }
  const sizes: number[] = [];
  for await (const { name } of Deno.readDir(site.directory)) {
    sizes.push((await Deno.stat(`${site.directory}/${name}`)).size);
  }
  assert.equal(sizes.length, 2);
  assert.ok(Math.max(...sizes) < 1.1 * 1024 * 1024, `${sizes}`);
  const kept = (await namesOf(holders)).map((name) => name.replace(/x+/, ""));
  assert.ok(kept.length >= 16, `${kept.length}`);
  assert.deepEqual(kept, kept.map((_, i) => `${39 - i}`));
});

Deno.test("FormerHolders passes over lines that are cut or of another program", async () => {
  using site = new Site();
  const holders = site.open();
  holders.note(attachment("1"));
  const bad = ['["10.2.0.9"]', '"10.2.0.9"', 'null "10.2.0.9"', '{"addr'];
  await Deno.writeTextFile(site.path, bad.join("\n"), { append: true });
  // What follows a line that was cut is lost with it.
  holders.note(attachment("2"));
  holders.note(attachment("3"));
  assert.deepEqual(await namesOf(holders), ["3", "1"]);
});

Deno.test("FormerHolders says once that it cannot write, and goes on", async () => {
  using site = new Site();
  const lines: string[] = [];
  configureLogging({ write: (line) => void lines.push(line) });
  const directory = `${site.directory}/later`;
  const holders = site.open(`${directory}/coild.sock.former`);
  holders.note(attachment("1"));
  holders.note(attachment("2"));
  assert.equal(lines.length, 1, lines.join());
  assert.match(lines.join(), /Cannot note who had an address/);
  await Deno.mkdir(directory);
  holders.note(attachment("3"));
  assert.deepEqual(await namesOf(holders), ["3"]);
  configureLogging({ write: () => {} });
});

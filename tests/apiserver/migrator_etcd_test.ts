// What reads v1's state, against real etcds: the lab's own, and Debian's older
// one with TLS, client certificates and users.
import assert from "node:assert/strict";
import {
  EtcdClient,
  type EtcdClientOptions,
  EtcdError,
  parseEndpoint,
} from "../../lib/etcd/mod.ts";
import { testedCommands } from "../arch/pages.ts";
import { awaitedLater, ControlPlane } from "../lab/mod.ts";
import { migrate } from "./migrator_testing.ts";
import {
  base64,
  certificate,
  deadUrl,
  foreignCertificate,
  PREFIX,
  V1Etcd,
} from "./migrator_v1.ts";

const POOL = { subnets: ["10.64.0.0/24"], block_size: 3 };

let plane: ControlPlane;

Deno.test.beforeAll(async () => {
  plane = await ControlPlane.start({ name: "migrate-etcd" });
});

Deno.test.afterAll(async () => {
  await plane[Symbol.asyncDispose]();
});

function client(
  etcd: V1Etcd,
  options: Partial<EtcdClientOptions> = {},
): EtcdClient {
  return new EtcdClient({
    endpoints: [parseEndpoint(etcd.url)],
    timeoutMs: 20_000,
    ...options,
  });
}

Deno.test("migrate: etcd is read whole, page by page, as of one moment", async () => {
  await using etcd = await V1Etcd.start(plane);
  for (let i = 0; i < 25; i++) {
    await etcd.put({ [`pool/p${String(i).padStart(2, "0")}`]: POOL });
  }
  for (const pageSize of [1, 7, 25, 1000]) {
    const { entries } = await client(etcd, { pageSize }).readPrefix(PREFIX);
    assert.equal(entries.length, 25);
    assert.deepEqual(
      entries.map(({ key }) => key),
      entries.map(({ key }) => key).toSorted(),
    );
    assert.deepEqual(JSON.parse(entries[24]?.value ?? ""), POOL);
  }
  // The keys are written in their order, round after round: at any moment, no later key has a later round.
  let round = 0;
  const stop = new AbortController();
  const writing = awaitedLater((async () => {
    while (!stop.signal.aborted) {
      round++;
      for (let i = 0; i < 25 && !stop.signal.aborted; i++) {
        const key = `pool/p${String(i).padStart(2, "0")}`;
        await etcd.put({ [key]: String(round) });
      }
    }
  })());
  const seen = new Set<string>();
  while (seen.size < 10) {
    const { entries } = await client(etcd, { pageSize: 2 }).readPrefix(PREFIX);
    const rounds = entries.map(({ value }) => Number(value) || 0);
    assert.deepEqual(rounds, rounds.toSorted((a, b) => b - a));
    assert.ok((rounds[0] ?? 0) - (rounds.at(-1) ?? 0) <= 1, rounds.join());
    seen.add(rounds.join());
  }
  stop.abort();
  await writing;

  // Values that do not fit one answer, and one that never will.
  const large = "x".repeat(1_000_000);
  for (let i = 0; i < 9; i++) await etcd.put({ [`pool/q${i}`]: large });
  const { entries } = await client(etcd).readPrefix(`${PREFIX}pool/q`);
  assert.deepEqual(
    entries.map(({ value }) => value.length),
    Array(9).fill(1_000_000),
  );
  assert.deepEqual((await client(etcd).readPrefix("/none/")).entries, []);
});

Deno.test("migrate: a member of etcd that does not answer is passed over, and a silent one not waited for", async () => {
  await using etcd = await V1Etcd.start(plane);
  await etcd.put({ "pool/default": POOL });
  const dead = parseEndpoint(deadUrl(plane));
  const endpoints = [dead, parseEndpoint(etcd.url)];
  const { entries } = await client(etcd, { endpoints }).readPrefix(PREFIX);
  assert.equal(entries.length, 1);

  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const silent = parseEndpoint(`http://127.0.0.1:${listener.addr.port}`);
  const accepted = listener.accept();
  const outcome = await client(etcd, {
    endpoints: [silent, dead],
    timeoutMs: 2_000,
  })
    .readPrefix(PREFIX).catch((error: unknown) => error);
  (await accepted).close();
  assert.ok(outcome instanceof EtcdError);
  assert.equal(outcome.kind, "unreachable");
  assert.match(outcome.message, /No answer within 2000 ms/);
  assert.match(outcome.message, /Connection refused/);
});

Deno.test("migrate: dump says what is wrong with etcd, and changes nothing", async () => {
  await using etcd = await V1Etcd.start(plane);
  const manifest = `${plane.runDir}/m.yaml`;
  const dump = (...args: string[]) =>
    migrate(plane, [
      ...["dump", "--yes", "--etcd-timeout=20s", `--output=${manifest}`],
      ...args,
    ]);
  const refused = async (why: RegExp, ...args: string[]) => {
    const { code, err } = await dump(...args);
    assert.equal(code, 1, err);
    assert.match(err, why);
    await assert.rejects(Deno.stat(manifest), Deno.errors.NotFound);
  };
  const here = `--etcd-endpoints=${etcd.url}`;
  await refused(
    /Connection refused[^]*--etcd-endpoints[^]*Nothing was changed/,
    `--etcd-endpoints=${deadUrl(plane)}`,
  );
  await refused(
    /no keys that begin with "\/coil\/"[^]*has no keys: is it the right etcd/,
    here,
  );
  await etcd.put({ "pool/default": POOL });
  await etcd.post("/v3/kv/put", { key: base64("/registry/x"), value: "" });
  await refused(
    /no keys that begin with "\/other\/"[^]*"\/coil\/", "\/registry\/"/,
    ...[here, "--etcd-prefix=/other/"],
  );
  await refused(/none of the 1 keys/, here, "--etcd-prefix=/registry/");
  await etcd.put({ "block/default/10.64.0.0": "{" });
  await refused(/key "\/coil\/block\/default\/10.64.0.0": /, here);
  await etcd.remove("block/default/10.64.0.0");
  // TLS to a server that has none.
  await refused(/Is this the etcd/, here.replace("http:", "https:"));
  await etcd.process.kill9();
  await refused(/Connection refused/, here);
});

Deno.test("migrate: certificates and users of etcd", async () => {
  await using etcd = await V1Etcd.start(plane, { secured: true });
  await etcd.put({ "pool/default": POOL });
  const coil = await certificate(plane, "coil");
  const stranger = await certificate(plane, "stranger");
  await etcd.post("/v3/auth/user/add", { name: "root", password: "secret" });
  await etcd.post("/v3/auth/user/grant", { user: "root", role: "root" });
  await etcd.post("/v3/auth/user/add", { name: "coil", password: "unused" });
  await etcd.post("/v3/auth/user/add", { name: "stranger", password: "x" });
  await etcd.post("/v3/auth/role/add", { name: "coil" });
  await etcd.post("/v3/auth/role/grant", {
    name: "coil",
    perm: {
      permType: "READWRITE",
      key: base64(PREFIX),
      range_end: base64("/coil0"),
    },
  });
  await etcd.post("/v3/auth/user/grant", { user: "coil", role: "coil" });
  await etcd.post("/v3/auth/enable", {});

  const passwordFile = `${plane.runDir}/password`;
  await Deno.writeTextFile(passwordFile, "secret\n");
  const ca = `--etcd-tls-ca=${plane.caFile}`;
  const as = ({ cert, key }: { cert: string; key: string }) => [
    ...[ca, `--etcd-tls-cert=${cert}`, `--etcd-tls-key=${key}`],
  ];
  const dump = (...args: readonly string[]) =>
    migrate(plane, [
      ...["dump", "--dry-run", "--output=-", "--etcd-timeout=20s"],
      ...[`--etcd-endpoints=${etcd.url}`, ...args],
    ]);
  const works = async (...args: string[]) => {
    const { code, err } = await dump(...args);
    assert.equal(code, 0, err);
    assert.match(err, /Coil v1: 1 pool, 0 blocks/);
  };
  const refused = async (why: RegExp, ...args: string[]) => {
    const { code, err } = await dump(...args);
    assert.equal(code, 1, err);
    assert.match(err, why);
  };
  // The user is the certificate's common name, as v1 had it.
  await works(...as(coil));
  await works(
    ...as(stranger),
    "--etcd-username=root",
    "--etcd-password=secret",
  );
  await works(
    ...[...as(stranger), "--etcd-username=root"],
    `--etcd-password-file=${passwordFile}`,
  );
  await refused(/permission denied[^]*--etcd-username/, ...as(stranger));
  await refused(
    /authentication failed[^]*--etcd-password-file/,
    ...[...as(coil), "--etcd-username=root", "--etcd-password=wrong"],
  );
  // What failed, at which endpoint, and what to do.
  const at = `Cannot read etcd at ${etcd.url}: `;
  const says = (what: string) => new RegExp(`${at}${what}`);
  await refused(
    says(
      "[^\\n]*UnknownIssuer\\netcd's certificate is not trusted: set --etcd-tls-ca",
    ),
  );
  await refused(
    says(
      "[^\\n]*(Bad|Required)[^\\n]*\\netcd requires a client certificate: set --etcd-tls-cert",
    ),
    ca,
  );
  const foreign = await foreignCertificate(plane, "coil");
  await refused(
    says(
      "[^\\n]*(UnknownCA|BadCert)[^\\n]*\\netcd rejects the certificate of --etcd-tls-cert: it must be a valid client certificate from a CA that etcd trusts[^]*Nothing was changed",
    ),
    ...as(foreign),
  );
  await refused(
    /KeyMismatch[^]*--etcd-tls-key/,
    ...as({ cert: coil.cert, key: stranger.key }),
  );
  const junk = `${plane.runDir}/junk`;
  await Deno.writeTextFile(junk, "junk");
  await refused(/--etcd-tls-cert/, ...as({ cert: junk, key: junk }));

  await dumpAsTheGuideSays(etcd, coil);
});

/** Runs the guide's command, with this lab's files and endpoint for those of the guide. */
async function dumpAsTheGuideSays(
  etcd: V1Etcd,
  { cert, key }: { readonly cert: string; readonly key: string },
): Promise<void> {
  const blocks = await testedCommands("docs/migrate.md", import.meta.url);
  const [command = "", ...more] = blocks.flat();
  assert.deepEqual(more, []);
  const manifest = `${plane.runDir}/guide.yaml`;
  const ours: Readonly<Record<string, string>> = {
    "https://10.0.0.1:2379,https://10.0.0.2:2379": `${etcd.url},${etcd.url}`,
    "etcd-ca.crt": plane.caFile,
    "coil.crt": cert,
    "coil.key": key,
    "coil-v2.yaml": manifest,
  };
  const [coil, name, ...args] = command.split(" ");
  assert.deepEqual([coil, name], ["coil", "migrate"]);
  const values = args.filter((word) => word in ours);
  assert.deepEqual(values, Object.keys(ours));
  const { code, err } = await migrate(
    plane,
    args.map((word) => ours[word] ?? word),
    { answer: true },
  );
  assert.equal(code, 0, err);
  assert.match(await Deno.readTextFile(manifest), /^kind: AddressPool$/m);
}

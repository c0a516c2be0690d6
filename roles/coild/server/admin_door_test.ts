import assert from "node:assert/strict";
import { untilPasses } from "../../../lib/async/testing.ts";
import {
  ADDRESSES_PATH,
  ADMIN_SOCKET_SUFFIX,
  askAddresses,
  askFormer,
  askRelease,
  type CallEntry,
  CALLS_PATH,
  CoildSilentError,
  FORMER_PATH,
  type FormerHolder,
  type NodeAddresses,
  RELEASE_PATH,
  type ReleaseAnswer,
  type ReleaseRequest,
} from "../../../lib/cnirpc/inspection/mod.ts";
import { Address } from "../../../lib/inet/mod.ts";
import { configureLogging } from "../../../lib/telemetry/mod.ts";
import { openAdminDoor } from "./admin_door.ts";

configureLogging({ write: () => {} });

const ANSWER: NodeAddresses = {
  node: "node1",
  kernel: [{
    containerId: "c1",
    ifname: "eth0",
    state: "up",
    addresses: ["10.2.0.9"],
  }],
  table: [],
  pods: [{
    namespace: "apps",
    name: "é\r\n\r\n",
    isEnding: false,
    addresses: [],
  }],
  blocks: {},
};

const CALLS: readonly CallEntry[] = [{
  method: "Add",
  containerId: "c1",
  ifname: "eth0",
  namespace: "apps",
  pod: "web-0",
  seconds: 6.5,
  phase: "address",
  phaseSeconds: 6.4,
}];

const FORMER: FormerHolder = {
  addresses: ["10.2.0.9", "fd02::9"],
  containerId: "c1",
  ifname: "eth0",
  until: "2026-01-01T00:00:00.000Z",
};

/** Only one address has had another holder. */
async function former(address: Address): Promise<readonly FormerHolder[]> {
  if (`${address}` === "10.2.0.10") throw new Error("the disk is away");
  return FORMER.addresses.includes(`${address}`) ? [FORMER] : [];
}

const NO_RELEASE = () => Promise.reject(new Error("not asked for"));

/** Opens the door at a socket of its own while the test runs. */
async function withDoor(
  read: () => Promise<NodeAddresses>,
  test: (socketPath: string) => Promise<void>,
  release: (request: ReleaseRequest) => Promise<ReleaseAnswer> = NO_RELEASE,
): Promise<void> {
  const directory = await Deno.makeTempDir();
  const socketPath = `${directory}/coild.sock`;
  const stop = new AbortController();
  const { finished } = await openAdminDoor({
    socketPath,
    read,
    former,
    release,
    calls: () => CALLS,
    signal: stop.signal,
  });
  try {
    await test(socketPath);
  } finally {
    stop.abort();
    await finished;
    await Deno.remove(directory, { recursive: true });
  }
}

/** What comes back for a request's first line. */
async function ask(socketPath: string, line: string): Promise<string> {
  const path = socketPath + ADMIN_SOCKET_SUFFIX;
  using connection = await Deno.connect({ transport: "unix", path });
  const request = `${line} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n`;
  await connection.write(new TextEncoder().encode(request));
  return await new Response(connection.readable).text();
}

function asking(socketPath: string, ms = 60_000): Promise<NodeAddresses> {
  return askAddresses(socketPath, { signal: AbortSignal.timeout(ms) });
}

Deno.test("the door for administrators returns addresses, and is closed to all but root", async () => {
  await withDoor(async () => ANSWER, async (socketPath) => {
    assert.deepEqual(await asking(socketPath), ANSWER);
    const { mode } = await Deno.stat(socketPath + ADMIN_SOCKET_SUFFIX);
    assert.equal((mode ?? 0) & 0o777, 0o600);
  });
});

Deno.test("the door for administrators returns the calls under way", async () => {
  await withDoor(async () => ANSWER, async (socketPath) => {
    const answer = await ask(socketPath, `GET ${CALLS_PATH}`);
    assert.match(answer, /^HTTP\/1.1 200 /);
    const [, body = ""] = answer.split("\r\n\r\n");
    assert.deepEqual(JSON.parse(body), CALLS);
    const refused = await ask(socketPath, `POST ${CALLS_PATH}`);
    assert.match(refused, /^HTTP\/1.1 405 /);
  });
});

Deno.test("the door for administrators returns who had an address", async () => {
  await withDoor(async () => ANSWER, async (socketPath) => {
    const askingFor = (text: string) =>
      askFormer(socketPath, {
        address: Address.parse(text),
        signal: AbortSignal.timeout(60_000),
      });
    assert.deepEqual(await askingFor("fd02::9"), [FORMER]);
    assert.deepEqual(await askingFor("10.2.0.8"), []);
    await assert.rejects(askingFor("10.2.0.10"), /answered "HTTP\/1.1 503 /);
    for (const query of ["", "?address=", "?address=x"]) {
      assert.match(
        await ask(socketPath, `GET ${FORMER_PATH}${query}`),
        /^HTTP\/1.1 400 [^]*it needs \?address=ADDRESS/,
      );
    }
  });
});

Deno.test("the door for administrators has a method for each path", async () => {
  await withDoor(async () => ANSWER, async (socketPath) => {
    assert.match(await ask(socketPath, "GET /"), /^HTTP\/1.1 404 /);
    assert.match(
      await ask(socketPath, "GET /v1/addresses/x"),
      /^HTTP\/1.1 404 /,
    );
    for (
      const line of [
        ...["POST", "DELETE", "PUT"].map((m) => `${m} ${ADDRESSES_PATH}`),
        ...["GET", "DELETE", "PUT"].map((m) => `${m} ${RELEASE_PATH}`),
      ]
    ) {
      assert.match(await ask(socketPath, line), /^HTTP\/1.1 4(05|11) /, line);
    }
  });
});

Deno.test("requests at the same time get the same answer, and too many get none", async () => {
  const answers = Promise.withResolvers<NodeAddresses>();
  let reads = 0;
  const read = () => {
    reads++;
    return answers.promise;
  };
  await withDoor(read, async (socketPath) => {
    const all = Array.from({ length: 40 }, () => asking(socketPath));
    const settled = Promise.allSettled(all);
    await untilPasses(() => assert.equal(reads, 1));
    answers.resolve(ANSWER);
    const ended = await settled;
    const outcomes = ended.map(({ status }) => status);
    for (const outcome of ended) {
      if (outcome.status === "fulfilled") continue;
      assert.match(outcome.reason.message, /too many ask|reset|Broken pipe/);
    }
    const served = outcomes.filter((status) => status === "fulfilled");
    assert.ok(
      served.length > 0 && served.length < all.length,
      `${served.length}`,
    );
    assert.ok(reads <= served.length);
  });
});

Deno.test("without the door for administrators the daemon goes on", async () => {
  const socketPath = `/tmp/${"x".repeat(100)}`;
  const { finished } = await openAdminDoor({
    socketPath,
    read: async () => ANSWER,
    former,
    release: NO_RELEASE,
    calls: () => CALLS,
    signal: new AbortController().signal,
  });
  await finished;
});

Deno.test("askAddresses() says why there is no answer", async () => {
  const refused = (why: RegExp) => (error: unknown) => {
    assert.ok(error instanceof CoildSilentError);
    assert.match(error.message, /^Cannot ask coild at "\S+coild.sock.admin": /);
    assert.match(error.message, why);
    return true;
  };
  const directory = await Deno.makeTempDir();
  const nobody = `${directory}/coild.sock`;
  await assert.rejects(asking(nobody), refused(/No such file/));
  // Listens, and says nothing.
  using _silent = Deno.listen({
    transport: "unix",
    path: nobody + ADMIN_SOCKET_SUFFIX,
  });
  await assert.rejects(asking(nobody, 50), refused(/timeout/));
  await Deno.remove(directory, { recursive: true });
  const failing = () => Promise.reject(new Error("netlink is away"));
  await withDoor(failing, async (socketPath) => {
    await assert.rejects(
      asking(socketPath),
      refused(/it answered "HTTP\/1.1 503 .*cannot read the node's addresses/),
    );
  });
  const empty = JSON.parse("{}");
  await withDoor(async () => empty, async (socketPath) => {
    await assert.rejects(asking(socketPath), refused(/has no addresses/));
  });
});

Deno.test("askRelease() hands over what was seen, and brings back what became of it", async () => {
  const entry = { containerId: "c1", ifname: "eth0", generation: 7 };
  const request = { entries: [entry], dryRun: true };
  const result = { ...entry, addresses: ["10.2.0.9"], why: "é" };
  const answer = { results: [{ ...result, outcome: "kept" as const }] };
  const asked: ReleaseRequest[] = [];
  const release = (wanted: ReleaseRequest) => {
    asked.push(wanted);
    return Promise.resolve(answer);
  };
  await withDoor(async () => ANSWER, async (socketPath) => {
    const signal = AbortSignal.timeout(60_000);
    assert.deepEqual(
      await askRelease(socketPath, { ...request, signal }),
      answer,
    );
  }, release);
  assert.deepEqual(asked, [request]);
});

Deno.test("a request to release that cannot be read frees nothing, and one that fails says so", async () => {
  await withDoor(async () => ANSWER, async (socketPath) => {
    const path = socketPath + ADMIN_SOCKET_SUFFIX;
    const post = async (body: string) => {
      using connection = await Deno.connect({ transport: "unix", path });
      const request =
        `POST ${RELEASE_PATH} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      await connection.write(new TextEncoder().encode(request));
      return await new Response(connection.readable).text();
    };
    for (
      const body of [
        "",
        "{}",
        '{"entries":[]}',
        '{"entries":[{"containerId":"c","ifname":"eth0"}],"dryRun":false}',
      ]
    ) assert.match(await post(body), /^HTTP\/1.1 400 /, body);
    assert.match(
      await post('{"entries":[],"dryRun":false}'),
      /^HTTP\/1.1 503 [^]*cannot free the node's addresses/,
    );
  });
});

import assert from "node:assert/strict";
import { sleep, untilAborted } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import { parseResult } from "../../../lib/cni/mod.ts";
import { SocketPathError } from "../../../lib/grpc/mod.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import type { PluginOutcome } from "../observe/metrics.ts";
import { type CallContext, CniCalls } from "../service/cni_calls.ts";
import { openDoors } from "./doors.ts";
import { servePlugins } from "./plugin_server.ts";

type Handler = (request: CniRequest, context: CallContext) => Promise<unknown>;

/** coild's doors, with this ADD behind them. */
class Site implements AsyncDisposable {
  readonly socket: string;
  /** What became of the calls. */
  readonly outcomes: PluginOutcome[] = [];
  readonly #directory: string;
  readonly #stop = new AbortController();
  #ended: Promise<unknown> = Promise.resolve();

  private constructor(directory: string) {
    this.#directory = directory;
    this.socket = `${directory}/coild.sock`;
  }

  static async make(
    add: Handler,
    // A stop waits for its calls, however long a busy machine takes for them.
    { calls = callsOf(add), graceMs = 60_000 }: {
      readonly calls?: CniCalls;
      readonly graceMs?: number;
    } = {},
  ): Promise<Site> {
    const site = new Site(await Deno.makeTempDir());
    const { socket: socketPath } = site;
    const { signal } = site.#stop;
    const { finished } = await openDoors({
      calls,
      socketPath,
      signal,
      graceMs,
      onOutcome: (outcome) => site.outcomes.push(outcome),
    });
    site.#ended = finished;
    return site;
  }

  connect(): Promise<Deno.UnixConn> {
    return Deno.connect({ transport: "unix", path: `${this.socket}.cni` });
  }

  /** Sends a request; all that comes back until the end. */
  async call(request: Uint8Array): Promise<string> {
    using connection = await this.connect();
    await writeAll(connection, request);
    return await new Response(connection.readable).text();
  }

  stop(): Promise<unknown> {
    this.#stop.abort();
    return this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

function callsOf(add: Handler): CniCalls {
  const nothing = () => Promise.resolve();
  return new CniCalls({
    methods: {
      add: async (request, context) => parseResult(await add(request, context)),
      del: nothing,
      check: nothing,
      gc: nothing,
      status: nothing,
    },
  });
}

async function writeAll(
  connection: Deno.UnixConn,
  bytes: Uint8Array,
): Promise<void> {
  for (let rest = bytes; rest.length > 0;) {
    rest = rest.subarray(await connection.write(rest));
  }
}

const RESULT = {
  cniVersion: "1.0.0",
  ips: [{ address: "10.1.2.3/32" }],
};

function requestOf(
  conf: Record<string, unknown>,
  env: Record<string, string> = {},
): Uint8Array {
  const encoder = new TextEncoder();
  const all = {
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "cid0",
    CNI_NETNS: "/run/netns/none",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/opt/cni/bin",
    ...env,
  };
  const variables = encoder.encode(
    Object.entries(all).map(([name, value]) => `${name}=${value}\0`).join(""),
  );
  const stdin = encoder.encode(
    JSON.stringify({ cniVersion: "1.0.0", name: "n", type: "coil", ...conf }),
  );
  const head = new Uint8Array(16);
  head.set(encoder.encode("COILCNI1"));
  new DataView(head.buffer).setUint32(8, variables.length, true);
  new DataView(head.buffer).setUint32(12, stdin.length, true);
  return new Uint8Array([...head, ...variables, ...stdin]);
}

/** The JSON after an answer's head. */
function bodyOf(answer: string) {
  assert.equal(answer.slice(0, 8), "COILCNI1");
  return JSON.parse(answer.slice(16));
}

Deno.test("the front gets what the plugin would print", async () => {
  const seen: CniRequest[] = [];
  await using site = await Site.make((args) => {
    seen.push(args);
    return Promise.resolve(RESULT);
  });
  const answer = await site.call(requestOf({ socket: site.socket }));
  assert.equal(answer.charCodeAt(8), 0);
  const { cniVersion, ips } = bodyOf(answer);
  assert.equal(cniVersion, "1.0.0");
  assert.deepEqual(ips, [{ address: "10.1.2.3/32" }]);
  assert.deepEqual(
    seen.map(({ containerId, ifname }) => [containerId, ifname]),
    [["cid0", "eth0"]],
  );
});

Deno.test("each command of the front is carried out as what it is", async () => {
  const done: string[] = [];
  const note = (command: string) => () => {
    done.push(command);
    return Promise.resolve();
  };
  const calls = new CniCalls({
    methods: {
      add: async () => {
        await note("ADD")();
        return parseResult(RESULT);
      },
      del: note("DEL"),
      check: note("CHECK"),
      gc: note("GC"),
      status: note("STATUS"),
    },
  });
  await using site = await Site.make(() => assert.fail(), { calls });
  const commands = ["ADD", "DEL", "CHECK", "GC", "STATUS"];
  for (const command of commands) {
    const conf = {
      cniVersion: "1.1.0",
      socket: site.socket,
      prevResult: { ...RESULT, cniVersion: "1.1.0" },
      "cni.dev/valid-attachments": [],
    };
    const answer = await site.call(requestOf(conf, { CNI_COMMAND: command }));
    assert.equal(answer.charCodeAt(8), 0, answer);
  }
  assert.deepEqual(done, commands);
});

Deno.test("the front gets the plugin's errors, coild's and those of the configuration", async () => {
  await using site = await Site.make(() => {
    throw new Error("out of addresses");
  });
  const { socket } = site;
  const failed = await site.call(requestOf({ socket }));
  assert.equal(failed.charCodeAt(8), 1);
  assert.equal(bodyOf(failed).msg, "out of addresses");
  const refused = await site.call(requestOf({ socket, cniVersion: "9.9.9" }));
  assert.equal(bodyOf(refused).code, 1);
  const own = { CNI_NETNS: "/proc/self/ns/net" };
  assert.equal(bodyOf(await site.call(requestOf({ socket }, own))).code, 8);
});

Deno.test("a call for another coild is not answered: the whole program asks that one", async () => {
  let calls = 0;
  await using site = await Site.make(() => Promise.resolve(++calls));
  assert.equal(await site.call(requestOf({ socket: "/run/other.sock" })), "");
  // Without a socket in the configuration it is the default one.
  assert.equal(await site.call(requestOf({})), "");
  assert.equal(calls, 0);
  assert.deepEqual(site.outcomes, ["other-socket", "other-socket"]);
});

Deno.test("what is no request is not answered, and harms nobody", async () => {
  await using site = await Site.make(() => Promise.resolve(RESULT));
  const garbage = ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "x", "COILCNI2xxxxxxxx"];
  for (const text of garbage) {
    assert.equal(await site.call(new TextEncoder().encode(text)), "");
  }
  const request = requestOf({ socket: site.socket });
  const more = new Uint8Array([...request, 0]);
  assert.equal(await site.call(more), "");
  {
    using half = await site.connect();
    await half.write(request.subarray(0, 20));
  }
  bodyOf(await site.call(request));
  const bad = site.outcomes.filter((outcome) => outcome === "unusable");
  assert.equal(bad.length, garbage.length + 1);
  assert.equal(site.outcomes.at(-1), "answered");
});

Deno.test("a request that comes byte by byte is answered, and a large one", async () => {
  await using site = await Site.make((args) =>
    Promise.resolve({ ...RESULT, padding: args.stdinData.length })
  );
  const request = requestOf({ socket: site.socket });
  using connection = await site.connect();
  for (const byte of request) await connection.write(new Uint8Array([byte]));
  bodyOf(await new Response(connection.readable).text());
  const padding = "x".repeat(200_000);
  bodyOf(await site.call(requestOf({ socket: site.socket, padding })));
});

Deno.test("a call whose plugin has gone is aborted", async () => {
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<unknown>();
  await using site = await Site.make(async (_args, { signal }) => {
    begun.resolve();
    await untilAborted(signal);
    ended.resolve(signal.reason);
    return {};
  });
  {
    using connection = await site.connect();
    await connection.write(requestOf({ socket: site.socket }));
    await begun.promise;
  }
  assert.match(String(await ended.promise), /closed by the caller/);
  // The answer that nobody takes is no failure.
  await untilPasses(() => assert.deepEqual(site.outcomes, ["answered"]));
});

Deno.test("a call under way when the server is stopped gets its answer, a later one none", async () => {
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  let calls = 0;
  await using site = await Site.make(async () => {
    calls++;
    begun.resolve();
    await go.promise;
    return RESULT;
  });
  const early = await site.connect();
  const answer = site.call(requestOf({ socket: site.socket }));
  await begun.promise;
  const stopped = site.stop();
  const later = requestOf({ socket: site.socket });
  // Refused, or closed with the socket.
  assert.equal(await site.call(later).catch(() => ""), "");
  // Who had connected and not asked is sent away at once.
  assert.equal(await new Response(early.readable).text().catch(() => ""), "");
  go.resolve();
  bodyOf(await answer);
  await stopped;
  assert.equal(calls, 1);
});

Deno.test("a call that goes on after the time of a stop is ended, and says so", async () => {
  const begun = Promise.withResolvers<void>();
  await using site = await Site.make(async (_args, { signal }) => {
    begun.resolve();
    await untilAborted(signal);
    return {};
  }, { graceMs: 300 });
  const answer = site.call(requestOf({ socket: site.socket }));
  await begun.promise;
  await site.stop();
  assert.match(bodyOf(await answer).msg, /Server is stopping/);
});

Deno.test("the stop waits for the work of a call whose plugin has gone", async () => {
  const begun = Promise.withResolvers<void>();
  const undo = Promise.withResolvers<void>();
  const order: string[] = [];
  await using site = await Site.make(async (_args, { signal }) => {
    begun.resolve();
    await untilAborted(signal);
    await undo.promise;
    order.push("undone");
    return {};
  });
  {
    using connection = await site.connect();
    await writeAll(connection, requestOf({ socket: site.socket }));
    await begun.promise;
  }
  const stopped = site.stop().then(() => order.push("stopped"));
  await sleep(50);
  undo.resolve();
  await stopped;
  assert.deepEqual(order, ["undone", "stopped"]);
});

Deno.test("an answer that the front cannot hold is left to the whole program", async () => {
  await using site = await Site.make(() =>
    Promise.resolve({
      ...RESULT,
      dns: { nameservers: ["x".repeat(300_000)] },
    })
  );
  assert.equal(await site.call(requestOf({ socket: site.socket })), "");
  assert.deepEqual(site.outcomes, ["unusable"]);
});

Deno.test("a call of the whole program is answered for any socket in its configuration, and in any size", async () => {
  const nameservers = ["x".repeat(300_000)];
  await using site = await Site.make(() =>
    Promise.resolve({ ...RESULT, dns: { nameservers } })
  );
  const socket = "/run/link-to-coild.sock";
  const env = { COIL_SOCKET: socket };
  const padding = "x".repeat(400_000);
  const answer = bodyOf(await site.call(requestOf({ socket, padding }, env)));
  assert.deepEqual(answer.dns.nameservers, nameservers);
  assert.deepEqual(site.outcomes, ["answered"]);
});

Deno.test("requests that are said to be large take memory from each other, not from the usual ones", async () => {
  await using site = await Site.make(() => Promise.resolve(RESULT));
  const request = requestOf({ socket: site.socket });
  for (const [bytes, count] of [[4 << 20, 7], [250_000, 268]] as const) {
    const large = request.slice();
    new DataView(large.buffer).setUint32(12, bytes, true);
    const connections: Deno.UnixConn[] = [];
    for (let i = 0; i < count; i++) {
      const connection = await site.connect();
      await writeAll(connection, large);
      connections.push(connection);
    }
    assert.equal(await site.call(large), "");
    // All before it had room.
    assert.deepEqual(site.outcomes.splice(0), ["unusable"]);
    bodyOf(await site.call(request));
    assert.deepEqual(site.outcomes.splice(0), ["answered"]);
    for (const connection of connections) connection.close();
  }
});

Deno.test("connections that say nothing make room for calls", async () => {
  await using site = await Site.make(() => Promise.resolve(RESULT));
  const silent: Deno.UnixConn[] = [];
  for (let i = 0; i < 1_100; i++) silent.push(await site.connect());
  bodyOf(await site.call(requestOf({ socket: site.socket })));
  for (const connection of silent) connection.close();
});

Deno.test("a plugin that sends no request, or does not take its answer, is not waited for; a call that takes as long is", async () => {
  const directory = await Deno.makeTempDir();
  const socketPath = `${directory}/coild.sock`;
  const stop = new AbortController();
  const outcomes: PluginOutcome[] = [];
  const go = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  // More than the socket holds.
  const stdout = "x".repeat(8 << 20);
  const { finished } = await servePlugins({
    perform: async ({ request }) => {
      if (request.containerId !== "slow") return { stdout, exitCode: 0 };
      begun.resolve();
      await go.promise;
      return { stdout: "{}", exitCode: 0 };
    },
    socketPath,
    signal: stop.signal,
    onOutcome: (outcome) => outcomes.push(outcome),
    // Longer than this process may be held up: all connections stall then.
    stallMs: 500,
  });
  const connect = () =>
    Deno.connect({ transport: "unix", path: `${socketPath}.cni` });
  const textOf = (connection: Deno.UnixConn) =>
    new Response(connection.readable).text();
  const env = { COIL_SOCKET: socketPath };
  const request = requestOf({}, env);
  using slow = await connect();
  await writeAll(slow, requestOf({}, { ...env, CNI_CONTAINERID: "slow" }));
  await begun.promise;
  using silent = await connect();
  assert.equal(await textOf(silent), "");
  using half = await connect();
  await writeAll(half, request.subarray(0, 20));
  assert.equal(await textOf(half), "");
  using deaf = await connect();
  await writeAll(deaf, request);
  await untilPasses(() => assert.deepEqual(outcomes, ["answered"]));
  assert.ok((await textOf(deaf)).length < stdout.length);
  go.resolve();
  assert.equal((await textOf(slow)).slice(16), "{}");
  stop.abort();
  await finished;
  await Deno.remove(directory, { recursive: true });
});

Deno.test("where the socket's path is too long coild says so and does not start", async () => {
  const directory = await Deno.makeTempDir();
  const name = "s".repeat(106 - directory.length);
  await assert.rejects(
    servePlugins({
      perform: () => Promise.resolve(undefined),
      socketPath: `${directory}/${name}`,
      signal: new AbortController().signal,
    }),
    SocketPathError,
  );
  await Deno.remove(directory);
});

// The contract, served, and called by grpc-js's client; grpcurl calls it in
// tests/executable/interop_test.ts.
import assert from "node:assert/strict";
import { sleep } from "../../../lib/async/mod.ts";
import { untilPasses } from "../../../lib/async/testing.ts";
import { Buffer } from "node:buffer";
import { Client, credentials, type ServiceError } from "@grpc/grpc-js";
import {
  create,
  createFileRegistry,
  fromBinary,
  toBinary,
} from "@bufbuild/protobuf";
import {
  FileDescriptorProtoSchema,
  FileDescriptorSetSchema,
} from "@bufbuild/protobuf/wkt";
import { anyUnpack } from "@bufbuild/protobuf/wkt";
import type { Result } from "../../../lib/cni/mod.ts";
import {
  AddResponseSchema,
  CNI,
  type CNIArgs,
  CNIArgsSchema,
  CNIErrorSchema,
  StatusSchema,
} from "../../../lib/cnirpc/mod.ts";
import {
  ServerReflectionRequestSchema,
  ServerReflectionResponseSchema,
} from "../../../lib/grpc/gen/reflection/v1_pb.ts";
import { codeName, GrpcError, SocketPathError } from "../../../lib/grpc/mod.ts";
import { callUnary } from "../../../lib/grpc/testing.ts";
import type { CniRequest } from "../../../lib/plugin/mod.ts";
import {
  configureLogging,
  createRegistry,
  getLogger,
  type Registry,
} from "../../../lib/telemetry/mod.ts";
import { CallError } from "../base/errors.ts";
import { type CallContext, CniCalls } from "../service/cni_calls.ts";
import {
  METHOD_NAMES,
  type MethodName,
  SERVICE_NAME,
} from "../service/method_names.ts";
import { openDoors } from "./doors.ts";

/** Of the request of a call. */
type Changes = Partial<Omit<CNIArgs, "$typeName" | "$unknown">>;

type Handler = (request: CniRequest, context: CallContext) => Promise<unknown>;

const EMPTY: Result = {
  cniVersion: "1.1.0",
  interfaces: [],
  ips: [],
  routes: [],
  dns: {},
};

/** A server of the CNI service in a directory of its own. */
class TestServer implements AsyncDisposable {
  readonly lines: Record<string, unknown>[] = [];
  readonly registry = createRegistry({ defaults: false });
  readonly #abort = new AbortController();
  readonly #directory = Deno.makeTempDirSync();
  readonly path = `${this.#directory}/s`;
  #finished: Promise<unknown> | undefined;

  static async start(handler: Handler, graceMs = 1000): Promise<TestServer> {
    const server = new TestServer();
    configureLogging({ write: (line) => server.lines.push(JSON.parse(line)) });
    const { finished } = await openDoors({
      calls: callsOf(handler, server.registry),
      socketPath: server.path,
      signal: server.#abort.signal,
      graceMs,
    });
    server.#finished = finished;
    return server;
  }

  async call(
    method: MethodName,
    changes: Changes = {},
    timeoutMs = 60_000,
  ): Promise<Uint8Array> {
    return await callUnary({
      socketPath: this.path,
      method: methodPath(method),
      message: encodeArgs(changes),
      timeoutMs,
    });
  }

  async failure(...args: Parameters<TestServer["call"]>): Promise<GrpcError> {
    const error = await this.call(...args).catch((error: unknown) => error);
    assert.ok(error instanceof GrpcError, String(error));
    return error;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#finished;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

function callsOf(handler: Handler, registry?: Registry): CniCalls {
  const none = async (request: CniRequest, context: CallContext) => {
    await handler(request, context);
  };
  const add = async (request: CniRequest, context: CallContext) => {
    const domain = await handler(request, context);
    return typeof domain === "string" ? { ...EMPTY, dns: { domain } } : EMPTY;
  };
  const methods = { add, del: none, check: none, gc: none, status: none };
  return new CniCalls(registry ? { methods, registry } : { methods });
}

function methodPath(method: MethodName): string {
  return `/pkg.cnirpc.CNI/${method}`;
}

function encodeArgs(changes: Changes = {}): Uint8Array {
  const args = {
    containerId: "cid0",
    netns: "/run/netns/b0",
    ifname: "eth0",
    args: { K8S_POD_NAME: "pod", K8S_POD_NAMESPACE: "ns" },
    path: "/opt/cni/bin",
    stdinData: new TextEncoder().encode("{}"),
    ...changes,
  };
  return toBinary(CNIArgsSchema, create(CNIArgsSchema, args));
}

/** The domain in the answer to ADD, which a handler put there. */
function domainIn(answer: Uint8Array): string {
  const { result } = fromBinary(AddResponseSchema, answer);
  return JSON.parse(new TextDecoder().decode(result)).dns.domain;
}

function cniErrorIn({ statusDetails }: GrpcError) {
  assert.ok(statusDetails);
  const [detail, ...others] = fromBinary(StatusSchema, statusDetails).details;
  assert.ok(detail && others.length === 0);
  const error = anyUnpack(detail, CNIErrorSchema);
  assert.ok(error);
  const { code, msg, details } = error;
  return { code, msg, details };
}

const echo: Handler = ({ stdinData }) =>
  Promise.resolve(new TextDecoder().decode(stdinData));

Deno.test("the service and its methods have the names of the contract", () => {
  assert.equal(SERVICE_NAME, CNI.typeName);
  assert.deepEqual([...METHOD_NAMES], CNI.methods.map(({ name }) => name));
});

Deno.test("serve() answers", async () => {
  await using server = await TestServer.start(echo);
  assert.equal(domainIn(await server.call("Add")), "{}");
  assert.equal((await server.call("Del")).length, 0);
});

Deno.test("serve() answers a request larger than every window", async () => {
  await using server = await TestServer.start(echo);
  const stdinData = new Uint8Array(1_000_000).fill(0x78);
  const answer = await server.call("Add", { stdinData });
  assert.equal(domainIn(answer), "x".repeat(1_000_000));
});

Deno.test("serve() answers many at once", async () => {
  await using server = await TestServer.start(async (args) => {
    await sleep(5);
    return args.containerId;
  });
  const calls = Array.from(
    { length: 100 },
    (_, i) => server.call("Add", { containerId: `${i}` }),
  );
  const answers = await Promise.all(calls);
  assert.deepEqual(answers.map(domainIn), answers.map((_, i) => `${i}`));
});

Deno.test("SV-14: serve() hands over code, message and details", async () => {
  await using server = await TestServer.start(() => {
    throw new CallError("später", { status: 14, code: 11, details: "d" });
  });
  const error = await server.failure("Add");
  assert.equal(error.code, 14);
  assert.equal(error.message, "später");
  assert.deepEqual(cniErrorIn(error), {
    code: 11,
    msg: "später",
    details: "d",
  });
});

Deno.test("W2: serve() survives anything that a handler throws", async () => {
  const thrown: unknown[] = [new Error("boom"), "text", undefined, null];
  await using server = await TestServer.start(() => {
    throw thrown.shift();
  });
  const messages: string[] = [];
  for (let i = thrown.length; i > 0; i--) {
    const error = await server.failure("Check");
    assert.equal(codeName(error.code), "Internal");
    messages.push(error.message);
  }
  assert.deepEqual(messages, ["boom", "text", "undefined", "null"]);
});

Deno.test("serve() refuses a message that cannot be decoded", async () => {
  await using server = await TestServer.start(echo);
  const error = await callUnary({
    socketPath: server.path,
    method: methodPath("Add"),
    message: Uint8Array.of(0xff),
  }).catch((error: unknown) => error);
  assert.ok(error instanceof GrpcError);
  assert.equal(codeName(error.code), "InvalidArgument");
});

Deno.test("serve() refuses a message of 20 MiB, and goes on", async () => {
  await using server = await TestServer.start(echo);
  const stdinData = new Uint8Array(20 << 20);
  const error = await server.failure("Add", { stdinData });
  assert.equal(codeName(error.code), "ResourceExhausted");
  assert.equal(domainIn(await server.call("Add")), "{}");
});

Deno.test("serve() closes a connection that does not speak HTTP/2, and goes on", async () => {
  await using server = await TestServer.start(echo);
  for (const text of ["GET / HTTP/1.1\r\n\r\n", "COILCNI1".padEnd(64, "x")]) {
    using socket = await Deno.connect({ transport: "unix", path: server.path });
    await socket.write(new TextEncoder().encode(text));
    const buffer = new Uint8Array(4096);
    // What it says before is HTTP/2's.
    while (await socket.read(buffer).catch(() => null) !== null);
  }
  assert.equal(domainIn(await server.call("Add")), "{}");
});

Deno.test("serve() aborts the signal when the caller's deadline passes", async () => {
  const aborted = Promise.withResolvers<unknown>();
  await using server = await TestServer.start(
    async (_args, { signal, remainingMs }) => {
      assert.ok(remainingMs && remainingMs <= 1_000);
      const { promise, reject } = Promise.withResolvers<never>();
      signal.addEventListener("abort", () => {
        aborted.resolve(signal.reason);
        reject(signal.reason);
      });
      await promise;
    },
  );
  const error = await callUnary({
    socketPath: server.path,
    method: methodPath("Add"),
    message: encodeArgs({}),
    // A caller that hangs up at its deadline may be first.
    deadlineMs: 1_000,
  }).catch((error: unknown) => error);
  assert.ok(error instanceof GrpcError);
  assert.equal(codeName(error.code), "DeadlineExceeded");
  const reason = await aborted.promise;
  assert.ok(reason instanceof CallError && reason.status === 4);
});

Deno.test("serve() aborts the signal when the caller goes away", async () => {
  const [started, aborted] = [0, 1].map(() => Promise.withResolvers<unknown>());
  assert.ok(started && aborted);
  await using server = await TestServer.start(async (_args, { signal }) => {
    signal.addEventListener("abort", () => aborted.resolve(signal.reason));
    started.resolve(undefined);
    await aborted.promise;
  });
  const abort = new AbortController();
  const call = callUnary({
    socketPath: server.path,
    method: methodPath("Add"),
    message: encodeArgs(),
    signal: abort.signal,
  });
  await started.promise;
  abort.abort();
  await assert.rejects(call);
  const reason = await aborted.promise;
  assert.ok(reason instanceof CallError && reason.status === 1);
});

Deno.test("SV-4: serve() logs each call with the request's fields", async () => {
  await using server = await TestServer.start((args) => {
    getLogger("inner").info("inside");
    if (args.containerId === "cid0") return Promise.resolve(args.stdinData);
    throw new CallError("no", { status: Number(args.ifname), code: 3 });
  });
  await server.call("Add");
  await untilPasses(() => assert.equal(server.lines.length, 2));
  const [inner, finished] = server.lines;
  const fields = {
    "grpc.request.container_id": "cid0",
    "grpc.request.ifname": "eth0",
    "grpc.request.netns": "/run/netns/b0",
    "grpc.request.pod.name": "pod",
    "grpc.request.pod.namespace": "ns",
  };
  for (const [name, value] of Object.entries(fields)) {
    assert.equal(inner?.[name], value, name);
    assert.equal(finished?.[name], value, name);
  }
  const call = {
    level: "info",
    logger: "grpc",
    msg: "finished call",
    protocol: "grpc",
    "grpc.component": "server",
    "grpc.service": "pkg.cnirpc.CNI",
    "grpc.method": "Add",
    "grpc.method_type": "unary",
    "peer.address": "@",
    "grpc.code": "OK",
  };
  for (const [name, value] of Object.entries(call)) {
    assert.equal(finished?.[name], value, name);
  }
  const isoTime = /^\d{4}-\d\d-\d\dT.*Z$/;
  assert.match(String(finished?.["grpc.start_time"]), isoTime);
  assert.match(String(finished?.["grpc.request.deadline"]), isoTime);
  assert.match(String(finished?.["grpc.time_ms"]), /^\d+\.\d+$/);
  for (const [code, level] of [[5, "info"], [9, "warn"], [13, "error"]]) {
    server.lines.length = 0;
    await server.failure("Del", { containerId: "x", ifname: String(code) });
    await untilPasses(() => assert.equal(server.lines.length, 2));
    const line = server.lines.at(-1);
    assert.equal(line?.["level"], level);
    assert.equal(line?.["grpc.error"], "no");
  }
});

function sample(text: string, name: string, labels: string[]): number {
  const line = text.split("\n").find((candidate) =>
    candidate.startsWith(`${name}{`) &&
    labels.every((label) => candidate.includes(label))
  );
  return line === undefined ? NaN : Number(line.split(" ").at(-1));
}

Deno.test("SV-4: serve() counts calls under upstream's names", async () => {
  await using server = await TestServer.start((args) => {
    if (args.containerId === "cid0") return Promise.resolve(args.stdinData);
    throw new CallError("no", { status: 5, code: 3 });
  });
  const add = [
    'grpc_type="unary"',
    'grpc_service="pkg.cnirpc.CNI"',
    'grpc_method="Add"',
  ];
  const before = await server.registry.metrics();
  const counters = ["started", "msg_received", "msg_sent"];
  for (const counter of counters) {
    assert.equal(sample(before, `grpc_server_${counter}_total`, add), 0);
  }
  for (const code of ["OK", "NotFound", "Internal", "Unauthenticated"]) {
    const labels = [...add, `grpc_code="${code}"`];
    assert.equal(sample(before, "grpc_server_handled_total", labels), 0);
  }
  await server.call("Add");
  await server.failure("Add", { containerId: "x" });
  let after = "";
  await untilPasses(async () => {
    after = await server.registry.metrics();
    const counts = counters.map((counter) =>
      sample(after, `grpc_server_${counter}_total`, add)
    );
    assert.deepEqual(counts, [2, 2, 1]);
    const seconds = "grpc_server_handling_seconds_count";
    assert.equal(sample(after, seconds, add), 2);
  });
  for (const code of ["OK", "NotFound"]) {
    const labels = [...add, `grpc_code="${code}"`];
    assert.equal(sample(after, "grpc_server_handled_total", labels), 1);
  }
});

Deno.test("serve() makes a socket for its user alone", async () => {
  await using server = await TestServer.start(echo);
  const { isSocket, mode } = await Deno.lstat(server.path);
  assert.ok(isSocket && mode !== null);
  assert.equal(mode & 0o777, 0o600);
  const names: string[] = [];
  for await (const { name } of Deno.readDir(server.path.replace(/s$/, ""))) {
    names.push(name);
  }
  assert.deepEqual(names.sort(), ["s", "s.cni"], "nothing beside them");
});

Deno.test("serve() takes the place of a socket that was left", async () => {
  await using first = await TestServer.start(echo);
  await first.stop();
  assert.ok((await Deno.lstat(first.path)).isSocket);
  const abort = new AbortController();
  const { finished } = await openDoors({
    calls: callsOf(() => Promise.resolve()),
    socketPath: first.path,
    signal: abort.signal,
  });
  assert.equal((await first.call("Status")).length, 0);
  abort.abort();
  await finished;
});

Deno.test("serve() never removes what is no socket", async () => {
  const directory = await Deno.makeTempDir();
  const paths = ["file", "link", "directory"].map((n) => `${directory}/${n}`);
  const [file = "", link = "", folder = ""] = paths;
  await Deno.writeTextFile(file, "precious");
  await Deno.symlink(file, link);
  await Deno.mkdir(folder);
  const { signal } = new AbortController();
  const calls = callsOf(() => Promise.resolve());
  for (const socketPath of paths) {
    await assert.rejects(
      openDoors({ calls, socketPath, signal }),
      SocketPathError,
    );
  }
  assert.equal(await Deno.readTextFile(link), "precious");
  const long = `${directory}/${"x".repeat(120)}`;
  await assert.rejects(
    openDoors({ calls, socketPath: long, signal }),
    /too long/,
  );
  await Deno.remove(directory, { recursive: true });
});

Deno.test("serve() lets running calls finish when it stops", async () => {
  const started = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  await using server = await TestServer.start(async (args) => {
    started.resolve();
    await release.promise;
    return args.containerId;
  });
  const call = server.call("Add");
  await started.promise;
  const stopped = server.stop();
  setTimeout(() => release.resolve(), 50);
  assert.equal(domainIn(await call), "cid0");
  await stopped;
});

Deno.test("serve() ends calls that do not finish in time", async () => {
  const started = Promise.withResolvers<void>();
  await using server = await TestServer.start(async (_args, { signal }) => {
    started.resolve();
    const { promise, reject } = Promise.withResolvers<never>();
    signal.addEventListener("abort", () => reject(signal.reason));
    await promise;
  }, 50);
  const failed = server.failure("Add");
  await started.promise;
  await server.stop();
  assert.ok(
    ["Unavailable", "Canceled"].includes(codeName((await failed).code)),
  );
});

for (const version of ["v1", "v1alpha"]) {
  Deno.test(`serve() describes itself by grpc.reflection.${version}`, async () => {
    await using server = await TestServer.start(echo);
    const ask = reflectionClient(server.path, version);
    const services = await ask({ case: "listServices", value: "" });
    assert.equal(services.case, "listServicesResponse");
    assert.deepEqual(services.value.service.map(({ name }) => name), [
      "grpc.reflection.v1.ServerReflection",
      "grpc.reflection.v1alpha.ServerReflection",
      "pkg.cnirpc.CNI",
    ]);
    const found = await ask({
      case: "fileContainingSymbol",
      value: "pkg.cnirpc.CNI",
    });
    assert.equal(found.case, "fileDescriptorResponse");
    const registry = createFileRegistry(
      create(FileDescriptorSetSchema, {
        file: found.value.fileDescriptorProto.map((bytes) =>
          fromBinary(FileDescriptorProtoSchema, bytes)
        ).reverse(),
      }),
    );
    const described = registry.getService("pkg.cnirpc.CNI");
    assert.deepEqual(
      described?.methods.map(({ name }) => name),
      CNI.methods.map(({ name }) => name),
    );
    for (
      const symbol of ["pkg.cnirpc.CNIArgs.netns", "pkg.cnirpc.CNI.Add"]
    ) {
      const answer = await ask({ case: "fileContainingSymbol", value: symbol });
      assert.equal(answer.case, "fileDescriptorResponse", symbol);
    }
    const file = await ask({ case: "fileByFilename", value: "cni.proto" });
    assert.equal(file.case, "fileDescriptorResponse");
    const unknown = await ask({ case: "fileContainingSymbol", value: "no" });
    assert.equal(unknown.case, "errorResponse");
    assert.equal(unknown.value.errorCode, 5);
  });
}

/** Asks one question per stream, as grpcurl would on one stream. */
function reflectionClient(path: string, version: string) {
  return async (
    messageRequest:
      & NonNullable<
        Parameters<typeof create<typeof ServerReflectionRequestSchema>>[1]
      >["messageRequest"]
      & object,
  ) => {
    const client = new Client(`unix:${path}`, credentials.createInsecure());
    const pass = (bytes: Buffer) => bytes;
    const stream = client.makeBidiStreamRequest<Buffer, Buffer>(
      `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
      pass,
      pass,
    );
    const answer = Promise.withResolvers<Buffer>();
    stream.on("data", (bytes: Buffer) => answer.resolve(bytes));
    stream.on("error", (error: ServiceError) => answer.reject(error));
    const ended = new Promise((resolve) => stream.on("end", resolve));
    const request = create(ServerReflectionRequestSchema, { messageRequest });
    stream.write(Buffer.from(toBinary(ServerReflectionRequestSchema, request)));
    const bytes = await answer.promise;
    stream.end();
    await ended;
    client.close();
    return fromBinary(ServerReflectionResponseSchema, bytes).messageResponse;
  };
}

Deno.test("serve() understands grpc-js's client", async () => {
  await using server = await TestServer.start(echo);
  const client = new Client(
    `unix:${server.path}`,
    credentials.createInsecure(),
  );
  const pass = (bytes: Buffer) => bytes;
  const request = toBinary(
    CNIArgsSchema,
    create(CNIArgsSchema, { netns: "n" }),
  );
  const answer = await new Promise<Buffer | undefined>((resolve, reject) => {
    client.makeUnaryRequest(
      methodPath("Status"),
      pass,
      pass,
      Buffer.from(request),
      (error, value) => error ? reject(error) : resolve(value),
    );
  });
  assert.equal(answer?.length, 0);
  client.close();
});
